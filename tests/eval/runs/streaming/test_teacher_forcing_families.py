"""The teacher-forced pass of the published assistants, against plain transformers and PEFT on every prefix."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.eval.data.samples import Turn
from stepscope.eval.metrics.videollm_online import LiveTurn, live_metrics
from stepscope.eval.runs.pools.worker import Worker
from stepscope.eval.runs.streaming.teacher_forcing import read_live_turns
from stepscope.eval.runs.worker_messages import WorkerError, WorkerSpec
from tests.support.data.batches import make_worker_config
from tests.support.data.records import make_sample
from tests.support.streams.fakes import random_frames
from tests.support.streams.hub import write_hub
from tests.support.streams.published import write_online, write_proassist
from tests.support.streams.published_loop import PublishedLoop

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's
SAMPLE = make_sample(
    num_frames=8,
    goal="",
    turns=(
        Turn(time_s=0.5, role="assistant", text="Go."),
        Turn(time_s=2.0, role="user", text="What is next?"),
        Turn(time_s=2.0, role="assistant", text="The roof."),
        Turn(time_s=3.5, role="assistant", text="Good."),
    ),
)
ASKED_AT, SPOKEN = 4, {1: "Go.", 4: "The roof.", 7: "Good."}


class ReferenceLoop:
    """Feeds the reference with the text of the template written out; probabilities by frame, and of the tokens."""

    def __init__(self, folder: Path, checkpoint: Checkpoint, *, without: int | None) -> None:
        self.is_online = folder.name == "online"
        self.loop = PublishedLoop(folder, "connector" if self.is_online else "mm_projector")
        self.tokenizer, self.without = checkpoint.prompt.tokenizer, without
        self.silent_id = self.ids(",")[0] if self.is_online else self.ids("<|eot_id|>")[0]
        self.silence, self.nll = dict[int, tuple[float, float]](), dict[int, list[float]]()

    def ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def run(self, waiting: tuple[int, ...], frames: list[FrameFeatures]) -> None:
        for frame in frames:
            asks = frame.index == ASKED_AT and (self.without != ASKED_AT or not self.is_online)
            if asks and not self.is_online:
                waiting += self.ids("<|start_header_id|>user<|end_header_id|>\n\nWhat is next?<|eot_id|>")
            logits = self.loop.feed(waiting, frame.features)
            probs = logits.softmax(-1)
            silent = float(probs[self.silent_id])
            probs[self.silent_id] = 0
            self.silence[frame.index], waiting = (silent, float(probs.max())), self.ids(",") if self.is_online else ()
            if frame.index not in SPOKEN or frame.index == self.without:
                continue
            text, eos = SPOKEN[frame.index], self.ids("<|eot_id|>")
            words = self.ids(f" {text}")
            if self.is_online:
                logits = self.loop.feed(self.ids("]\nUser: What is next?\nAssistant:" if asks else "]\nAssistant:"))
            else:
                words = self.ids(f"<|start_header_id|>assistant<|end_header_id|>\n\n{text}")
            self.nll[frame.index] = []
            for token in (*words, *eos):
                self.nll[frame.index].append(-float(logits.log_softmax(-1)[token]))
                if token != eos[0]:
                    logits = self.loop.feed((token,))
            waiting = (*eos, *self.ids("\n[")) if self.is_online else ()


def test_a_model_that_places_its_images_is_refused_before_a_video_is_read(tmp_path: Path) -> None:
    config = make_worker_config(write_hub(tmp_path / "model", "qwen3_vl"), live=True)
    found = Worker(config, WorkerSpec(device="cpu")).load()
    assert isinstance(found, WorkerError)
    assert "leave out --teacher-forced" in found.reason


@pytest.mark.parametrize(
    ("name", "write"), [("online", write_online), pytest.param("proassist", write_proassist, marks=pytest.mark.slow)]
)
def test_frames_and_tokens_are_those_of_plain_transformers_on_the_reference(
    tmp_path: Path, name: str, write: Callable[..., Path]
) -> None:
    folder = write(tmp_path / name, grid=2)
    checkpoint = load_model(folder, device="cpu")
    frames = list(random_frames(checkpoint, SAMPLE.num_frames))
    schema = checkpoint.prompt.schema(goal="", steps=(), state={})
    config = checkpoint.fit_config(StreamConfig(fps=2.0))
    turns = read_live_turns(checkpoint, config, SAMPLE, frames)
    assert [len(turn.silent_prob) for turn in turns] == [2, 3, 3]

    def feed(without: int | None = None) -> ReferenceLoop:
        loop = ReferenceLoop(folder, checkpoint, without=without)
        loop.run(schema, frames)
        return loop

    whole = feed()
    found = [pair for turn in turns for pair in zip(turn.silent_prob, turn.other_prob, strict=True)]
    assert found == [pytest.approx(whole.silence[frame], abs=1e-4) for frame in range(8)]
    for turn, frame, until in zip(turns, SPOKEN, (4, 7, 7), strict=True):
        assert list(turn.token_nll) == pytest.approx(whole.nll[frame], abs=1e-3)
        withheld = feed(without=frame).silence
        late = list(zip(turn.late_silent_prob, turn.late_other_prob, strict=True))
        assert late == [pytest.approx(withheld[n], abs=1e-4) for n in range(frame + 1, until + 1)]
    assert all(isinstance(turn, LiveTurn) for turn in turns)
    assert live_metrics(turns, threshold=0)["lm_ppl"] > 1
