"""Files of the charts of the batch tab: of the shown run, of its sweep, and of two runs."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.batch import charts as panel
from stepscope.app.batch.charts import draw_run_chart
from stepscope.app.batch.compare import ComparedRuns, draw_comparison_chart
from stepscope.app.batch.file_rows import write_chart
from stepscope.app.batch.sweeps import folders
from stepscope.app.batch.sweeps import tab as sweeping
from stepscope.app.batch.sweeps.folders import FoundSweep
from stepscope.app.batch.sweeps.tab import SweepForm
from stepscope.app.figures.charts.registry import COMPARISON_CHARTS
from stepscope.app.figures.charts.sweep_curves import SweepData
from stepscope.eval.data.samples import Split
from stepscope.eval.reports.compare_runs import ComparedVideo
from stepscope.eval.reports.table_files import Results, Row
from stepscope.eval.sweeps.grid import Grid, GridScores
from tests.support.data.batches import SCORING

LOOK = {"x": "F1", "y": "dst_f1", "name": "videos", "width": "85mm", "theme": "light", "file_format": "json"}
GRID = Grid(speak=(0.25, 0.75), update=(0.1, 0.5))
NO_RUN = "there are no charts; choose a run that is scored."


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the state of a page with one scored run, whose only video has both scores."""
    rows: list[Row] = [{"video_id": "<b>a</b>", "F1": 0.25, "dst_f1": 0.75, "missing_rate": 0.5}]
    scored = Results(rows=rows, metrics={"scores": {}})
    monkeypatch.setattr(panel, "read_results", lambda folder: scored if folder.name == "first" else Results())
    return SimpleNamespace(
        folder=Path("runs").joinpath,
        run_names=lambda: ["first", "second"],
        settings_of=lambda name: {},
        split_of=lambda settings: None,
        scoring_of=lambda settings: SCORING,
    )


def read(sent: Any) -> tuple[str, str]:
    """Return name and content of a file."""
    path = Path(next(sent))
    content = path.read_text(encoding="utf-8")
    assert list(sent) == []
    return path.name, content


def write(batches: Any, run: str | None = "first", **changes: Any) -> tuple[str, str]:
    return read(write_chart(partial(draw_run_chart, batches), run, *{**LOOK, **changes}.values()))


def test_a_chart_is_a_file_at_a_width(batches: Any) -> None:
    name, content = write(batches)
    assert name == "first-videos.json"
    layout = json.loads(content)["layout"]
    assert (layout["width"], layout["title"]["text"]) == (321, "Videos by two scores")


def test_the_chart_of_videos_has_the_chosen_scores(batches: Any) -> None:
    _, content = write(batches, x="missing_rate", file_format="csv")
    header, row = content.splitlines()[0].split(","), content.splitlines()[1].split(",")
    values = dict(zip(header, row, strict=False))
    assert (values["x"], values["y"]) == ("0.5", "0.75")


@pytest.mark.parametrize(
    ("run", "changes", "message"),
    [
        ("second", {}, NO_RUN),
        ("first", {"width": "9000px"}, "a figure is 240 to 6000 pixels (96 in an inch) wide; got 9000."),
    ],
)
def test_a_chart_that_cannot_be_written_is_a_warning(
    batches: Any, run: str | None, changes: dict[str, Any], message: str
) -> None:
    with pytest.warns(UserWarning, match=re.escape(message)):
        assert list(write_chart(partial(draw_run_chart, batches), run, *{**LOOK, **changes}.values())) == [None]


def test_the_charts_of_a_sweep_are_files_of_the_chosen_score(batches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    points = tuple({"num_failures": value, "F1": value / 10} for value in (4.0, 3.0, 2.0, 1.0))
    scores = GridScores(split="val.json", is_exact=True, grid=GRID, points=points, num_videos=1, errors={})
    scores = replace(scores, scoring="contents judged by letters")
    split = Split(path=Path("val.json"), entries=())
    found = FoundSweep(data=SweepData(scores=scores), settings={}, run="first", split=split, exact_sizes=())
    monkeypatch.setattr(folders, "find_sweep", lambda batches, name, size, signals: found)
    draw, by = partial(sweeping.draw_sweep_chart, batches), partial(SweepForm, run="first", size=5)
    name, content = read(write_chart(draw, by(metric="recommended"), "heat_map", "180mm", "dark", "csv"))
    assert name == "first-heat_map.csv"
    assert content.splitlines()[:2] == [
        "trace,x,y,z,text,scoring",
        'Failures,0.25,0.1,4.0,"speak 0.25, update 0.1; Failures 4",contents judged by letters',
    ]
    _, content = read(write_chart(draw, by(metric="F1"), "curves", "85mm", "light", "json"))
    figure = json.loads(content)
    assert "speak, at update 0.1" in [trace["name"] for trace in figure["data"]]
    assert "contents judged by letters" in figure["layout"]["title"]["subtitle"]["text"]
    with pytest.warns(UserWarning, match="a preview has no score dst_f1"):
        assert list(write_chart(draw, by(metric="dst_f1"), "curves", "85mm", "light", "json")) == [None]


def test_the_scores_of_two_runs_are_a_file_with_a_point_for_each_video(batches: Any) -> None:
    videos = [ComparedVideo(video_id=name, scores=({"F1": 0.5}, {"F1": 0.25}), turns=()) for name in ("<i>v</i>", "w")]
    compared = ComparedRuns("first", "second", videos)
    draw = partial(draw_comparison_chart, batches)
    name, content = read(write_chart(draw, compared, "F1", *COMPARISON_CHARTS, "85mm", "light", "csv"))
    assert name == "first-second-score_distributions.csv"
    assert content.count("<i>v</i>; A 0.500, B 0.250") == 2
    _, content = read(write_chart(draw, compared, "F1", *COMPARISON_CHARTS, "85mm", "light", "json"))
    subtitle = json.loads(content)["layout"]["title"]["subtitle"]["text"].replace("<br>", " ")
    assert "contents judged by cosine bands 0.5/0.8, text encoder letters, match window" in subtitle
    with pytest.warns(UserWarning, match="there is no chart; tick two runs in the list."):
        assert list(write_chart(draw, None, "F1", *COMPARISON_CHARTS, "85mm", "light", "csv")) == [None]
