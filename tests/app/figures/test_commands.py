"""The command ``figure``."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import pytest
from lxml import etree

from stepscope.app.cli import figure
from stepscope.app.cli.stepscope import main
from stepscope.app.figures.charts.registry import SWEEP_CHARTS
from stepscope.engine.cli.program import load_object
from stepscope.eval.data.writers import write_samples
from stepscope.eval.runs.folder import RunFolder, VideoRecord
from stepscope.eval.sweeps.folder import write_sweep
from stepscope.eval.sweeps.grid import Grid, GridScores
from tests.support.pages.browser import CHROMIUM
from tests.support.reviews.played import make_run
from tests.support.streams.fakes import count_letters

Draw = Callable[..., int]
NEEDS_BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium-headless-shell")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the run folder of one finished video and one that failed."""

    def load(reference: str) -> object:
        return lambda name: (
            SimpleNamespace(encode=count_letters, name=name) if "load_encoder" in reference else load_object(reference)
        )

    monkeypatch.setattr(figure, "load_object", load)
    run = make_run(tmp_path)
    sample = run.clip.sample
    assert sample is not None
    write_samples(tmp_path / "split.json", [sample], file_format="manifest")
    folder = RunFolder(tmp_path / "run")
    folder.save_video(VideoRecord(video_id="a", source="s", num_frames=20), run.outputs)
    folder.write_settings({"split": str(tmp_path / "split.json")})
    return folder.path


@pytest.fixture
def draw(folder: Path, tmp_path: Path) -> Draw:
    def run(*options: str, out: str = "fig.json", video: str = "a") -> int:
        words = ["figure", str(folder), "--out", str(tmp_path / out), *(["--video", video] if video else []), *options]
        return main(words)

    return run


@pytest.mark.browser
@NEEDS_BROWSER
def test_a_range_of_a_video_is_drawn_at_a_width_on_paper(
    draw: Draw, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    look = ("--from", "1", "--to", "5.5", "--width", "85mm", "--theme", "dark")
    assert draw(*look, out="fig.svg") == 0
    svg = etree.parse(str(tmp_path / "fig.svg")).getroot()
    assert svg.find("{*}title").text == "a, run, 0:01.0 to 0:05.5"
    assert svg.get("width") == "85mm"
    height = float(svg.get("height").removesuffix("mm"))
    assert capsys.readouterr().out == f"{tmp_path / 'fig.svg'}, 85mm x {height:.4g}mm\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"video": "b", "out": "a.svg"}, "has no video 'b'; choose one such as a"),
        ({"options": ("--chart", "roc")}, "give one of --video and --chart"),
        (
            {"options": ("--from", "6", "--to", "5"), "out": "a.svg"},
            "the range from 6 to 5 s is empty; the video lasts 10 s",
        ),
    ],
)
def test_a_wrong_wish_is_refused_in_one_sentence_and_nothing_is_written(
    draw: Draw, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, str], message: str
) -> None:
    before = sorted(tmp_path.iterdir())
    assert draw(*options.pop("options", ()), **options) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_the_charts_of_a_sweep_folder_and_the_preview_of_a_run_are_drawn(
    folder: Path, tmp_path: Path, draw: Draw, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, values = Grid(speak=(0.25, 0.75), update=(0.5,)), ((0.5, 3.0), (0.25, 1.0))
    points = tuple({"F1": f1, "num_failures": failures} for f1, failures in values)
    scores = GridScores(split="val.json", is_exact=True, grid=grid, points=points, num_videos=1, errors={})
    write_sweep(tmp_path / "sweep", scores, {"split": "val.json"})
    of_sweep = ["figure", str(tmp_path / "sweep"), "--out", str(tmp_path / "sweep.csv"), "--chart"]
    assert main([*of_sweep, "heat_map"]) == 0
    rows = read_csv(tmp_path / "sweep.csv")
    assert [(row["trace"], row["x"], row["z"]) for row in rows[:2]] == [
        ("Failures", "0.25", "3.0"),
        ("Failures", "0.75", "1.0"),
    ]
    assert main([*of_sweep, "curves", "--metric", "F1"]) == 0
    assert {row["y"] for row in read_csv(tmp_path / "sweep.csv")} == {"0.5", "0.25"}
    for name in SWEEP_CHARTS:
        assert main([*of_sweep, name, "--format", "json"]) == 0
        assert read_json(tmp_path / "sweep.csv")["data"]
    assert main([*of_sweep, "roc"]) == 2
    assert "is a sweep folder; choose one of heat_map, curves" in capsys.readouterr().err
    assert draw("--chart", "heat_map", video="", out="run.csv") == 0
    traces = [row["trace"] for row in read_csv(tmp_path / "run.csv")]
    assert traces.count("Decisions F1 ±1 s") == 81


def test_the_scores_of_two_runs_are_drawn(
    folder: Path, tmp_path: Path, draw: Draw, capsys: pytest.CaptureFixture[str]
) -> None:
    other = copytree(folder, tmp_path / "other")
    assert draw("--chart", "score_distributions", "--against", str(other), video="", out="both.csv") == 0
    assert [row["trace"] for row in read_csv(tmp_path / "both.csv")] == ["box of A", "A: run", "box of B", "B: other"]
    same = ("--chart", "score_distributions", "--against", str(folder))
    assert draw(*same, video="") == 2
    assert "are the same run; give two" in capsys.readouterr().err
    assert draw(*same[:3], str(other), "--metric", "Bleu_4", video="") == 2
    assert "this chart has no score 'Bleu_4'; choose one of num_failures, " in capsys.readouterr().err


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
