"""A served model as a judge."""

import json
from pathlib import Path

import pytest

from stepscope.eval.cli.finished_runs import score
from stepscope.eval.cli.options import ProtocolsOptions, RescoreOptions
from stepscope.eval.cli.run_tables import protocols
from stepscope.eval.matching.grading import Reply
from stepscope.eval.recorder import RunRecorder, Turn
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.served.chat import ChatClient, Endpoint, ServedModelError
from stepscope.eval.served.judge import EndpointJudge
from tests.support.data.batches import no_java
from tests.support.servers.served import ModelServer, serve_chat

REPLIES = [Reply(question="When?", gold="Now.", text=text) for text in ("Now.", "Soon.", "Never.", "Now.")]


def test_answers_are_grades_and_none_is_asked_twice(tmp_path: Path) -> None:
    cache = tmp_path / "judgements.json"
    with serve_chat(ModelServer(answers=["3", "Grade: 2.", "1"])) as server:
        endpoint = Endpoint(url=server.url, model="m")
        with ChatClient(endpoint) as client:
            assert EndpointJudge(client, cache)(REPLIES) == [2, 1, 0, 2]
        with ChatClient(endpoint) as client:
            assert EndpointJudge(client, cache)(REPLIES) == [2, 1, 0, 2]  # from the disk
    assert len(server.requests) == 3
    assert "Reference: Now." in server.requests[0]["messages"][1]["content"]


def test_an_answer_without_a_grade_and_a_damaged_cache_are_errors(tmp_path: Path) -> None:
    with (
        serve_chat(ModelServer(answers=["I give 10"])) as server,
        ChatClient(Endpoint(url=server.url, model="m")) as client,
    ):
        with pytest.raises(ServedModelError, match="without a grade from 1 to 3: 'I give 10'"):
            EndpointJudge(client, tmp_path / "a.json")(REPLIES)
        (tmp_path / "b.json").write_text('{"x": 7}')
        with pytest.raises(ValueError, match="must hold grades from 0 to 2"):
            EndpointJudge(client, tmp_path / "b.json")


def test_the_command_scores_with_the_judge_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.eval.cli.finished_runs.TextScorer", no_java)
    span = Turn(time_s=1.0, role="assistant", text="Now.", end_s=3.0)
    with RunRecorder(tmp_path / "run", model="m") as run, run.video("v", fps=2, turns=[span]) as video:
        for index in range(8):
            video.frame(index / 2, response="Now." if index == 4 else None)
    with serve_chat(ModelServer(answers=["1"])) as server:
        assert score(RescoreOptions(run=tmp_path / "run", judge=server.url, judge_model="m")) == 0
    content = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert content["judge"] == f"m at {server.url}"
    assert content["scores"]["PAUC_w1"] == 0.0  # wrong; by cosine it is right
    assert RunFolder(tmp_path / "run").count_videos() == 1


def test_protocols_are_scored_with_the_judge(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    turn = Turn(time_s=2.0, role="assistant", text="Now.")
    with RunRecorder(tmp_path / "run", model="m") as run, run.video("v", fps=2, turns=[turn]) as video:
        for index in range(8):
            video.frame(index / 2, response="Now." if index == 4 else None)
    with serve_chat(ModelServer(answers=["1"])) as server:
        options = ProtocolsOptions(runs=(tmp_path / "run",), protocol=("omnipro",), judge=server.url, judge_model="m")
        assert protocols(options) == 0
    shown = capfd.readouterr().out
    head, _, row, *_ = ([cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines())
    scores = dict(zip(head, row, strict=True))
    assert head[0] == "omnipro: tolerance_s 3, right_accuracy 0.5"
    assert scores["f1"] == "0.000", "wrong; by cosine it is right"
    assert scores["time_f1"] == "1.000"
    assert f"contents judged by m at {server.url}" in shown
