"""Evidence of the bundled model for one decision, whose numbers were found by another program."""

import pytest

from stepscope.engine.evidence.explain import explain_decision
from stepscope.engine.loading import load_model
from stepscope.engine.replay import Recording
from stepscope.eval.cli.bench import read_videos
from tests.support.paths import ASSETS


def test_the_sail_is_completed_by_its_own_frame_and_the_one_before() -> None:
    checkpoint = load_model(ASSETS / "checkpoint", device="cpu")
    (video,) = read_videos(ASSETS / "demo" / "test.json", checkpoint, only={"boat"})
    recording = Recording(checkpoint, list(video.features)[:60], task=video.task)
    list(recording.run())
    evidence = explain_decision(recording, 59, target="update", with_texts=False)
    before, last = evidence.frames[-2:]
    assert evidence.time_s == 29.5
    assert before.log_odds == pytest.approx(0.36, abs=0.01)
    # alone, the picture before is redundant; without all earlier pictures the decision is lost
    alone = next(trial for trial in evidence.last_frames if trial.num_frames == 1)
    assert alone.log_odds == pytest.approx(-10.4, abs=0.05)
    assert evidence.fewest_last_frames == 2
    assert last.log_odds is not None
    assert last.log_odds > 15
    assert max(abs(frame.random_log_odds or 0) for frame in evidence.frames) < last.log_odds / 5
