"""``stepscope publish``: its messages and exit codes."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope.app.publish.commands
from stepscope.app.cli.stepscope import main
from stepscope.app.publish.folder import MARKER, file_stem, replace_folder
from stepscope.eval.matching.turns import TextEncoder
from tests.support.data.kills import kill_at
from tests.support.data.saved_runs import save_run
from tests.support.data.strategies import few
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
    assert publish(("run", "truck-2"), ("../run", "truck-1")) == 2
    assert "the story has moments of the run '../run', which has no folder beside" in capsys.readouterr().err


def test_references_that_are_gone_are_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", str(run), "--out", str(tmp_path / "site"), "--data", "/gone/split.json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "/gone/split.json" in line
    assert not (tmp_path / "site").exists()


def write(out: Path, text: str) -> None:
    with replace_folder(out) as folder:
        (folder / "index.html").write_text(text)


def test_a_published_folder_is_replaced_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "site"
    write(out, "old")
    (out / "index.html").write_text("changed by hand")
    with replace_folder(out) as folder:
        (folder / "new.html").write_text("new")
        assert (out / "index.html").exists(), "until the end"
    assert sorted(path.name for path in out.iterdir()) == ["new.html", MARKER]
    assert [path.name for path in out.parent.iterdir()] == ["site"], "nothing is left beside it"


def test_an_interrupted_publish_leaves_the_old_folder_whole(tmp_path: Path) -> None:
    out = tmp_path / "site"
    write(out, "old")
    with pytest.raises(KeyboardInterrupt), replace_folder(out) as folder:  # noqa: PT012 - the block is what is interrupted
        (folder / "index.html").write_text("new")
        raise KeyboardInterrupt
    assert (out / "index.html").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


@pytest.mark.parametrize("name", ["my-notes.txt", "data/my-notes.txt"])
def test_a_file_that_is_put_in_while_publish_runs_is_kept_and_named(tmp_path: Path, name: str) -> None:
    out = tmp_path / "site"
    with replace_folder(out) as folder:
        (folder / "data").mkdir()
        (folder / "data" / "run.json").write_text("old")
    with (  # noqa: PT012 - the end of the block fails
        pytest.raises(ValueError, match=f"site holds '{name}', which stepscope publish did not write; move it away"),
        replace_folder(out) as folder,
    ):
        (folder / "index.html").write_text("new")
        (out / name).write_text("an hour of work")
    assert (out / name).read_text() == "an hour of work"
    assert (out / "data" / "run.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("number", range(1, 7))
def test_the_next_publish_brings_back_the_folder_of_one_that_was_killed(tmp_path: Path, number: int) -> None:
    out = tmp_path / "site"
    write(out, "old")
    child = os.fork()
    if child == 0:
        sys.addaudithook(kill_at(number, "os.rename", "shutil.rmtree"))
        write(out, "new")
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    with pytest.raises(KeyboardInterrupt), replace_folder(out):
        raise KeyboardInterrupt
    assert (out / "index.html").read_text() == ("new" if number == 6 else "old")
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    write(out, "newer")
    assert (out / "index.html").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_publish_that_fails_at_once_brings_back_the_folder_of_one_that_was_killed(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    write(out, "old")
    (tmp_path / ".publish.site").mkdir()
    out.rename(tmp_path / ".publish.site" / "old")
    assert main(["publish", str(run), "--out", str(out), "--video", "no-such"]) == 2
    assert (out / "index.html").read_text() == "old"
    assert not (tmp_path / ".publish.site").exists()


def test_an_empty_folder_is_taken_and_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    write(tmp_path / "site", "page")
    assert (tmp_path / "site" / "index.html").exists()
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match=r"mine exists and was not written by stepscope publish; choose another --out"):
        write(out, "page")
    assert (out / "thesis.tex").read_text() == "mine"


def test_a_published_folder_with_an_own_file_is_refused_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "site"
    write(out, "old")
    (out / ".git").mkdir()
    with pytest.raises(ValueError, match=r"site holds '\.git', which stepscope publish did not write; move it away"):
        write(out, "new")
    assert (out / ".git").is_dir()


@given(st.lists(st.text(), max_size=20))
@few
def test_names_of_any_ids_are_short_safe_and_unique_ignoring_case(ids: list[str]) -> None:
    names = [file_stem(number, video_id) for number, video_id in enumerate(ids, start=1)]
    assert all(re.fullmatch(r"\d{4}(-[a-z0-9]+)*", name) and len(name) < 60 for name in names)
    assert len({name.lower() for name in names}) == len(names)
