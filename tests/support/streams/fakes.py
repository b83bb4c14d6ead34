"""Fakes that run the real engine in milliseconds: a scripted runner for the controller, and a tiny random model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration

from stepscope.assets.training.tiny import train_tokenizer
from stepscope.engine.control.questions import SPEAK_QUESTION
from stepscope.engine.control.requests import (
    Answer,
    ControlLoop,
    Decision,
    EvictRequest,
    ForwardRequest,
    ForwardResult,
    FrameTimesRequest,
    Image,
)
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.prompt import Prompt
from stepscope.engine.model.saving import save_model
from stepscope.engine.model.smolvlm import Pooling, StreamingModel
from stepscope.engine.records import FrameOutput, Step

UPDATE, RESPONSE, EOS = 1, 2, 3
STEPS = (Step(id="S1", name="attach the wheel"), Step(id="S2", name="put on the roof"))
TEXTS = (
    "System: You are a helpful assistant.\n\nTask: build the toy truck\nSteps:\n- S1: attach the wheel (NOT_STARTED)\n"
    "- S2: put on the roof (IN_PROGRESS)\n- S3: load the block (COMPLETED)\n\nDialogue Context:\n"
    "Current step states - Step S1: not_started, Step S2: in_progress, Step S3: completed",
    "User: What is next?",
    "S1->start",
    "S2->complete",
    "Good. Now put on the roof. Careful, pick up the wheel again.",
)


class CharacterCodec:
    """A codec whose tokens are the characters of the text, shifted past the special ids."""

    update_id, response_id, eos_id = UPDATE, RESPONSE, EOS
    update_opening: tuple[int, ...] = (UPDATE,)
    response_opening: tuple[int, ...] = (RESPONSE,)
    frame_separator: tuple[int, ...] = ()
    stream_opening: tuple[int, ...] = ()
    other_ends: tuple[int, ...] = ()
    feeds_eos = True
    feeds_last_token = True
    answers_user_turns = False
    without_thought: tuple[int, ...] = ()

    def schema(
        self,
        *,
        goal: str,
        steps: Sequence[Step],
        state: Mapping[str, str],
        summary: str | None = None,
        instructions: str = "",
    ) -> tuple[int, ...]:
        states = ",".join(f"{step.id}={state[step.id]}" for step in steps)
        return self.words(f"{instructions}{goal}|{states}|" + (f"{summary}|" if summary is not None else ""))

    def user_turn(self, text: str) -> tuple[int, ...]:
        return self.words(f"<{text}>")

    def user_turns(self, texts: Sequence[str], *, after: Sequence[object] = ()) -> tuple[int, ...]:
        return tuple(token for text in texts for token in self.user_turn(text))

    def before_image(
        self, turns: Sequence[str] = (), text: str = "", *, after: Sequence[object] = ()
    ) -> tuple[int, ...]:
        return (*self.user_turns(turns), *self.words(text))

    def summary_request(self, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        return self.words("<sum>")

    def question(self, text: str, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        return self.words(f"?{text}")

    def state(self, text: str) -> tuple[int, ...]:
        return self.words(text)

    def words(self, text: str) -> tuple[int, ...]:
        return tuple(ord(character) + 10 for character in text)

    def text(self, ids: Sequence[int]) -> str:
        return "".join(chr(token - 10) for token in ids if token > EOS)


@dataclass
class ScriptedRunner:
    """Answers the requests of a controller from a plan, and keeps the context that a model would have seen.

    ``turns`` maps a frame to its updates and response. A trigger depends only on the context, so the
    answers do not depend on how frames are grouped into passes.
    """

    turns: Mapping[int, tuple[tuple[str, ...], str | None]]
    num_frames: int
    tokens_per_frame: int = 1
    codec: "CharacterCodec | Prompt" = field(default_factory=CharacterCodec)
    context: list[int | Image] = field(default_factory=list)
    max_length: int = 0
    num_passes: int = 0
    requests: list[ForwardRequest] = field(default_factory=list)

    def drive(self, loop: ControlLoop) -> list[FrameOutput]:
        """Run a controller to its end; return its outputs."""
        outputs: list[FrameOutput] = []
        answer: Answer = None
        while True:
            try:
                step = loop.send(answer)
            except StopIteration:
                return outputs
            answer = None
            if isinstance(step, FrameOutput):
                outputs.append(step)
            elif isinstance(step, FrameTimesRequest):
                answer = tuple(
                    index / 2 for index in range(step.first, min(step.first + step.max_frames, self.num_frames))
                )
            elif isinstance(step, ForwardRequest):
                answer = self.forward(step)
            elif isinstance(step, EvictRequest):
                del self.context[step.num_cached :]
                del self.context[step.head : step.num_cached - step.tail]

    def forward(self, request: ForwardRequest) -> ForwardResult:
        assert 0 <= request.num_cached <= len(self.context), "a crop can only shorten the context"
        assert request.inputs, "a pass has inputs"
        self.num_passes += 1
        self.requests.append(request)
        del self.context[request.num_cached :]
        for piece in request.inputs:
            self.context += [piece] * (self.tokens_per_frame if isinstance(piece, Image) else 1)
        self.max_length = max(self.max_length, len(self.context))
        context = self.context
        before = [context[: request.num_cached + at + 1] for at in request.sample_positions]
        assert list(request.sample_steps) == list(map(self._count_reply, before))
        return ForwardResult(
            decisions=tuple(self._decide(context[: request.num_cached + at + 1]) for at in request.decision_positions),
            tokens=tuple(self._sample(context[: request.num_cached + at + 1]) for at in request.sample_positions),
            answers=tuple(
                self._answer(branch.ids, context[: request.num_cached + branch.position + 1])
                for branch in request.branches
            ),
        )

    def _answer(self, ids: tuple[int, ...], context: list[int | Image]) -> float:
        decision = self._decide(context)
        is_about_speaking = ids == self.codec.question(SPEAK_QUESTION)
        return decision.speak_prob if is_about_speaking else decision.update_prob

    def _decide(self, context: list[int | Image]) -> Decision:
        at = context[-1]
        if not isinstance(at, Image):
            assert at == self.codec.eos_id, "heads are read at images and after an update"
            updates, written = self._turn(context)
            is_planned = len(written) < len(updates) and written == [
                self.codec.words(text) for text in updates[: len(written)]
            ]
            return Decision(speak_prob=0.0, update_prob=0.9 if is_planned else 0.1)
        updates, response = self.turns.get(at.frame_index, ((), None))
        return Decision(speak_prob=0.1 if response is None else 0.9, update_prob=0.9 if updates else 0.1)

    def _turn(self, context: list[int | Image]) -> tuple[tuple[str, ...], list[tuple[int, ...]]]:
        """Return the planned updates of the last frame of a context, and those that are already in it."""
        since = next(n for n, piece in enumerate(reversed(context)) if isinstance(piece, Image))
        image = context[-1 - since]
        assert isinstance(image, Image)
        written: list[list[int]] = []
        is_update = False
        for token in context[len(context) - since :]:
            assert isinstance(token, int)
            if token in (self.codec.update_id, self.codec.response_id):
                is_update = token == self.codec.update_id
                written += [[]] * is_update
            elif is_update and token != self.codec.eos_id:
                written[-1] = [*written[-1], token]
        return self.turns.get(image.frame_index, ((), None))[0], [tuple(ids) for ids in written]

    def _count_reply(self, context: list[int | Image]) -> int:
        """Return the tokens of the reply at the end of a context; -1 in an update or a summary."""
        codec = self.codec
        openings = (codec.update_id, codec.response_id)
        place = next(n for n in range(len(context) - 1, -1, -1) if context[n] in openings)
        asked = place - self.tokens_per_frame
        request = codec.summary_request()
        is_summary = tuple(context[asked - len(request) : asked]) == request
        state, written = codec.words("</Response>"), tuple(context[place + 1 :])
        is_after_state = written[: len(state)] == state
        return -1 if context[place] == codec.update_id or is_summary else len(written) - is_after_state * len(state)

    def _sample(self, context: list[int | Image]) -> int:
        """Return the planned token; after a deviation from the plan, end the turn."""
        codec = self.codec
        openings = (codec.update_id, codec.response_id)
        place = next(n for n in range(len(context) - 1, -1, -1) if context[n] in openings)
        frame = next(piece.frame_index for piece in reversed(context[:place]) if isinstance(piece, Image))
        updates, response = self.turns.get(frame, ((), None))
        text = response or ""
        if context[place] == codec.update_id:
            number = len(self._turn(context[: place + 1])[1]) - 1
            text = updates[number] if number < len(updates) else ""
        planned, written = [*codec.words(text), codec.eos_id], context[place + 1 :]
        return planned[len(written)] if written == planned[: len(written)] else codec.eos_id


def tiny_model(*, pooling: Pooling = "mean", feature_dim: int | None = None, seed: int = 0) -> StreamingModel:
    """Build a random SmolVLM of a few thousand parameters: images of 24 x 24, 4 tokens each before pooling."""
    torch.manual_seed(seed)
    tokenizer = train_tokenizer(TEXTS)
    text = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = SmolVLMConfig(
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 24,
            "patch_size": 6,
        },
        text_config=text
        | {
            "model_type": "llama",
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 4096,
            "pad_token_id": 0,
            "eos_token_id": 1,
            "initializer_range": 0.3,
        },
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        tie_word_embeddings=True,
        pad_token_id=0,
    )
    model = StreamingModel(SmolVLMForConditionalGeneration(config), pooling=pooling, feature_dim=feature_dim)
    for head in (model.speaking_decision_head, model.dst_update_head):
        torch.nn.init.normal_(head.weight, std=0.3)
    return model


def tiny_checkpoint(folder: Path, *, pooling: Pooling = "mean", seed: int = 0, is_terse: bool = False) -> Checkpoint:
    """Save a tiny random model and load it again; a terse one ends its texts after a few words."""
    model = tiny_model(pooling=pooling, seed=seed)
    if is_terse:
        with torch.no_grad():
            model.vlm.get_input_embeddings().weight[1] *= 3  # <eos>: a longer embedding is likelier to come
    save_model(folder, model, train_tokenizer(TEXTS), dtype=torch.float32)
    return load_model(folder, device="cpu")


def nan_checkpoint(folder: Path) -> Checkpoint:
    """Save and load a tiny model whose probability of speaking is nan, as after a failed training."""
    model = tiny_model()
    torch.nn.init.constant_(model.speaking_decision_head.weight, torch.nan)
    save_model(folder, model, train_tokenizer(TEXTS), dtype=torch.float32)
    return load_model(folder, device="cpu")


def random_frames(checkpoint: Checkpoint, num_frames: int, *, seed: int = 0) -> Iterator[FrameFeatures]:
    """Yield frames with random features, of 2 x 3 tokens for a model that takes images of any size."""
    random = torch.Generator().manual_seed(seed)
    shape = [size or default for size, default in zip(checkpoint.model.feature_shape, (2, 3, 0), strict=False)]
    for index in range(num_frames):
        yield FrameFeatures(index=index, time_s=index / 2, features=torch.randn(shape, generator=random))


def counting(items: Iterator[FrameFeatures], seen: Callable[[int], None]) -> Iterator[FrameFeatures]:
    """Yield the frames; call ``seen`` with the index of each."""
    for item in items:
        seen(item.index)
        yield item


def count_letters(texts: list[str]) -> np.ndarray:
    """Encode texts as counts of their characters: a text encoder that needs no model."""
    return np.array([[text.count(chr(code)) for code in range(32, 127)] for text in texts], float)


def anybody(*, token: str = "", session: dict[str, Any] | None = None) -> Any:
    """Return a request as Gradio hands it to server functions; with a token, of a user who signed in as ann."""
    page = SimpleNamespace(cookie_id="x", tokens={"secret": "ann"})
    return SimpleNamespace(scope={"session": session or {}}, app=page, cookies={"access-token-x": token})
