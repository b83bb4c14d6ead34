"""The command that sweeps: its messages, exact points and a preview."""

import json
from pathlib import Path

import pytest

from stepscope.eval.__main__ import main
from stepscope.eval.cli import sweep_command as command_line
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.sweeps.best_point import explain_best, find_best, find_present
from stepscope.eval.sweeps.folder import read_sweep
from stepscope.eval.sweeps.preview import PREVIEW_METRICS
from tests.support.data.batches import write_split
from tests.support.streams.fakes import count_letters


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--speak", "0.1:0.9:0"], "thresholds must be given as FIRST:LAST:NUMBER"),
        (["--update", "0.5:1.5:3"], "update thresholds must be within [0, 1]; got 1.5"),
        (["--update", "nan"], "update thresholds must be within [0, 1]; got nan"),
        (["--speak", "0.1:0.9"], "such as 0.1:0.9:9"),
        (["--speak", "0:1:200", "--update", "0:1:200"], "the grid has 40000 points"),
        (
            ["--metric", "update_event_f1"],
            "a sweep has no score update_event_f1; choose one such as dst_update_event_f1",
        ),
        (["--metric", "dst_num_predictions"], "dst_num_predictions has no better or worse values"),
        (["--metric", "dst_f1", "--preview", "nowhere"], "a preview has no score dst_f1"),
        (["--preview", "nowhere"], "nowhere holds no run"),
        ([], "--out is missing"),
    ],
)
def test_wrong_use_is_one_line(
    split: Path, capfd: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    assert main(["sweep", str(split), *options]) == 2
    message = capfd.readouterr().err
    assert message.count("\n") == 1
    assert complaint in message


def test_the_command_sweeps_and_names_the_best(
    split: Path,
    tiny_folder: Path,
    run: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command_line, "import_encoder", lambda name: TextEncoder(name=name, encode=count_letters))
    videos = json.loads(split.read_text(encoding="utf-8"))["videos"]
    here = [{**video, "video_path": str(split.parent / video["video_path"])} for video in videos[:1]]
    lost = {**videos[0], "video_id": "lost", "video_path": "lost.mp4"}
    partly = write_split(tmp_path, *here, lost)
    options = ["sweep", str(partly), "--checkpoint", str(tiny_folder), "--device", "cpu:1", "--out"]
    options += [str(tmp_path / "out"), "--speak", "0.4,0.5", "--update", "0.5", "--metric", "speaking_talk_ratio"]
    assert main(options) == 1
    printed = capfd.readouterr()
    assert "2 points, exact; 1 of 2 videos" in printed.out
    scores = read_sweep(tmp_path / "out")
    best = find_best(scores, "speaking_talk_ratio", present=find_present(scores, (0.5, 0.5)))
    assert f"best {best}. {explain_best(best)}" in printed.out
    assert "The present thresholds stay: no point is better." in printed.out
    assert "failed: lost: " in printed.err
    assert main([*options[:7], str(run)]) == 2
    assert "is not empty and holds no sweep; name a new folder" in capfd.readouterr().err


def test_the_command_previews(split: Path, run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["sweep", str(split), "--preview", str(run), "--out", str(tmp_path / "out")]
    assert main([*options, "--metric", "speaking_talk_ratio", "dst_update_talk_ratio"]) == 0
    printed = capfd.readouterr().out
    assert f"81 points, preview from the traces of {run}; 2 of 2 videos" in printed
    assert printed.count("best ") == 2
    assert printed.count("present thresholds stay") + printed.count("Present: speak 0.5, update 0.5; ") == 2
    scores = read_sweep(tmp_path / "out")
    assert (scores.is_exact, scores.metrics, len(scores.points)) == (False, PREVIEW_METRICS, 81)
    assert main(options) == 2
    assert "holds a sweep already; continue it with --resume" in capfd.readouterr().err
    assert main([*options, "--resume"]) == 0
