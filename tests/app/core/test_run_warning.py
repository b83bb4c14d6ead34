"""Which runs are marked: those of the bundled model on a video that is none of its drawings."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.core.run import BUNDLED_MODEL_WARNING, Run
from stepscope.engine.io.files import load_json
from stepscope.engine.model.checkpoint_folder import identify_model
from stepscope.engine.model.files.bundled import BUNDLED_CHECKPOINTS
from tests.support.paths import ASSETS
from tests.support.reviews.played import make_run

MODEL = identify_model(BUNDLED_CHECKPOINTS["bundled"]).digest


def run_of(path: Path, *, name: str = "a", model: str = MODEL, **settings: object) -> Run:
    """Return a run of a file; an empty path is no file."""
    run = make_run(Path())
    return replace(run, clip=replace(run.clip, path=path, name=name), model_digest=model, settings=settings)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = tmp_path / "boat.mp4"  # the name of a drawing
    path.write_bytes(b"telescope")
    return path


def test_the_kept_digest_of_the_bundled_run_is_that_of_its_model() -> None:
    assert load_json((ASSETS / "demo" / "run" / "run.json").read_text(encoding="utf-8"))["model_digest"] == MODEL


def test_each_bundled_model_is_marked_on_a_foreign_video_and_another_model_is_not(foreign: Path) -> None:
    for folder in BUNDLED_CHECKPOINTS.values():
        assert run_of(foreign, model=identify_model(folder).digest).warning == BUNDLED_MODEL_WARNING
    assert [run_of(foreign, model=model).warning for model in ("", "feed")] == ["", ""]


def test_a_drawing_is_known_under_any_name_and_without_its_file_by_its_name(tmp_path: Path) -> None:
    copied = Path(shutil.copy(ASSETS / "demo" / "boat.mp4", tmp_path / "my video.mp4"))
    assert [run_of(path, name="x").warning for path in (copied, ASSETS / "demo" / "robot.mp4")] == ["", ""]
    assert [run_of(Path(), name=name).warning for name in ("boat", "x")] == ["", BUNDLED_MODEL_WARNING]


def test_a_live_session_keeps_whether_its_source_was_a_drawing(foreign: Path) -> None:
    assert run_of(foreign, is_drawing=True).warning == ""
    assert run_of(ASSETS / "demo" / "boat.mp4", is_drawing=False).warning == BUNDLED_MODEL_WARNING
