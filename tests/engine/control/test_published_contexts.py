"""ProAssist's ways to shorten a context, against its published loop on plain transformers and PEFT."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import UserTurn
from stepscope.engine.stream import Streamer
from tests.support.streams.fakes import random_frames
from tests.support.streams.published import write_proassist
from tests.support.streams.published_loop import PublishedLoop, settings

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's
SYSTEM = (
    "You are a proactive assistant. Pay close attention to the user's actions and provide relevant information "
    "proactively."
)
MAX_TOKENS, MAX_SUMMARY, KEPT = 7, 12, 24
KeyValues = list[tuple[Tensor, Tensor]]


class CachedLoop(PublishedLoop):
    """The published loop with the cache of transformers, which gives new tokens the positions after its length."""

    def __init__(self, folder: Path, connector: str) -> None:
        super().__init__(folder, connector)
        self.cache = DynamicCache()

    @torch.no_grad()
    def feed(self, ids: tuple[int, ...] = (), frame: Tensor | None = None) -> Tensor:
        parts = [self.model.get_input_embeddings()(torch.tensor(ids, dtype=torch.long))]
        parts += [] if frame is None else [self.connector(frame)]
        inputs = torch.cat(parts)[None]
        logits: Tensor = self.model(inputs_embeds=inputs, past_key_values=self.cache, use_cache=True).logits[0, -1]
        return logits.clone()

    @property
    def key_values(self) -> KeyValues:
        return [(layer.keys, layer.values) for layer in self.cache.layers]

    def keep(self, *parts: KeyValues) -> None:
        self.cache = DynamicCache()
        for number, layers in enumerate(zip(*parts, strict=True)):
            keys, values = (torch.cat(states, dim=2) for states in zip(*layers, strict=True))
            self.cache.update(keys, values, number)


class PublishedStream:
    """The published stream: replies, and the shortening of its cache after each frame."""

    def __init__(self, folder: Path, checkpoint: Checkpoint, *, strategy: str, limit: int, not_talk: float) -> None:
        self.loop, self.tokenizer = CachedLoop(folder, "mm_projector"), checkpoint.prompt.tokenizer
        self.strategy, self.limit, self.not_talk = strategy, limit, not_talk
        self.eot = self.tokenizer.convert_tokens_to_ids("<|eot_id|>")
        self.initial: KeyValues | None = None
        self.waiting = self.ids("<|begin_of_text|>") + self.message("system", SYSTEM)
        self.cut_at = list[int]()

    def ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def message(self, role: str, text: str) -> tuple[int, ...]:
        return self.ids(f"<|start_header_id|>{role}<|end_header_id|>\n\n{text.strip()}<|eot_id|>")

    def generate(self, ids: tuple[int, ...], frame: Tensor, *, threshold: float, max_tokens: int) -> str | None:
        logits = self.loop.feed(ids, frame)
        logits[self.eot] = 1e4 if logits.softmax(-1)[self.eot] > threshold else -1e4
        written = list[int]()
        while (token := int(logits.argmax())) != self.eot and len(written) < max_tokens:
            written.append(token)
            if len(written) < max_tokens:
                logits = self.loop.feed((token,))
        if not written:
            return None
        text = self.tokenizer.decode(written).split("<|end_header_id|>")[-1]
        for special in ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>"):
            text = text.replace(special, "")
        return str(text.strip())

    def step(self, frame: FrameFeatures, question: str | None) -> str | None:
        ids = (*self.waiting, *(self.message("user", question) if question else ()))
        self.waiting = ()
        reply = self.generate(ids, frame.features, threshold=self.not_talk, max_tokens=MAX_TOKENS)
        if question and self.initial is None:
            self.initial = [(keys.clone(), values.clone()) for keys, values in self.loop.key_values]
        if self.loop.cache.get_seq_length() >= self.limit:
            self.cut_at.append(frame.index + 1)
            self.shorten(frame)
        return reply

    def shorten(self, frame: FrameFeatures) -> None:
        if self.strategy == "drop-middle":
            assert self.initial is not None
            start = max(self.loop.cache.get_seq_length() - KEPT, self.initial[0][0].shape[2])
            self.loop.keep(
                self.initial, [(keys[:, :, start:], values[:, :, start:]) for keys, values in self.loop.key_values]
            )
            return
        if self.strategy == "summarize-and-drop":
            request = self.message("system", "Please summarize the progress.")
            summary = self.generate(request, frame.features, threshold=0.5, max_tokens=MAX_SUMMARY) or ""
            self.waiting = self.ids("<|begin_of_text|>") + self.message("system", f"{SYSTEM} {summary}")
        self.loop.cache = DynamicCache()


@pytest.mark.parametrize("strategy", ["drop-middle", "summarize-and-drop"])
def test_proassist_shortens_its_context_as_the_published_loop(tmp_path: Path, strategy: Any) -> None:
    folder = write_proassist(tmp_path, grid=2, terse=True)
    checkpoint = load_model(folder, device="cpu")
    frames, questions = list(random_frames(checkpoint, 50)), {4: "What is next?"}
    threshold = settings(checkpoint).speak_threshold
    limit = len(checkpoint.prompt.schema(goal="", steps=(), state={})) + 95
    config = StreamConfig(
        decision_policy="not-talk",
        speak_threshold=threshold,
        max_new_tokens=MAX_TOKENS,
        max_summary_tokens=MAX_SUMMARY,
        kept_tokens=KEPT,
        context_strategy=strategy,
        max_seq_len=limit + 250,
        reserved_seq_len=250,
    )
    task = Task(user_turns=tuple(UserTurn(time_s=frame / 2, text=text) for frame, text in questions.items()))
    outputs = list(Streamer(checkpoint, config).run(frames, task))
    published = PublishedStream(folder, checkpoint, strategy=strategy, limit=limit, not_talk=1 - threshold)
    replies = [published.step(frame, questions.get(frame.index)) for frame in frames]
    assert [output.response for output in outputs] == replies
    assert 3 < replies.count(None) < 47
    assert [output.frame_index for output in outputs if output.refreshed] == published.cut_at
    assert len(published.cut_at) >= 2
