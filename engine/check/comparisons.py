"""What a check compares: ids, pictures, next-token probabilities, greedy text, end tokens, memory, time and presets."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stepscope.engine.chat.answering import AnswerEnd
from stepscope.engine.chat.prompts import ContextPiece, Conversation, render_conversation, render_run
from stepscope.engine.chat.worker import ChatPrompt, ChatWorker, name_picture
from stepscope.engine.check.reference import Message, Reference, unfold_patches
from stepscope.engine.config import StreamConfig
from stepscope.engine.config_files import FRAME_PIXELS, PRESETS, read_config, read_preset
from stepscope.engine.control.requests import ForwardRequest, FrameTimesRequest, Image
from stepscope.engine.control.task import Task
from stepscope.engine.inference.memory import peak_memory_mb
from stepscope.engine.inference.readout import ReadoutSpec, make_readout_spec, read_decisions
from stepscope.engine.inference.runner import Runner
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, FrameResizer, encode_images
from stepscope.engine.model.hub.model import HubModel
from stepscope.engine.model.hub.prompt import HubPrompt
from stepscope.engine.model.preprocessing import normalize_images
from stepscope.engine.model.prompt import Prompt, render_template
from stepscope.engine.plurals import format_count, format_memory
from stepscope.engine.records import unknown_output
from stepscope.engine.streamer import Streamer

SYSTEM: Final = "Be brief. Is the wheel on?"
REPLY: Final = "Good. The wheel is on."
QUESTION: Final = "Is it done? Answer yes or no."
NUM_PICTURES: Final = 3
NUM_TIMED: Final = 8
MAX_NEW_TOKENS: Final = 24
_CLOSE: Final = 1e-3
"""Largest difference of a probability that is rounding in float32; in 16 bits ``_CLOSE_16``."""
_CLOSE_16: Final = 0.03
_CLOSE_PIXEL: Final = 0.05
"""Largest difference of a normalised pixel that is rounding to a whole number."""

Verdict = Literal["ok", "differs", "not applicable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLine:
    """One comparison."""

    name: str
    verdict: Verdict
    detail: str = ""
    matters: bool = False
    """Whether a difference changes what the model sees or writes."""


def check_checkpoint(checkpoint: Checkpoint) -> Iterator[CheckLine]:
    """Yield the lines of a check. Raises ``CheckpointError`` if transformers cannot load the processor."""
    frames = _encode(checkpoint, make_pictures(NUM_PICTURES))
    if isinstance(checkpoint.model, HubModel) and isinstance(checkpoint.prompt, HubPrompt):
        yield from _HubCheck(checkpoint, checkpoint.model, checkpoint.prompt, frames).lines()
    else:
        yield from _check_own_prompt(checkpoint, frames)
    yield _measure(checkpoint)
    yield CheckLine(name="presets", verdict="ok", detail=", ".join(list_presets(checkpoint)) or "none fits")


def make_pictures(number: int) -> list[NDArray[np.uint8]]:
    """Return RGB pictures of 360 x 640 with soft shades and sharp edges, as a video has them."""
    rows, columns = np.mgrid[0:360, 0:640]
    pictures = []
    for n in range(number):
        shades = np.stack([np.sin(rows / 40 + color + n) * np.cos(columns / (50 + 9 * n)) for color in range(3)], -1)
        edges = ((rows + 16 * n) // 23 + columns // 31) % 2
        pictures.append((95 * (1 + shades) + 60 * edges[..., None]).astype(np.uint8))
    return pictures


def list_presets(checkpoint: Checkpoint) -> list[str]:
    """Return the presets whose policy and pixels a checkpoint takes."""
    names = []
    for name in PRESETS:
        if FRAME_PIXELS in read_preset(name) and checkpoint.frame_pixels is None:
            continue
        try:
            make_readout_spec(checkpoint, checkpoint.fit_config(read_config(None, preset=name)))
        except ValueError:
            continue
        names.append(name)
    return names


def _encode(checkpoint: Checkpoint, pictures: Sequence[NDArray[np.uint8]]) -> list[FrameFeatures]:
    return [
        FrameFeatures(index=n, time_s=n / 2, features=features)
        for n, features in enumerate(encode_images(checkpoint, pictures))
    ]


def _measure(checkpoint: Checkpoint) -> CheckLine:
    """Stream some frames, and return their time and the memory."""
    began = time.perf_counter()
    frames = _encode(checkpoint, make_pictures(NUM_TIMED))
    for _ in Streamer(checkpoint, checkpoint.fit_config(StreamConfig())).run(frames, Task()):
        pass
    frame_s = (time.perf_counter() - began) / NUM_TIMED
    memory = format_memory(peak_memory_mb(checkpoint.model.device))
    text = f"{memory}, {frame_s:.2g} s a frame, in {checkpoint.dtype_name} on {checkpoint.model.device.type}"
    return CheckLine(name="memory and time", verdict="ok", detail=text)


@torch.inference_mode()
def _stream(
    checkpoint: Checkpoint, frames: Sequence[FrameFeatures], pieces: Sequence[int | Image], spec: ReadoutSpec
) -> tuple[float, int]:
    """Feed pieces one after another into a KV cache; return the probability of speaking and the next token."""
    config = checkpoint.fit_config(StreamConfig())
    runner = Runner(checkpoint.model, config, features=frames, readout_spec=spec)
    runner.fetch_frame_times(FrameTimesRequest(first=0, max_frames=len(frames)))
    places = [n for n, piece in enumerate(pieces) if isinstance(piece, Image)]
    length = 0
    for start, end in zip([0, *places], [*places, len(pieces)], strict=True):
        part = tuple(pieces[start:end])
        num_tokens = sum(_size(checkpoint, frames, piece) for piece in part)
        last = (num_tokens - 1,) if num_tokens else ()
        request = ForwardRequest(
            num_cached=length, inputs=part, frames=range(len(frames)), decision_positions=last, sample_positions=last
        )
        result = runner.forward(request) if part else None
        length += num_tokens
    assert result is not None
    return result.decisions[0].speak_prob, result.tokens[0]


def _size(checkpoint: Checkpoint, frames: Sequence[FrameFeatures], piece: int | Image) -> int:
    return checkpoint.model.count_tokens(frames[piece.frame_index].features) if isinstance(piece, Image) else 1


def _compare_next(
    checkpoint: Checkpoint, streamed: tuple[float, int], hidden: Tensor, logits: Tensor, spec: ReadoutSpec
) -> CheckLine:
    """Compare the last position of a stream with that of one pass over the whole."""
    whole = read_decisions(checkpoint.model, hidden, spec)[0].speak_prob
    logits = logits.clone()
    logits[list(spec.suppress_tokens)] = -torch.inf
    probs, token = logits.double().softmax(-1), int(logits.argmax())
    behind = float(probs[token] - probs[streamed[1]])
    close = _CLOSE if checkpoint.model.dtype == torch.float32 else _CLOSE_16
    is_equal = abs(whole - streamed[0]) <= close and behind <= close
    detail = f"P {streamed[0]:.4f} with the cache, {whole:.4f} in one pass; " + (
        "the same top token" if token == streamed[1] else f"another top token, {behind:.4f} less likely"
    )
    return CheckLine(name="next token", verdict="ok" if is_equal else "differs", detail=detail, matters=not is_equal)


def _check_own_prompt(checkpoint: Checkpoint, frames: Sequence[FrameFeatures]) -> Iterator[CheckLine]:
    """Check a model with heads, or a published assistant, whose prompts and images are not those of a processor."""
    codec, model = checkpoint.prompt, checkpoint.model
    if isinstance(codec, Prompt):
        own = [*codec.system(SYSTEM), *codec.user_turn(QUESTION)]
        messages = [_say("system", SYSTEM), _say("user", QUESTION)]
        whole = list(codec.tokenizer(render_template(codec.tokenizer, messages), add_special_tokens=False)["input_ids"])
        yield _compare_ids("ids, texts only", own, whole[: len(own)])
    else:
        yield CheckLine(name="ids", verdict="not applicable", detail="the system writes its prompts without a template")
    yield CheckLine(name="pictures", verdict="not applicable", detail="frames are prepared as in its training")
    spec = make_readout_spec(checkpoint, checkpoint.fit_config(StreamConfig()))
    pieces = [*codec.schema(goal="", steps=(), state={}), *(Image(frame_index=n) for n in range(len(frames)))]
    with torch.inference_mode():
        ids = [torch.tensor([piece], device=model.device) if isinstance(piece, int) else piece for piece in pieces]
        inputs = [
            model.embed_frames(frames[item.frame_index].features[None])
            if isinstance(item, Image)
            else model.embed_tokens(item)[None]
            for item in ids
        ]
        hidden = model(torch.cat(inputs, dim=1))[0, -1:]
        logits = model.token_logits(hidden)[0]
    yield _compare_next(checkpoint, _stream(checkpoint, frames, pieces, spec), hidden, logits, spec)
    yield CheckLine(name="greedy text", verdict="not applicable", detail="generate knows neither its prompts nor heads")


def _say(role: str, text: str, *, pictures: int = 0, kind: str = "image") -> Message:
    texts = [{"type": "text", "text": text}] if text else []
    return {"role": role, "content": [{"type": kind}] * pictures + texts}


def _compare_ids(name: str, own: Sequence[int], whole: Sequence[int], note: str = "") -> CheckLine:
    if list(own) == list(whole):
        return CheckLine(name=name, verdict="ok", detail=f"{format_count(len(own), 'token')}{note}")
    first = next((n for n, pair in enumerate(zip(own, whole, strict=False)) if pair[0] != pair[1]), len(own))
    detail = f"{len(own)} tokens, those of the processor {len(whole)}; the first that differs is number {first + 1}"
    return CheckLine(name=name, verdict="differs", detail=detail, matters=True)


class _HubCheck:
    """The comparisons of an image-text model with its processor."""

    def __init__(
        self, checkpoint: Checkpoint, model: HubModel, codec: HubPrompt, frames: Sequence[FrameFeatures]
    ) -> None:
        self.checkpoint, self.model, self.codec, self.frames = checkpoint, model, codec, frames
        self.reference = Reference(checkpoint.base or checkpoint.folder, model)
        pictures = make_pictures(NUM_PICTURES)
        resized = [FrameResizer(model).resize(picture) for picture in pictures]
        height, width = resized[0].shape[:2]
        self.pixels = normalize_images(resized, size=(height, width), normalization=checkpoint.normalization)
        self.prepared = self.reference.prepare(pictures)
        self.names = [name_picture(model, frame.features) for frame in frames]
        outputs = [unknown_output(n, fps=2, dst_state={}) for n in range(NUM_PICTURES)]
        outputs[1] = replace(outputs[1], response=REPLY)
        config = StreamConfig(decision_policy="answer", system_prompt=SYSTEM)
        run = render_run(codec, Task(), outputs, config=config, pictures=self.names)
        self.context: Sequence[ContextPiece] = (*run, *codec.question(QUESTION))

    def lines(self) -> Iterator[CheckLine]:
        """Yield the lines."""
        yield from self._check_ids()
        yield self._count_picture()
        yield self._compare_pixels()
        ids, spec = self._spell(self.context), make_readout_spec(self.checkpoint, self._config)
        places = iter(range(NUM_PICTURES))
        pieces = [Image(frame_index=next(places)) if isinstance(piece, str) else piece for piece in self.context]
        hidden, logits = self.reference.forward(ids, self.pixels)
        yield _compare_next(self.checkpoint, _stream(self.checkpoint, self.frames, pieces, spec), hidden, logits, spec)
        yield self._compare_text(ids)
        yield self._compare_ends()

    @property
    def _config(self) -> StreamConfig:
        return replace(self.checkpoint.fit_config(StreamConfig()), decision_policy="answer")

    def _check_ids(self) -> Iterator[CheckLine]:
        kind = "video" if self.model.frame_format.is_video else "image"
        system, asked, reply = _say("system", SYSTEM), _say("user", QUESTION), _say("assistant", REPLY)
        mixed = [
            system,
            _say("user", "", pictures=2, kind=kind),
            reply,
            _say("user", QUESTION, pictures=1, kind=kind),
        ]
        yield self._compare("ids, pictures and a reply", self.context, mixed)
        base, opened = self.codec.system(SYSTEM), Conversation().ask(QUESTION)
        yield self._compare("ids, texts only", render_conversation(self.codec, opened, base=base), [system, asked])
        several = opened.answered(REPLY).ask(QUESTION)
        pieces = render_conversation(self.codec, several, base=base)
        yield self._compare("ids, several turns", pieces, [system, asked, reply, asked])

    def _compare(self, name: str, pieces: Sequence[ContextPiece], messages: list[Message]) -> CheckLine:
        own, whole = self._spell(pieces), self.reference.ids(messages, self.prepared)
        generated = self.reference.ids(messages, self.prepared, as_generated=True)
        if own == generated != whole:
            return _compare_ids(name, own, generated, "; past replies begin as generated, unlike in the template")
        return _compare_ids(name, own, whole)

    def _spell(self, pieces: Sequence[ContextPiece]) -> list[int]:
        count = self._num_tokens
        picture = [*self.codec.opening, *[self.codec.image_id] * count, *self.codec.closing]
        return [token for piece in pieces for token in (picture if isinstance(piece, str) else [piece])]

    @property
    def _num_tokens(self) -> int:
        return self.model.count_tokens(self.frames[0].features) - len(self.codec.opening) - len(self.codec.closing)

    def _count_picture(self) -> CheckLine:
        kind = "video" if self.model.frame_format.is_video else "image"
        found = self.reference.ids([_say("user", QUESTION, pictures=1, kind=kind)], self.prepared)
        published, own = found.count(self.codec.image_id), self._num_tokens
        detail = f"{own} and {len(self.codec.opening) + len(self.codec.closing)} around them"
        if published != own:
            detail += f"; the processor makes {published} of 360 x 640 pixels"
        is_equal = published == own
        return CheckLine(
            name="tokens of a picture", verdict="ok" if is_equal else "differs", detail=detail, matters=not is_equal
        )

    def _compare_pixels(self) -> CheckLine:
        found: Tensor | None = self.reference.pixels(self.prepared)
        frame_format = self.model.frame_format
        if self.model.has_grid:
            found = unfold_patches(found, self.pixels, patch=frame_format.patch, merge=frame_format.merge)
        elif found.numel() == self.pixels.numel():
            found = found.reshape(self.pixels.shape)
        if found is None or found.shape != self.pixels.shape:
            detail = f"frames have {self.pixels.shape[2]} x {self.pixels.shape[3]} pixels, those of the processor other"
            return CheckLine(name="pixels", verdict="differs", detail=detail, matters=True)
        difference = (found.float() - self.pixels).abs()
        detail = f"at most {float(difference.max()):.3g} apart, {float(difference.mean()):.2g} on average"
        if float(difference.max()) <= _CLOSE_PIXEL:
            return CheckLine(name="pixels", verdict="ok", detail=detail)
        spec, ids = make_readout_spec(self.checkpoint, self._config), self._spell(self.context)
        own, other = (
            read_decisions(self.model, self.reference.forward(ids, pixels)[0], spec)[0].speak_prob
            for pixels in (self.pixels, found)
        )
        matters = abs(own - other) > 10 * _CLOSE
        detail += f"; P(yes) {own:.4f}, with those of the processor {other:.4f}"
        return CheckLine(name="pixels", verdict="differs", detail=detail, matters=matters)

    def _compare_text(self, ids: Sequence[int]) -> CheckLine:
        features = {name: frame.features for name, frame in zip(self.names, self.frames, strict=True)}
        prompt: Any = ChatPrompt(pieces=tuple(self.context), features=features)
        worker = ChatWorker(self.checkpoint)
        events = list(worker.answer(prompt, max_new_tokens=MAX_NEW_TOKENS))
        own = next(list(event.ids) for event in events if isinstance(event, AnswerEnd))
        found = self.reference.generate(ids, self.pixels, max_new_tokens=MAX_NEW_TOKENS)
        is_equal = own == found
        detail = f"{format_count(len(own), 'token')}: {self.codec.text(own)[:60]!r}"
        if not is_equal:
            detail += f"; generate writes {self.codec.text(found)[:60]!r}"
        return CheckLine(
            name="greedy text", verdict="ok" if is_equal else "differs", detail=detail, matters=not is_equal
        )

    def _compare_ends(self) -> CheckLine:
        own, published = {self.codec.eos_id, *self.codec.other_ends}, self.reference.end_ids
        names = self.codec.tokenizer.convert_ids_to_tokens(sorted(own))
        if missing := sorted(published - own):
            ignored = ", ".join(self.codec.tokenizer.convert_ids_to_tokens(missing))
            detail = f"{', '.join(names)}; {ignored} of generation_config.json does not end a reply"
            return CheckLine(name="end tokens", verdict="differs", detail=detail, matters=True)
        return CheckLine(name="end tokens", verdict="ok", detail=", ".join(names))
