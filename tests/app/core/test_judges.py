"""The grades of replies inside reply spans in the player, by the judge that scored the run."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.core.run import PAGE_SCORING, analyze_run
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import sample_clip
from stepscope.app.web.payload import pack_run
from stepscope.eval.cli.finished_runs import score
from stepscope.eval.cli.options import RescoreOptions
from stepscope.eval.data.loading import read_split
from stepscope.eval.recorder import RunRecorder, Turn
from stepscope.eval.runs.folder import RunFolder
from tests.support.data.batches import no_java
from tests.support.servers.served import ModelServer, serve_chat
from tests.support.streams.fakes import count_letters

SPAN = Turn(time_s=1.0, role="assistant", text="Now.", end_s=3.0)
SPOKEN = {1: "Early.", 2: "Zzzz!", 4: "Now.", 5: "Now."}
"""Before the span; and inside it, by cosine wrong, then partly right with both replies; then an exact repeat."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("stepscope.eval.cli.finished_runs.TextScorer", no_java)
    with RunRecorder(tmp_path / "run", model="m") as run, run.video("v", fps=2, turns=[SPAN]) as video:
        for index in range(8):
            video.frame(index / 2, response=SPOKEN.get(index))
    return tmp_path / "run"


def packed(run: Path) -> dict[str, Any]:
    folder = RunFolder(run)
    (sample,) = read_split(folder.split_path()).samples
    clip = sample_clip(sample, run / "v.mp4", is_bundled=False)
    found = read_saved_run(folder, clip, scoring=PAGE_SCORING, encoder={})
    analysis = analyze_run(found, count_letters)
    assert analysis is not None
    data: dict[str, Any] = json.loads(pack_run(found, analysis.judged))
    return data


def grades(data: dict[str, Any]) -> dict[int, int]:
    return {turn["frame"]: turn["grade"] for turn in data["turns"] if "grade" in turn}


def test_the_bands_of_the_cosine_grade_by_default(run: Path) -> None:
    data = packed(run)
    assert data["judge"] == "cosine bands 0.5/0.8"
    assert grades(data) == {2: 0, 4: 1}


def test_a_served_judge_shows_its_kept_answers_and_is_not_asked_again(run: Path) -> None:
    with serve_chat(ModelServer(answers=["2", "3"])) as server:
        assert score(RescoreOptions(run=run, judge=server.url, judge_model="m")) == 0
        asked = len(server.requests)
    data = packed(run)  # the server is gone
    assert data["judge"] == f"m at {server.url}"
    assert grades(data) == {2: 1, 4: 2}
    assert asked == 2


def test_without_a_kept_answer_the_bands_grade_and_are_named(run: Path) -> None:
    with serve_chat(ModelServer(answers=["2", "3"])) as server:
        assert score(RescoreOptions(run=run, judge=server.url, judge_model="m")) == 0
    (run / "judgements.json").write_text("{}")
    data = packed(run)
    assert (data["judge"], grades(data)) == ("cosine bands 0.5/0.8", {2: 0, 4: 1})
