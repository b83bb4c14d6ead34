"""Files of the run in the player: figures, traces, outputs and provenance."""

import csv
import json
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.core.run import RUN_FILES, Run, analyze_run, file_name, write_run_file
from stepscope.app.player.commands import FigureRequest, FileRequest
from stepscope.app.player.component import STATIC
from stepscope.app.player.downloads import TIMELINE, VIDEO_CHARTS, export_figure, export_run
from stepscope.app.review_store.actions import Action
from stepscope.app.review_store.store import open_store
from stepscope.app.window.context import ReviewContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.records import read_outputs
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.samples import Split
from stepscope.eval.metrics.score import score_counts
from tests.support.pages.browser import CHROMIUM
from tests.support.reviews.played import make_run
from tests.support.streams.fakes import anybody, count_letters

FIGURE: dict[str, Any] = {"chart": "failures", "format": "json", "width": "85mm"}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="85mm" height="40mm"><text y="20">Now</text></svg>'


@pytest.fixture
def run(tmp_path: Path) -> Run:
    settings = {"checkpoint": "tiny", "device": "cpu", "text_encoder": "letters", "text_encoder_digest": "feed"}
    return replace(make_run(tmp_path), settings=settings, model_digest="0123456789abcdef")


def export(run: Run | None, reviews: Any = None, **changes: Any) -> tuple[str, str]:
    """Return name and content of the file of a figure; both are empty without one."""
    live = LiveRun.finished(run) if run else None
    context: Any = SimpleNamespace(encode=count_letters)
    sent = export_figure(context, reviews, Window(live=live), FigureRequest(**{**FIGURE, **changes}), anybody())
    path = Path(next(sent) or "")
    content = path.read_bytes().decode("latin-1") if path.name else ""
    assert list(sent) == []
    assert not path.is_file(), "the file is deleted once the page has its copy"
    return path.name, content


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium-headless-shell")
def test_the_timeline_of_the_page_is_printed_as_pdf(run: Run) -> None:
    name, content = export(replace(run, name="first"), chart=TIMELINE, format="pdf", svg=SVG)
    assert name == "a-first-figure.pdf"
    (box,) = re.findall(r"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", content)
    assert [float(side) / 72 * 25.4 for side in box] == pytest.approx([85, 40], abs=0.5)
    assert "/Type /Font" in content, "texts stay texts"


@pytest.mark.parametrize("chart", [name for name in VIDEO_CHARTS if name != TIMELINE])
def test_each_chart_of_a_video_is_a_file(run: Run, chart: str) -> None:
    name, content = export(run, chart=chart, format="json", theme="dark")
    assert name == f"a-{run.digest}-{chart}.json"
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"chart": "<b>"},
            "there is no figure '<b>' of a video; choose one of timeline, precision_recall, roc, reliability, leads, "
            "failures, states, latency.",
        ),
        ({"width": "9km"}, "a width is a number with px, mm, cm, in or pt, such as 180mm; got '9km'."),
        *(
            (
                {"chart": TIMELINE, "format": "pdf", "svg": f"<svg>{repeats}</svg>"},
                "the timeline must draw each part once; reload the page.",
            )
            for repeats in (
                "<use href='#a'/>",
                "<script>location = 'http://elsewhere'</script>",
                "<rect style='fi\\6cter: blur(9px)'/>",
            )
        ),
        (
            {"chart": TIMELINE, "format": "pdf", "svg": "<!DOCTYPE svg [<!ENTITY b 'b'>]><svg>&b;</svg>"},
            "the timeline must draw each part once; reload the page.",
        ),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_a_warning(run: Run, changes: dict[str, Any], message: str) -> None:
    with pytest.warns(UserWarning, match=re.escape(escape(message))):
        assert export(run, **changes) == ("", "")
    with pytest.warns(UserWarning, match="there is no finished run to export"):
        assert export(None) == ("", "")


def test_a_chart_beside_the_corrected_reference_counts_its_texts(run: Run, tmp_path: Path) -> None:
    sample = run.clip.sample
    assert sample is not None
    first = name_turns(sample.turns)[1]
    with open_store(tmp_path / "reviews.sqlite") as store:
        reworded = Correction(reviewer="ann", kind="text", turn=first, text="!?")
        store.append(Action(kind="correction", reviewer="ann", video_id="a", correction=reworded))
        reviews = ReviewContext(store=store, splits={"split": Split(path=tmp_path / "split.json", entries=(sample,))})
        _, source = export(run, reviews, format="csv")
        _, corrected = export(run, reviews, format="csv", corrected=True)
    assert ("wrong text,0" in source, "wrong text,1" in corrected) == (True, True)


def test_the_files_of_a_run_are_named_after_its_video_and_run(run: Run, tmp_path: Path) -> None:
    names = [write_run_file(tmp_path, run, content).name for content in RUN_FILES]
    assert names == [f"a-{run.digest}-{content}" for content in RUN_FILES]
    assert write_run_file(tmp_path, replace(run, name="first"), "traces.csv").name == "a-first-traces.csv"
    assert file_name("../../<b>", "x" * 300, "traces.csv").endswith("x-traces.csv")
    assert "/" not in file_name("../../<b>", "", "traces.csv")


def test_each_file_says_where_the_run_comes_from(run: Run, tmp_path: Path) -> None:
    traces, outputs, provenance = (write_run_file(tmp_path, run, content) for content in RUN_FILES)
    with traces.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert [row["response"] for row in rows if row["spoke"] == "1"] == [o.response for o in run.outputs if o.response]
    assert {row["run"] for row in rows} == {run.digest}
    assert read_outputs(outputs) == run.outputs
    said = json.loads(provenance.read_text(encoding="utf-8"))
    assert (said["run"], said["video_id"], said["task"]["goal"]) == (run.digest, "a", "build")
    assert (said["checkpoint"], said["text_encoder"], said["text_encoder_digest"]) == ("tiny", "letters", "feed")
    assert (said["model_digest"], said["device"], said["config"]["fps"]) == ("0123456789abcdef", "cpu", 2.0)


def test_an_export_is_deleted_once_the_page_has_its_copy(run: Run) -> None:
    exporting = export_run(Window(live=LiveRun.finished(run)), FileRequest(content="traces.csv"))
    path = Path(next(exporting))
    assert path.is_file()
    assert list(exporting) == []
    assert not path.exists()


ROWS = re.findall(
    r'^  \[\s*"([^"]+)",\s+"(\w[\w ]*)",\s', (STATIC / "commands.js").read_text(encoding="utf-8"), re.MULTILINE
)


def test_each_key_has_one_command() -> None:
    keys = [key for row, _ in ROWS for key in row.split()]
    assert len(keys) >= 50
    assert len(keys) == len(set(keys)), f"bound twice: {sorted({key for key in keys if keys.count(key) > 1})}"
