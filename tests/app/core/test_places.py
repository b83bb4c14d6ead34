"""URL parameters reopen bundled videos, uploads, and runs that only this server has."""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.core.places import link_params, run_url_params
from stepscope.app.core.run import Run, write_task
from stepscope.app.core.videos import Clip
from stepscope.app.player import opening
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun
from stepscope.app.window.payload import pack_run
from stepscope.engine.config import StreamConfig
from stepscope.eval.data.samples import build_task
from tests.support.pages.benches import open_upload, run_through, run_views
from tests.support.reviews.played import make_run


@pytest.fixture
def clip(context: AppContext, demo_manifest: Path, tmp_path: Path) -> Clip:
    path = Path(shutil.copy(demo_manifest.parent / "truck-1.mp4", tmp_path / "mine.mp4"))
    clip = open_upload(context, path).clip
    assert isinstance(clip, Clip)
    return clip


def run(context: AppContext, clip: Clip, **boxes: Any) -> Run:
    live = run_through(context, clip, **boxes)
    assert live.run is not None
    return live.run


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterConfig(StreamConfig):
    """Settings with one more."""

    patience: int = 1


def test_a_link_names_the_same_run_after_a_setting_was_added(tmp_path: Path) -> None:
    now = make_run(tmp_path)
    assert replace(now, config=LaterConfig()).digest == now.digest
    assert replace(now, config=LaterConfig(patience=2)).digest != now.digest
    assert replace(now, config=LaterConfig(seed=1)).digest == replace(now, config=StreamConfig(seed=1)).digest


def test_an_upload_and_its_run_are_there_again_after_a_reload(context: AppContext, clip: Clip) -> None:
    done = run(context, clip, goal="my goal", steps="S1: look", user_turns="1: Next?", speak_threshold=0.3)
    place = json.loads(pack_run(done))["place"]
    assert place == {"upload": clip.video_id, "run": done.digest, "speak": "0.3", "update": "0.5", "context": "refresh"}
    view = opening.open_page(context, {**place, "t": "2"})
    assert view.clip == clip
    assert (view.goal, view.steps, view.user_turns) == ("my goal", "S1: look", "1: Next?")
    assert view.status.value == "It has no reference to score against."
    assert json.loads(view.player)["run"] == done.digest
    assert view.live.run is done
    assert (view.speak, view.update) == (0.3, 0.5)


def test_a_run_that_a_reload_interrupts_starts_again_with_the_typed_task(context: AppContext, clip: Clip) -> None:
    live = LiveRun()
    stream = run_views(context, clip, live, goal="my goal", user_turns="1: Next?")
    next(stream)
    assert live.run is not None
    place, digest = run_url_params(live.run), live.run.digest
    page = opening.open_page(context, place)
    assert (page.goal, page.user_turns) == ("my goal", "1: Next?")
    assert (page.status.value, page.live.linked_digest) == ("Waiting to start.", digest)
    *_, last = stream
    assert "Done" in last.status.value
    assert opening.open_page(context, place).live.run is live.run


def test_an_upload_that_is_gone_is_said_to_be_gone(context: AppContext, clip: Clip) -> None:
    clip.path.unlink()
    for video_id in (clip.video_id, "other.mp4 12345678"):
        view = opening.open_page(context, {"upload": video_id})
        assert view.status.value == (
            f"⚠ the link cannot be opened: the upload {video_id} is no longer on this server; upload it again."
        )
        assert view.clip == context.bundled_videos.find("truck-1")


def test_a_bundled_video_with_another_task_is_not_run_again_but_shown(context: AppContext) -> None:
    bundled = context.bundled_videos.find("truck-1")
    done = run(context, bundled, goal="something else")
    page = opening.open_page(context, run_url_params(done))
    assert page.goal == "something else"
    assert page.live.run is done
    own = run(context, bundled, user_turns="3.5: What is next?")
    view = opening.open_page(context, run_url_params(own))
    assert (view.live.run, view.live.linked_digest) == (None, own.digest), "it is run again"


def test_a_link_reproduces_its_run_on_a_server_with_another_strategy(context: AppContext) -> None:
    clip = context.bundled_videos.clips[0]
    assert clip.sample is not None
    boxes = asdict(write_task(build_task(clip.sample)))
    made = run(context, clip, **boxes, strategy="refresh")
    assert link_params(made) == {"video": clip.name, "context": "refresh"}
    other = replace(context, config=replace(context.config, context_strategy="drop-all"))
    opened = opening.open_page(other, run_url_params(made))
    live = opened.live
    list(run_views(other, clip, live, **boxes, strategy=opened.strategy))
    assert (live.run.config.context_strategy, live.run.digest) == ("refresh", made.digest)
    of_an_earlier_version = {name: value for name, value in run_url_params(made).items() if name != "context"}
    assert opening.open_page(other, of_an_earlier_version).strategy == "drop-all"
