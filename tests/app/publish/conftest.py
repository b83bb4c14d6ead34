"""Runs to publish."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from stepscope.engine.video.writer import write_h264
from stepscope.eval.runs.folder import RunFolder
from tests.conftest import STEPS, TURNS, moving_square
from tests.support.data.batches import write_scores, write_split
from tests.support.data.saved_runs import save_run
from tests.support.pages.published import publish, serve_folder
from tests.support.paths import ASSETS

HOSTILE = (
    "<img src=x onerror=window.hacked=1></script><script>window.hacked=1</script> {{window.hacked=1}} \u2028\u202e ../x"
)
HOSTILE_IDS = ("../x", "..\\x", "Boat", "boat", HOSTILE, "日本語", "ü" * 300, "x\u2028\u2029", "a?b#c&d=e%2f")


@pytest.fixture(scope="session")
def bundled_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Return a run of the 16 bundled videos."""
    return save_run(tmp_path_factory.mktemp("runs") / "bundled", ASSETS / "demo" / "test.json")


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Return a run whose name, ids and texts are attacks."""
    folder = tmp_path_factory.mktemp("hostile")
    write_h264(folder / "square.mp4", moving_square(60, shade=90), fps=10)
    steps = [{**step, "name": HOSTILE} for step in STEPS]
    turns = [turn if turn["role"] == "update" else {**turn, "text": HOSTILE} for turn in TURNS]
    goal = f"{HOSTILE} {'x' * 900}"
    video = {"video_path": "square.mp4", "fps": 2.0, "num_frames": 12, "goal": goal, "steps": steps, "turns": turns}
    split = write_split(folder, *({"video_id": video_id, **video} for video_id in HOSTILE_IDS))
    assert json.loads(split.read_text(encoding="utf-8"))
    return save_run(folder / "run <script>window.hacked=1<", split)


@pytest.fixture(scope="session")
def address(
    bundled_run: RunFolder, hostile_run: RunFolder, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Serve published runs, each in its folder, and yield their common address."""
    root = tmp_path_factory.mktemp("web")
    publish(bundled_run, root / "deep" / "all")
    publish(hostile_run, root / "deep" / "hostile")
    scored = save_run(root.with_name(f"{root.name}-run"), demo_manifest)
    write_scores(demo_manifest, scored.path)
    publish(scored, root / "deep" / "scored")
    with serve_folder(root) as url:
        yield f"{url}/deep/"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Yield a window in the light theme."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    yield context.new_page()
    context.close()
