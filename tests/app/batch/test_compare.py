"""Two runs compared: the tables, the line above them, and the way into the player."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from stepscope.app.batch import compare as comparing
from stepscope.app.batch.compare import ComparedRuns
from stepscope.app.batch.compare_tables import (
    compared_roots,
    compared_turns,
    compared_videos,
    describe_sides,
    draw_differences,
)
from stepscope.app.batch.runs import handlers
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player.commands import RunInFocus
from stepscope.app.window.context import AppContext
from stepscope.engine.records import Step
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.metrics.counts import Interval
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.reports.compare_runs import ComparedRoot, ComparedVideo, Comparison
from stepscope.eval.reports.statistics import ComparedTurn, Difference, WrongIn
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.provenance import Provenance
from tests.support.pages.batch_tab import select
from tests.support.reviews.played import keys_of_failures


def difference(
    a: float, b: float, *, low: float = math.nan, high: float = math.nan, p_value: float = 1.0
) -> Difference:
    found = Difference(a=a, b=b, difference=b - a, interval=Interval(low=low, high=high), p_value=p_value)
    return replace(found, corrected_p=2 * p_value, corrected_better_p=2 * p_value)


def cells(markup: str) -> list[list[str]]:
    rows = [re.findall("<td>(.*?)</td>", row) for row in markup.split("<tr")]
    return [[re.sub("<.*?>", "", cell) for cell in row] for row in rows if row]


def test_a_number_of_failures_is_a_whole_number_says_which_run_is_better_and_headings_name_the_runs() -> None:
    drawn = draw_differences({"num_failures": difference(12.0, 9.0, low=-5.0, high=-1.0, p_value=0.01)})
    assert cells(drawn) == [["Failures", "12", "9", "-3", "-5 to -1", "0.010", "0.020", "B is better"]]
    drawn = draw_differences({"num_failures": difference(12.0, 9.0)}, notes=("speak 0.5", "speak <0.9>"))
    assert '<th scope="col">A <small>speak 0.5</small></th>' in drawn
    assert "B <small>speak &lt;0.9&gt;</small>" in drawn
    assert draw_differences({}) == ""


def test_a_difference_is_no_finding_if_it_shows_as_0_or_its_corrected_p_is_not_small() -> None:
    zero, uncorrected = difference(0.004, 0.0042, p_value=0.016), difference(0.4, 0.5, p_value=0.03)
    drawn = draw_differences({"F1": zero, "dst_f1": uncorrected}, is_folded=True)
    assert [row[3:] for row in cells(drawn)] == [
        ["0.000", "", "0.016", "0.032", ""],
        ["+0.100", "", "0.030", "0.060", ""],
    ]
    assert "Scores that differ" not in drawn


def test_first_mistakes_are_counted_and_listed_with_those_that_are_new_first() -> None:
    root = ComparedRoot(video_id="v", time_s=1.0, wrong_in="only B", causes=("", "prompt: ids"), num_failures=(0, 3))
    both = replace(root, wrong_in="both", causes=("unexplained", "prompt: ids"), num_failures=(2, 1))
    found = Comparison(differences={}, videos=(), left_out={}, roots=(root, both))
    table = compared_roots(found, {"v": "short"})
    assert table.value["data"] == [
        ["short", 1.0, "new in B", "prompt: ids", "3"],
        ["short", 1.0, "in both", "unexplained → prompt: ids", "2 → 1"],
    ]
    assert ": 1 new in B (3), 0 gone (0), 1 in both (2 in A, 1 in B). Click" in table.label
    assert compared_roots(None, {}).visible is False


def test_a_delay_is_called_better_only_if_its_distance_from_0_is_tested_so() -> None:
    apart = replace(difference(-1.0, 1.062, p_value=0.001), corrected_better_p=1.0)
    nearer = replace(difference(-1.0, 0.25, p_value=0.4), corrected_better_p=0.012)
    drawn = [cells(draw_differences({"dst_delay_s": found}))[0] for found in (apart, nearer)]
    assert [row[5:] for row in drawn] == [
        ["0.001", "0.002", ""],
        ["0.400", "0.800", "B is better: nearer to 0, p 0.012"],
    ]


def run(name: str, *, model: str = "feed", **config: object) -> Provenance:
    return Provenance(run=name, model_digest=model, device="cpu", config={"lookahead": 8, **config})


def test_the_thresholds_of_both_runs_are_named_and_the_settings_that_differ() -> None:
    a = run("a", speak_threshold=0.5, update_threshold=0.4)
    b = run("b", speak_threshold=0.9, update_threshold=0.4)
    assert describe_sides(a, b) == "A has speak 0.5, update 0.4; B has speak 0.9, update 0.4."
    b = run("b", model="f00d", speak_threshold=0.9, update_threshold=0.4, seed=1)
    assert describe_sides(a, b).endswith(" Different: model (A feed, B f00d), seed (A 0, B 1).")


def test_an_imported_run_differs_by_its_model_alone_since_its_settings_are_unknown() -> None:
    described = describe_sides(run("a", speak_threshold=0.5, update_threshold=0.4), Provenance(run="b", device="cpu"))
    assert described == (
        "A has speak 0.5, update 0.4; B has speak unknown, update unknown. Different: model (A feed, B unknown)."
    )
    ruled = Provenance(run="b", rules="speak by score, above, threshold 0.50")
    assert "; B has speak by score, above, threshold 0.50. " in describe_sides(run("a"), ruled)


def video(name: str, a: float, b: float, *wrong_in: WrongIn) -> ComparedVideo:
    turns = tuple(ComparedTurn(reference=number, wrong_in=where) for number, where in enumerate(wrong_in))
    return ComparedVideo(video_id=name, scores=({"num_failures": a}, {"num_failures": b}), turns=turns)


def test_videos_that_changed_are_first_and_the_worse_before_the_better() -> None:
    videos = [
        video("same", 2.0, 2.0, "both"),
        video("unknown", math.nan, 1.0),
        video("better", 3.0, 1.0, "only A"),
        video("other turns", 2.0, 2.0, "only A", "only B"),
        video("worse", 1.0, 2.0, "only B"),
        video("worst", 1.0, 5.0, "only B"),
    ]
    rows = compared_videos(videos, "num_failures")["data"]
    assert [row[0] for row in rows] == ["worst", "worse", "better", "other turns", "same", "unknown"]


def test_the_second_run_is_one_of_the_same_split_once_that_is_known(batches: BatchContext) -> None:
    own = str(next(iter(batches.splits.values())).path.resolve())
    for name, settings in {"a": {"split": own}, "b": {"split": own}, "c": {"split": "elsewhere.json"}}.items():
        (batches.runs / name).mkdir(parents=True)
        RunFolder(batches.runs / name).write_settings(settings)
    (batches.runs / "damaged").mkdir()
    (batches.runs / "damaged" / "run.json").write_text("{", encoding="utf-8")
    assert set(batches.comparable_runs("a")) == {"b"}
    assert set(batches.comparable_runs("queued")) == {"a", "b", "c", "damaged"}


@pytest.mark.slow
def test_a_run_without_a_finished_video_is_named_until_it_has_one(
    context: AppContext, finished: BatchContext, tmp_path: Path
) -> None:
    shutil.copytree(finished.runs, tmp_path, dirs_exist_ok=True)
    records = [*(tmp_path / "silent").glob("*.record.json")]
    kept = {path: path.read_bytes() for path in records}
    for path in records:
        path.unlink()
    batches, chosen = replace(finished, runs=tmp_path), ("a", "silent", "only B", "missing_rate")
    view = comparing.compare(context, batches, *chosen)
    assert (view.compared, view.said) == (None, "silent has no finished video to compare yet.")
    assert comparing.compare_again(context, batches, None, *chosen).said == gr.skip()
    records[0].write_bytes(kept[records[0]])
    assert comparing.compare_again(context, batches, None, *chosen).said.startswith("A is a, B is silent; 1 video.")


def test_a_row_of_an_update_has_the_name_of_its_step_and_opens_its_turn() -> None:
    turn = Turn(role="update", time_s=1.0, text="S1->start")
    sample = Sample(video_id="v", fps=2.0, num_frames=9, steps=(Step(id="S1", name="wheel"),), turns=(turn,))
    compared = ComparedVideo(video_id="v", scores=({}, {}), turns=(ComparedTurn(reference=0, wrong_in="only B"),))
    [row] = compared_turns([compared], {"v": sample}, "only B", {})
    assert row == ["v", 1.0, "only B", "update", "began: wheel"]
    assert comparing._find_turn(sample, "update", 1.0, "began: wheel").text == "S1->start"


@pytest.mark.slow
def test_two_runs_are_compared_and_each_row_opens_both(context: AppContext, finished: BatchContext) -> None:
    batches = finished
    request: Any = SimpleNamespace(query_params={"against": "silent"})
    assert handlers.enter(batches, select("a"), RunInFocus(), request).other == "silent"
    request = SimpleNamespace(query_params={"against": "a"})
    assert handlers.enter(batches, select("a"), RunInFocus(), request).other == "", "no run is compared with itself"
    view = comparing.compare(context, batches, "a", "silent", "only B", "missing_rate")
    assert view.said.startswith("A is a, B is silent; 3 videos.")
    assert ("Responses missed" in view.scores, "Responses missed" in view.failures) == (True, False)
    assert ("Failures" in view.scores, "Failures: wrong state" in view.failures) == (False, True)
    assert "Times are not compared: silent reused kept embeddings in 3 of 3 videos." in view.scores
    assert view.videos["headers"][:4] == ["Video", "Responses missed, A", "Responses missed, B", "B - A"]
    rows = view.videos["data"]
    assert {row[0] for row in rows} == {"v0", "v1", "v2"}
    assert [row[3] for row in rows] == [pytest.approx(row[2] - row[1], abs=0.0011) for row in rows]
    assert [row[3] for row in rows] == sorted((row[3] for row in rows), reverse=True)  # most missed in B first
    assert rows[0][3] > 0
    fewer = comparing.sort_videos(batches, view.compared, "num_redundant")[0]["data"]
    assert [row[3] for row in fewer] == sorted((row[3] for row in fewer), reverse=True)
    assert all(row[3] <= 0 for row in fewer)  # a silent run has none
    assert {row[2] for row in view.turns} == {"only B"}
    assert comparing.compare_again(context, batches, view.compared, "a", "silent", "only B", "F1").said == gr.skip()
    stale = ComparedRuns("gone", "silent", ())
    chosen = "a", "silent", "only B", "missing_rate"
    assert comparing.compare_again(context, batches, stale, *chosen).said == gr.skip(), "the choice compares them"
    again = comparing.compare_again(context, batches, stale, *chosen, is_after_choice=True)
    assert (again.said, again.turns) == (view.said, view.turns), "that comparison ended late"
    assert {row[2] for row in comparing.choose_turns(batches, view.compared, "both")} == {"both"}
    event: Any = SimpleNamespace(row_value=view.turns[0])
    shown = json.loads(comparing.open_turn(context, batches, view.compared, event).player)
    assert (shown["run_name"], shown["other"]["run_name"]) == ("silent", "a"), "it is wrong only in B"
    assert shown["landing"]["time"] == view.turns[0][1]
    failed = {key for key in keys_of_failures(shown) if key == shown["landing"]["event"]}
    assert failed, "the turn is selected as the failure that it is"
    assert not shown["landing"]["opens_review"]
    event = SimpleNamespace(row_value=[*view.turns[0][:2], "new in B", "unexplained", "1"])
    shown = json.loads(comparing.open_turn(context, batches, view.compared, event).player)
    assert shown["run_name"] == "silent", "it is new there"
    assert shown["landing"]["event"] in keys_of_failures(shown), "a first mistake is selected, too"
    assert "First mistakes are not compared: neither run has a diagnosis. Open such a run" in view.said
    event = SimpleNamespace(row_value=["v1"])
    of_a, of_b = next(video.scores for video in view.compared.videos if video.video_id == "v1")
    points = json.loads(view.distribution)["light"]["data"][2]
    missed = [found.scores[0]["missing_rate"] for found in view.compared.videos]
    assert (points["customdata"], points["y"]) == (["v0", "v1", "v2"], missed)
    above = ("silent", "a") if of_b[NUM_FAILURES] > of_a[NUM_FAILURES] else ("a", "silent")
    shown = json.loads(comparing.open_both(context, batches, view.compared, event).player)
    assert (shown["name"], shown["run_name"], shown["other"]["run_name"]) == ("v1", *above)
    assert comparing.compare(context, batches, "a", "a", "both", "F1").said.startswith("Tick two runs")
    assert "there is no run" in comparing.compare(context, batches, "a", "../x", "both", "F1").said
