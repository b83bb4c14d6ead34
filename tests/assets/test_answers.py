"""The adapter of the bundled checkpoint that answers questions: its files, and its figures in the documents."""

import re
from collections.abc import Iterator, Sequence

import pytest
from sklearn.metrics import roc_auc_score

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.questions import list_update_questions
from stepscope.engine.control.requests import Image
from stepscope.engine.dialogue import initial_state
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.checkpoint_folder import identify_model
from stepscope.engine.model.files.bundled import BUNDLED_CHECKPOINTS
from stepscope.engine.records import frame_at
from stepscope.engine.stream import Streamer, StreamEvent, StreamRequest
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from tests.support.paths import ASSETS, ROOT

REMEDY = "python -m stepscope.assets answers, then measure it again; see docs/checkpoints.md"


@pytest.fixture(scope="module")
def adapter() -> Checkpoint:
    return load_model("bundled-answer", device="cpu")


def test_it_is_an_adapter_of_the_bundled_checkpoint(adapter: Checkpoint) -> None:
    card = (BUNDLED_CHECKPOINTS["bundled-answer"] / "README.md").read_text(encoding="utf-8")
    assert identify_model(BUNDLED_CHECKPOINTS["bundled"]).digest in card, REMEDY
    assert adapter.digest in card, REMEDY
    assert adapter.base is not None
    assert adapter.base.resolve() == BUNDLED_CHECKPOINTS["bundled"].resolve()
    assert adapter.encoder_digest == load_model("bundled", device="cpu").encoder_digest
    assert adapter.fit_config(StreamConfig()).decision_policy == "answer"


def ask_about_completion(checkpoint: Checkpoint, samples: Sequence[Sample]) -> Iterator[tuple[bool, float]]:
    """Yield for each question whether a step was completed if it is due at this frame, and the probability of yes.

    The labels are those of the heads: yes at the frame of the reference's update, no before and after it.
    """
    features = SampleFeatures(checkpoint=checkpoint)
    requests = [
        StreamRequest(
            video_id=sample.video_id,
            features=list(features.embed(sample)),
            task=build_task(sample),
            fps=sample.fps,
            is_traced=True,
        )
        for sample in samples
    ]
    events = list(Streamer(checkpoint, checkpoint.fit_config(StreamConfig())).run_many(requests))
    for sample in samples:
        yield from label_answers(sample, [event for event in events if event.video_id == sample.video_id])


def label_answers(sample: Sample, events: Sequence[StreamEvent]) -> Iterator[tuple[bool, float]]:
    """Yield the label and the probability of each answer about completion in the stream of one video."""
    trace, outputs = events[-1].trace, [event.output for event in events if event.output is not None]
    assert trace is not None
    completed = {
        turn.text: frame_at(turn.time_s, sample.fps)
        for turn in sample.turns
        if turn.role == "update" and turn.text.endswith("->complete")
    }
    for computed in (item for context in trace.contexts for item in context):
        if isinstance(computed.item.piece, Image) and computed.decision is not None:
            frame = computed.item.piece.frame_index
            state = outputs[frame - 1].dst_state if frame else initial_state(sample.steps, sample.initial_state)
            questions = list_update_questions(sample.steps, state)
            for question, prob in zip(questions, computed.decision.answers, strict=True):
                if question.update.endswith("->complete"):
                    yield completed.get(question.update) == frame, prob


@pytest.mark.slow
def test_its_answers_about_completion_are_as_good_as_documented(adapter: Checkpoint) -> None:
    samples = read_samples(ASSETS / "demo" / "val.json")  # the smaller of both splits
    truth, probs = zip(*ask_about_completion(adapter, samples), strict=True)
    text = (ROOT / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    row = re.search(r"^\| val, answers \| ([\d.]+) \|", text, re.MULTILINE)
    assert row is not None
    assert roc_auc_score(truth, probs) == pytest.approx(float(row[1]), abs=2e-3), REMEDY
