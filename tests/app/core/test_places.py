"""URL parameters reopen bundled videos, uploads, and runs that only this server has."""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app import opening
from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import list_components
from stepscope.app.core import places
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import JobQueue
from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.places import RecentSessions, link_params, run_url_params
from stepscope.app.core.run import Run, write_task
from stepscope.app.core.videos import Clip
from stepscope.app.web.payload import pack_run
from stepscope.engine.config import StreamConfig
from stepscope.eval.data.samples import build_task
from tests.support.data.batches import SCORING, make_worker_config
from tests.support.pages.benches import open_upload, run_through, run_views, views
from tests.support.reviews.played import make_run
from tests.support.streams.fakes import count_letters


@pytest.fixture
def clip(context: AppContext, demo_manifest: Path, tmp_path: Path) -> Clip:
    path = Path(shutil.copy(demo_manifest.parent / "truck-1.mp4", tmp_path / "mine.mp4"))
    clip = views(open_upload(context, path))[0].clip
    assert clip is not None
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
    page = opening.open_page(context, None, "truck-1", {**place, "t": "2"})
    clip_view, run_view, buttons = views(page)
    assert (clip_view.clip, clip_view.chosen) == (clip, None)
    assert (clip_view.goal, clip_view.steps, clip_view.user_turns) == ("my goal", "S1: look", "1: Next?")
    assert run_view.status.value == "mine.mp4, 0:06, the earlier run. It has no reference to score against."
    assert json.loads(run_view.player)["run"] == done.digest
    assert buttons.live.run is done
    assert page.thresholds == (0.3, 0.5)


def test_an_upload_without_a_run_is_there_again(context: AppContext, clip: Clip) -> None:
    run_view = views(opening.open_page(context, None, None, {"upload": clip.video_id}))[1]
    assert run_view.status.value == "mine.mp4, 0:06. Press Run."
    assert json.loads(run_view.player) == {"nothing": True, "name": "mine.mp4", "place": {"upload": clip.video_id}}
    run_view = views(opening.open_page(context, None, None, {"upload": clip.video_id, "run": "gone"}))[1]
    assert run_view.status.value == "mine.mp4, 0:06. Its run is no longer available. Press Run."


def test_a_run_that_a_reload_interrupts_starts_again_with_the_typed_task(context: AppContext, clip: Clip) -> None:
    for shown in (clip, context.bundled_videos.find("truck-1")):
        live = LiveRun()
        stream = run_views(context, shown, live, goal="my goal", user_turns="1: Next?")
        next(stream)
        assert live.run is not None
        place, digest = run_url_params(live.run), live.run.digest
        page = opening.open_page(context, None, None, place)
        assert (page.clip.goal, page.clip.user_turns) == ("my goal", "1: Next?")
        assert (page.run.status.value, page.buttons.live.linked_digest) == ("Waiting to start.", digest)
        *_, last = stream
        assert "Done" in last.status.value
        assert opening.open_page(context, None, None, place).buttons.live.run is live.run


def test_an_upload_that_is_gone_is_said_to_be_gone(context: AppContext, clip: Clip) -> None:
    clip.path.unlink()
    for video_id in (clip.video_id, "other.mp4 12345678"):
        clip_view, run_view, _ = views(opening.open_page(context, None, "truck-1", {"upload": video_id}))
        assert run_view.status.value == (
            f"⚠ the link cannot be opened: the upload {video_id} is no longer on this server; upload it again."
        )
        assert clip_view.clip == context.bundled_videos.find("truck-1")


def test_a_bundled_video_with_another_task_is_not_run_again_but_shown(context: AppContext) -> None:
    bundled = context.bundled_videos.find("truck-1")
    done = run(context, bundled, goal="something else")
    page = opening.open_page(context, None, None, run_url_params(done))
    assert views(page)[0].goal == "something else"
    assert views(page)[2].live.run is done
    own = run(context, bundled, user_turns="3.5: What is next?")
    buttons = views(opening.open_page(context, None, None, run_url_params(own)))[2]
    assert (buttons.live.run, buttons.live.linked_digest) == (None, own.digest), "it is run again"


def test_a_saved_run_is_named_by_its_folder_and_one_that_is_gone_says_so(
    context: AppContext, clip: Clip, tmp_path: Path
) -> None:
    shutil.copy(clip.path, tmp_path / "a.mp4")
    other = replace(make_run(tmp_path), name="b")
    shown = json.loads(pack_run(replace(other, name="a"), other=(other, None)))
    assert shown["place"] == {"video": "a", "saved": "a", "other": "b"}
    work = make_worker_config(tmp_path)
    batches = BatchContext(
        jobs=JobQueue(encode=count_letters, scoring=SCORING), splits={}, runs=tmp_path, work=work, takes_paths=True
    )
    no_time = "t must be a time in seconds; got "
    for t, words in {"2": "there is no run 'a'", "inf": f"{no_time}'inf'", "😀": f"{no_time}'😀'"}.items():
        page = opening.open_linked(context, batches, None, "truck-1", {**shown["place"], "t": t})
        assert words in views(page)[1].status.value
        assert len(list_components(page)) == 18


def test_a_reference_alone_comes_back_without_a_run(context: AppContext, tmp_path: Path) -> None:
    sample = context.bundled_videos.find("truck-1").sample
    first = opening.open_reference(context, None, sample, open_at=1.0)
    place = json.loads(views(first)[1].player)["place"]
    assert place == {"video": "truck-1", "run": "none"}
    again = opening.open_linked_reference(context, None, None, {**place, "t": "1"})
    clip_view, run_view, buttons = views(again)
    assert clip_view.clip == context.bundled_videos.find("truck-1")
    assert run_view.status.value == views(first)[1].status.value
    assert buttons.live is None
    wrong = opening.open_linked_reference(context, None, "truck-1", {**place, "t": "nan"})
    assert "t must be a time in seconds" in views(wrong)[1].status.value
    assert len(list_components(again)) == len(list_components(wrong)) == 18


def test_the_runs_used_longest_ago_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MAX_FRAMES", 40)
    recent, first = RecentSessions(), make_run(tmp_path, text="own")
    runs = [replace(first, model_digest=str(number)) for number in range(3)]
    for kept in runs:
        recent.keep_run(replace(kept, task=replace(kept.task, goal="mine")))
    found = [recent.find_run(replace(r, task=replace(r.task, goal="mine")).digest, first.clip) for r in runs]
    assert [kept is not None for kept in found] == [False, True, True]


def test_a_link_has_the_context_strategy_of_its_run(context: AppContext) -> None:
    clip = context.bundled_videos.clips[0]
    assert clip.sample is not None
    boxes = asdict(write_task(build_task(clip.sample)))
    made = run(context, clip, **boxes, strategy="drop-all")
    assert made.config.context_strategy == "drop-all"
    assert ("settings that are not the default", "context_strategy drop-all") in [
        (label, next((part for part in text.split(", ") if "context" in part), ""))
        for label, text in made.provenance.rows()
    ]
    assert "context drop-all" in made.provenance.summary
    link = run_url_params(made)
    assert link["context"] == "drop-all"
    opened = opening.open_page(context, None, None, link)
    live = opened.buttons.live
    assert (opened.strategy, live.linked_digest) == ("drop-all", made.digest)
    list(run_views(context, clip, live, **boxes, strategy=opened.strategy))
    assert live.run is not None
    assert live.run.digest == made.digest
    refused = opening.open_page(context, None, None, {**link, "context": "short"})
    assert "the context must be one of refresh, drop-all" in str(refused.run.status.value)


def test_a_link_reproduces_its_run_on_a_server_with_another_strategy(context: AppContext) -> None:
    clip = context.bundled_videos.clips[0]
    assert clip.sample is not None
    boxes = asdict(write_task(build_task(clip.sample)))
    made = run(context, clip, **boxes, strategy="refresh")
    assert link_params(made) == {"video": clip.name, "context": "refresh"}
    other = replace(context, config=replace(context.config, context_strategy="drop-all"))
    opened = opening.open_page(other, None, None, run_url_params(made))
    live = opened.buttons.live
    list(run_views(other, clip, live, **boxes, strategy=opened.strategy))
    assert (live.run.config.context_strategy, live.run.digest) == ("refresh", made.digest)
    of_an_earlier_version = {name: value for name, value in run_url_params(made).items() if name != "context"}
    assert opening.open_page(other, None, None, of_an_earlier_version).strategy == "drop-all"
