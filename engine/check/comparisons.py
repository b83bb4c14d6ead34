"""The comparisons of a check: ids, pictures, probabilities, greedy text, end tokens, memory, time and presets."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stepscope.engine.chat.answering import AnswerEnd
from stepscope.engine.chat.prompts import ContextPiece, Conversation, render_conversation, render_run
from stepscope.engine.chat.worker import ChatPrompt, ChatWorker, name_frames
from stepscope.engine.check.reference import Message, Reference
from stepscope.engine.config import StreamConfig
from stepscope.engine.config_files import FRAME_PIXELS, PRESETS, read_config, read_preset
from stepscope.engine.control.requests import ForwardRequest, FrameTimesRequest, Image, Piece
from stepscope.engine.control.task import Task
from stepscope.engine.inference.memory import peak_memory_mb
from stepscope.engine.inference.readout import make_readout_spec, read_decisions
from stepscope.engine.inference.runner import Runner
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, FrameResizer, encode_images
from stepscope.engine.model.hub.model import HubModel
from stepscope.engine.model.hub.prompt import HubPrompt
from stepscope.engine.model.preprocessing import normalize_images
from stepscope.engine.plurals import format_count, format_memory
from stepscope.engine.records import unknown_output
from stepscope.engine.stream import Streamer

SYSTEM: Final = "Be brief. Is the wheel on?"
REPLY: Final = "Good. The wheel is on."
QUESTION: Final = "Is it done? Answer yes or no."
NUM_PICTURES: Final = 3
NUM_TIMED: Final = 8
_MAX_NEW_TOKENS: Final = 24
_CLOSE_PIXEL: Final = 0.05
"""Largest difference of a normalised pixel that is the rounding of a colour."""
_CLOSE_PROB: Final = 0.01
Verdict = Literal["ok", "small", "matters", "n.a."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLine:
    """One comparison; a difference ``matters`` if it changes what the model sees or writes."""

    name: str
    verdict: Verdict = "ok"
    detail: str


def check_checkpoint(checkpoint: Checkpoint) -> Iterator[CheckLine]:
    """Yield the lines of a check. Raises ``CheckpointError`` if transformers cannot use the processor."""
    config = checkpoint.fit_config(StreamConfig())
    model, prompt = checkpoint.model, checkpoint.prompt
    if isinstance(model, HubModel) and isinstance(prompt, HubPrompt):
        config = replace(config, decision_policy="answer")
        yield from _HubCheck(checkpoint, config, model, prompt).lines()
    else:
        yield from _check_own_prompt(checkpoint, config)
    began = time.perf_counter()
    for _ in Streamer(checkpoint, config).run(_encode(checkpoint, make_pictures(NUM_TIMED)), Task()):
        pass
    frame_s = (time.perf_counter() - began) / NUM_TIMED
    cost = f"{format_memory(peak_memory_mb(model.device))}, {frame_s:.2g} s a frame"
    yield CheckLine(name="memory and time", detail=f"{cost}, {checkpoint.dtype_name} on {model.device.type}")
    yield CheckLine(name="presets that fit", detail=", ".join(list_presets(checkpoint)) or "none")


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

    def fits(name: str) -> bool:
        try:
            make_readout_spec(checkpoint, checkpoint.fit_config(read_config(None, preset=name)))
        except ValueError:
            return False
        return checkpoint.frame_pixels is not None or FRAME_PIXELS not in read_preset(name)

    return list(filter(fits, PRESETS))


def _encode(checkpoint: Checkpoint, pictures: Sequence[NDArray[np.uint8]]) -> list[FrameFeatures]:
    features = encode_images(checkpoint, pictures)
    return [FrameFeatures(index=n, time_s=n / 2, features=values) for n, values in enumerate(features)]


@torch.inference_mode()
def _compare_next(
    checkpoint: Checkpoint,
    config: StreamConfig,
    frames: Sequence[FrameFeatures],
    pieces: Sequence[Piece],
    *,
    hidden: Tensor,
) -> CheckLine:
    """Feed pieces into a KV cache, an image at a time, and compare the end with ``hidden``, that of one pass."""
    model, spec = checkpoint.model, make_readout_spec(checkpoint, config)
    runner = Runner(model, config, features=frames, readout_spec=spec)
    runner.fetch_frame_times(FrameTimesRequest(first=0, max_frames=len(frames)))
    sizes = [model.count_tokens(frames[p.frame_index].features) if isinstance(p, Image) else 1 for p in pieces]
    cuts = [0, *(n for n, piece in enumerate(pieces) if isinstance(piece, Image) and n), len(pieces)]
    for start, end in pairwise(cuts):
        last = (sum(sizes[start:end]) - 1,)
        request = ForwardRequest(
            num_cached=sum(sizes[:start]),
            inputs=tuple(pieces[start:end]),
            frames=range(len(frames)),
            decision_positions=last,
            sample_positions=last,
        )
        result = runner.forward(request)
    logits = model.token_logits(hidden)[0].double()
    logits[list(spec.suppress_tokens)] = -torch.inf
    probs, own = logits.softmax(-1), result.decisions[0].speak_prob
    other = read_decisions(model, hidden, spec)[0].speak_prob
    behind = float(probs.max() - probs[result.tokens[0]])
    close = 1e-3 if model.dtype == torch.float32 else 0.03  # rounding
    top = "the same top token" if not behind else f"another top token, {behind:.2g} less likely"
    return CheckLine(
        name="next token",
        verdict="ok" if max(abs(own - other), behind) <= close else "matters",
        detail=f"P {own:.4f} with the cache, {other:.4f} in one pass; {top}",
    )


def _check_own_prompt(checkpoint: Checkpoint, config: StreamConfig) -> Iterator[CheckLine]:
    """Check a model with heads, or a published assistant, whose prompts and images are not those of a processor."""
    codec, model, frames = checkpoint.prompt, checkpoint.model, _encode(checkpoint, make_pictures(NUM_PICTURES))
    frames_in_order = (Image(frame_index=n) for n in range(NUM_PICTURES))
    pieces: list[Piece] = [*codec.schema(goal="", steps=(), state={}), *frames_in_order]
    inputs = [
        model.embed_frames(frames[piece.frame_index].features[None])
        if isinstance(piece, Image)
        else model.embed_tokens(torch.tensor([[piece]], device=model.device))
        for piece in pieces
    ]
    with torch.inference_mode():
        hidden = model(torch.cat(inputs, dim=1))[0, -1:]
    yield _compare_next(checkpoint, config, frames, pieces, hidden=hidden)
    yield CheckLine(
        name="ids, pictures, text",
        verdict="n.a.",
        detail="prompts and frames are those of its training, not of a processor",
    )


class _HubCheck:
    """The comparisons of an image-text model with its processor."""

    def __init__(self, checkpoint: Checkpoint, config: StreamConfig, model: HubModel, codec: HubPrompt) -> None:
        self.checkpoint, self.config, self.model, self.codec = checkpoint, config, model, codec
        pictures = make_pictures(NUM_PICTURES)
        self.reference = Reference(checkpoint.base or checkpoint.folder, model, pictures)
        self.frames = _encode(checkpoint, pictures)
        resized = [FrameResizer(model).resize(picture) for picture in pictures]
        height, width = resized[0].shape[:2]
        pixels = normalize_images(resized, size=(height, width), normalization=checkpoint.normalization)
        self.inputs = model.frame_format.prepare(pixels)
        self.names, self.features = name_frames(model, self.frames)
        outputs = [unknown_output(n, fps=2, dst_state={}) for n in range(NUM_PICTURES)]
        outputs[1] = replace(outputs[1], response=REPLY)
        run = render_run(codec, Task(), outputs, config=replace(config, system_prompt=SYSTEM), pictures=self.names)
        self.context: tuple[ContextPiece, ...] = (*run, *codec.question(QUESTION))
        around = len(codec.opening) + len(codec.closing)
        self.num_tokens = model.count_tokens(self.frames[0].features) - around
        self.ids = self._spell(self.context)

    def lines(self) -> Iterator[CheckLine]:
        """Yield the lines."""
        say, codec = self.reference.say, self.codec
        system, asked, reply = say("system", SYSTEM), say("user", QUESTION), say("assistant", REPLY)
        mixed = [system, say("user", "", pictures=2), reply, say("user", QUESTION, pictures=1)]
        base, opened = codec.system(SYSTEM), Conversation().ask(QUESTION)
        again = opened.answered(REPLY).ask(QUESTION)
        for name, pieces, messages in (
            ("ids, pictures and a reply", self.context, mixed),
            ("ids, texts only", render_conversation(codec, opened, base=base), [system, asked]),
            ("ids, several turns", render_conversation(codec, again, base=base), [system, asked, reply, asked]),
        ):
            yield self._compare_ids(name, self._spell(pieces), messages)
        published = self.reference.ids(mixed).count(codec.image_id) / NUM_PICTURES
        detail = f"{self.num_tokens} for 360 x 640 pixels, in the processor {published:g}"
        yield _compare("tokens of a picture", self.num_tokens, published, detail)
        yield self._compare_pixels()
        places = iter(range(NUM_PICTURES))
        pictures = [Image(frame_index=next(places)) if isinstance(piece, str) else piece for piece in self.context]
        hidden = self.reference.forward(self.ids, self.inputs)
        yield _compare_next(self.checkpoint, self.config, self.frames, pictures, hidden=hidden)
        yield self._compare_text()
        ends = {codec.eos_id, *codec.other_ends}
        own, lost = (
            ", ".join(codec.tokenizer.convert_ids_to_tokens(sorted(found)))
            for found in (ends, self.reference.end_ids - ends)
        )
        yield _compare("end tokens", lost, "", own, f"; {lost} of generation_config.json does not end a reply")

    def _spell(self, pieces: Sequence[ContextPiece]) -> list[int]:
        picture = [*self.codec.opening, *[self.codec.image_id] * self.num_tokens, *self.codec.closing]
        return [token for piece in pieces for token in (picture if isinstance(piece, str) else [piece])]

    def _compare_ids(self, name: str, own: list[int], messages: list[Message]) -> CheckLine:
        whole, generated = self.reference.ids(messages), self.reference.ids(messages, as_generated=True)
        detail = format_count(len(own), "token")
        if own == generated != whole:
            return CheckLine(name=name, detail=f"{detail}; past replies begin as generated, unlike in the template")
        first = next((n for n, pair in enumerate(zip(own, whole, strict=False)) if pair[0] != pair[1]), len(own))
        apart = f", those of the processor {len(whole)}; the first that differs is number {first + 1}"
        return _compare(name, own, whole, detail, apart)

    def _compare_pixels(self) -> CheckLine:
        own, published = self.inputs["pixel_values"].cpu(), self.reference.pixel_values
        if own.numel() != published.numel():
            return CheckLine(name="pixels", verdict="matters", detail="frames have another size than in the processor")
        published = published.reshape(own.shape).to(own.dtype)
        apart, spec = float((own - published).abs().max()), make_readout_spec(self.checkpoint, self.config)
        inputs = (self.inputs, {**self.inputs, "pixel_values": published})
        hidden = torch.cat([self.reference.forward(self.ids, values) for values in inputs])
        own_prob, other_prob = (decision.speak_prob for decision in read_decisions(self.model, hidden, spec))
        is_close, is_small = apart <= _CLOSE_PIXEL, abs(own_prob - other_prob) <= _CLOSE_PROB
        detail = f"at most {apart:.2g} apart; P(yes) {own_prob:.4f}, with those of the processor {other_prob:.4f}"
        return CheckLine(name="pixels", verdict="ok" if is_close else "small" if is_small else "matters", detail=detail)

    def _compare_text(self) -> CheckLine:
        prompt = ChatPrompt(pieces=self.context, features=self.features)
        events = ChatWorker(self.checkpoint).answer(prompt, max_new_tokens=_MAX_NEW_TOKENS)
        own = next(list(event.ids) for event in events if isinstance(event, AnswerEnd))
        found = self.reference.generate(self.ids, self.inputs, max_new_tokens=_MAX_NEW_TOKENS)
        texts = [repr(self.codec.text(ids)[:60]) for ids in (own, found)]
        detail = f"{format_count(len(own), 'token')}: {texts[0]}"
        return _compare("greedy text", own, found, detail, f"; generate writes {texts[1]}")


def _compare(name: str, own: object, published: object, detail: str, apart: str = "") -> CheckLine:
    """Return the line of two values that are to be equal; ``apart`` is added to the detail of a difference."""
    if own == published:
        return CheckLine(name=name, detail=detail)
    return CheckLine(name=name, verdict="matters", detail=detail + apart)
