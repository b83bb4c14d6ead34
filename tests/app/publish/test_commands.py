"""``stepscope publish``: its messages and exit codes."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

import stepscope.app.publish.commands
from stepscope.app.cli.stepscope import main
from stepscope.eval.matching.turns import TextEncoder
from tests.support.data.saved_runs import save_run
from tests.support.streams.fakes import count_letters


@pytest.fixture(autouse=True)
def _letters(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> TextEncoder:
        return TextEncoder(name=name, encode=count_letters)

    monkeypatch.setattr(stepscope.app.publish.commands, "import_encoder", load)


@pytest.fixture
def run(demo_manifest: Path, tmp_path: Path) -> Path:
    return save_run(tmp_path / "run", demo_manifest).path


def test_a_run_is_published(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "site"
    assert main(["publish", str(run), "--out", str(out), "--video", "truck-2", "--title", "Mine"]) == 0
    assert capsys.readouterr().out == f"1 video: {out}; see it with: python -m http.server -d {out}\n"
    index = json.loads((out / "data" / "run.json").read_text(encoding="utf-8"))
    assert (index["title"], [row["id"] for row in index["videos"]]) == ("Mine", ["truck-2"])


def test_the_references_may_be_elsewhere(run: Path, demo_manifest: Path, tmp_path: Path) -> None:
    settings = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (run / "run.json").write_text(json.dumps({**settings, "split": "/gone/split.json"}), encoding="utf-8")
    assert main(["publish", str(run), "--out", str(tmp_path / "site"), "--data", str(demo_manifest)]) == 0


def test_a_story_publishes_its_videos_of_runs_beside_each_other(
    run: Path, demo_manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(tmp_path / "other", demo_manifest)
    path, out = tmp_path / "story.json", tmp_path / "site"

    def publish(*moments: tuple[str, str]) -> int:
        told = [{"run": name, "video": video, "time_s": 1.0} for name, video in moments]
        path.write_text(json.dumps({"title": "Late", "moments": told}), encoding="utf-8")
        return main(["publish", str(run), "--out", str(out), "--story", str(path)])

    assert publish(("run", "truck-2"), ("other", "truck-1")) == 0
    index = json.loads((out / "data" / "run.json").read_text(encoding="utf-8"))
    assert (index["title"], [row["id"] for row in index["videos"]]) == ("Late", ["truck-2"])
    assert (out / "story" / "2.jpg").is_file()
    assert publish(("as the page calls it", "truck-1")) == 0  # of one run: that of the command
    capsys.readouterr()
    for foreign in ("../run", "gone"):
        assert publish(("run", "truck-2"), (foreign, "truck-1")) == 2
        assert f"the story has moments of the run {foreign!r}, which has no folder beside" in capsys.readouterr().err


def test_a_video_that_failed_is_left_out_with_a_line(
    demo_manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = save_run(tmp_path / "run", demo_manifest, failed=["truck-1"]).path
    assert main(["publish", str(run), "--out", str(tmp_path / "site")]) == 1
    assert "truck-1: truck-1 has no outputs: the video is damaged." in capsys.readouterr().err


def test_references_that_are_gone_are_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", str(run), "--out", str(tmp_path / "site"), "--data", "/gone/split.json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "/gone/split.json" in line
    assert not (tmp_path / "site").exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", str(tmp_path), "--out", str(tmp_path / "site")]) == 2
    assert "is not the run folder of a split; give a folder of `stepscope eval`" in capsys.readouterr().err


def test_a_full_disk_is_one_line_and_keeps_the_old_folder(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "site"
    main(["publish", str(run), "--out", str(out)])
    before = sorted(path.relative_to(out) for path in out.rglob("*"))

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("stepscope.app.publish.writer.write_page", fail)
    assert main(["publish", str(run), "--out", str(out)]) == 2
    assert "site cannot be written (No space left on device); free some space" in capsys.readouterr().err
    assert sorted(path.relative_to(out) for path in out.rglob("*")) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "site"]
