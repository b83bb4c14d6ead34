"""Figures of the run in the player."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.controls.downloads import FigureView
from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.review_context import ReviewContext
from stepscope.app.core.run import Run, analyze_run
from stepscope.app.figures.timeline.bands import model_bands, reference_bands
from stepscope.app.reviews.actions import Action
from stepscope.app.reviews.store import open_store
from stepscope.app.tabs.player.figures import TIMELINE, VIDEO_CHARTS, export_figure, to_timeline_run
from stepscope.app.web.component import STATIC
from stepscope.app.web.payload import pack_run
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.samples import Split
from stepscope.eval.metrics.score import score_counts
from tests.support.reviews.played import judge, make_run
from tests.support.streams.fakes import anybody, count_letters

EVENT = {"format": "json", "width": "85mm", "theme": "light", "from_s": 0.0, "to_s": 10.0, "corrected": False}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path)


def export(run: Run | None, reviews: Any = None, *, other: Run | None = None, **changes: Any) -> tuple[FigureView, str]:
    """Return the view of a figure, and the content of its file."""
    live = LiveRun.finished(run, other=other) if run else None
    context: Any = SimpleNamespace(encode=count_letters)
    views = export_figure(context, reviews, live, SimpleNamespace(**{**EVENT, **changes}), anybody())
    view = next(views)
    content = Path(view.download).read_text(encoding="utf-8") if view.download else ""
    assert list(views) == []
    assert not view.download or not Path(view.download).exists(), "the file is deleted once the page has its copy"
    return view, content


def test_the_visible_range_of_a_run_of_the_window_is_a_file(run: Run) -> None:
    view, content = export(run)
    assert Path(view.download).name == f"a-{run.digest}-figure.json"
    assert json.loads(content)["layout"]["width"] == 321
    view, content = export(run, format="csv", from_s=1.0, to_s=5.5)
    times = [row["time_s"] for row in csv.DictReader(content.splitlines()) if row["series"] == "P(speak)"]
    assert (times[0], times[-1], len(times)) == ("1.0", "5.5", 10)
    view, content = export(replace(run, name="first"), format="json", theme="dark")
    assert Path(view.download).name == "a-first-figure.json"
    assert json.loads(content)["layout"]["paper_bgcolor"] == "#18181b"


def test_two_runs_that_the_player_compares_are_both_in_the_figure(run: Run) -> None:
    above, below = replace(run, name="first", letter="A"), replace(run, name="second", letter="B")
    _, content = export(above, other=below, format="csv")
    rows = list(csv.DictReader(content.splitlines()))
    assert {row["run"] for row in rows if row["lane"] == "assistant"} == {"first", "second"}
    assert {row["run"] for row in rows if row["lane"] == "reference"} == {"first"}


@pytest.mark.parametrize("chart", [name for name in VIDEO_CHARTS if name != TIMELINE])
def test_each_chart_of_a_video_is_a_file(run: Run, chart: str) -> None:
    view, content = export(run, chart=chart, format="json", theme="dark")
    assert Path(view.download).name == f"a-{run.digest}-{chart}.json"
    figure = json.loads(content)
    assert figure["layout"]["title"]["text"] == f"{VIDEO_CHARTS[chart]}: {run.clip.name}"
    assert figure["data"], figure["layout"]["annotations"]


def test_a_chart_of_a_video_has_the_precision_and_recall_of_its_decisions(run: Run) -> None:
    analysis = analyze_run(run, count_letters)
    assert analysis is not None
    speaking = score_counts(analysis.counts)
    figure = json.loads(export(run, chart="precision_recall", format="json")[1])
    point = next(trace for trace in figure["data"] if trace["name"] == "speak of this run")
    assert point["x"] == [speaking["speaking_recall"]]
    assert point["y"] == [speaking["speaking_precision"]]


def test_the_menu_has_every_figure_of_a_video() -> None:
    html = (STATIC / "player.html").read_text(encoding="utf-8")
    options = re.findall(
        r'<option value="(\w+)"[^>]*>([^<]+)</option>', html.split("ss-figureChart")[1].split("</select>")[0]
    )
    assert dict(options) == VIDEO_CHARTS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"chart": "<b>"},
            "there is no figure '<b>' of a video; choose one of timeline, precision_recall, roc, reliability, leads, "
            "failures, states, latency.",
        ),
        ({"chart": "roc", "width": "9km"}, "a width is a number with px, mm, cm, in or pt, such as 180mm; got '9km'."),
        ({"format": "exe"}, "exe is no format of a figure; choose one of svg, png, pdf, json, csv."),
        ({"width": "<b>"}, "a width is a number with px, mm, cm, in or pt, such as 180mm; got '<b>'."),
        ({"from_s": "x"}, "the page sent no range; reload it."),
        ({"from_s": 5.0, "to_s": 5.0}, "the range from 5 to 5 s is empty; the video lasts 10 s."),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_a_problem_in_the_status_line(
    run: Run, changes: dict[str, Any], message: str
) -> None:
    view, _ = export(run, **changes)
    assert view.download is None
    assert view.status.value == f"⚠ {message}"
    view, _ = export(None)
    assert "there is no run to export" in view.status.value


def test_a_figure_has_the_decisions_matches_and_states_of_the_player(run: Run) -> None:
    packed = json.loads(pack_run(run, judge(run)))
    shown = to_timeline_run(run, count_letters)
    for signal in shown.signals:
        found, decided, expected = signal.decisions, packed["decided"][signal.name], packed["expected"][signal.name]
        assert sorted([*found.in_time, *found.unexpected]) == decided
        assert len(found.in_time) + len(found.undecided) == len(expected)
        assert set(found.undecided) <= set(expected)
    assert shown.judged is not None
    outcomes = [turn.outcome for turn in shown.judged.turns]
    assert outcomes == [turn["verdict"] for turn in packed["turns"]]
    assert run.clip.sample is not None
    bands = {"model": model_bands(shown.steps, shown.outputs), "reference": reference_bands(run.clip.sample)}
    assert json.loads(json.dumps(bands)) == packed["bands"]


def test_the_pairs_are_as_many_as_those_of_the_scores(run: Run) -> None:
    analysis = analyze_run(run, count_letters)
    assert analysis is not None
    speak, update = to_timeline_run(run, count_letters).signals
    assert len(speak.decisions.in_time) == analysis.counts.speaking.num_pairs[2]  # within 1 s
    assert len(update.decisions.in_time) == analysis.counts.updating.num_pairs[2]


def test_a_figure_beside_the_corrected_reference_has_its_texts(run: Run, tmp_path: Path) -> None:
    sample = run.clip.sample
    assert sample is not None
    first = name_turns(sample.turns)[1]
    with open_store(tmp_path / "reviews.sqlite") as store:
        reworded = Correction(reviewer="ann", kind="text", turn=first, text="Take the wheel.")
        store.append(Action(kind="correction", reviewer="ann", video_id="a", correction=reworded))
        reviews = ReviewContext(store=store, splits={"split": Split(path=tmp_path / "split.json", entries=(sample,))})
        _, source = export(run, reviews, format="csv")
        _, corrected = export(run, reviews, format="csv", corrected=True)
    assert "Take the wheel." not in source
    assert "Take the wheel." in corrected
