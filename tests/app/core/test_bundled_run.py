"""The bundled run is shown where the page's own run would be the same, and nowhere else."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.core.saved import OPENING_VIDEO, BundledRun
from stepscope.app.player import opening
from stepscope.app.player.views import task_boxes
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun
from stepscope.engine.cli.options import BUNDLED_RUN
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from tests.support.pages.benches import make_context, run_views
from tests.support.paths import ASSETS

MANIFEST = ASSETS / "demo" / "test.json"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> AppContext:
    """Return the context of a page of the bundled videos, model and run."""
    plain = make_context(ASSETS / "checkpoint", MANIFEST, tmp_path_factory.mktemp("copies"))
    found = BundledRun.find(BUNDLED_RUN, videos=MANIFEST, model_digest=plain.checkpoint.digest, config=plain.config)
    return replace(plain, bundled_run=found)


def test_the_page_opens_on_the_first_failure_of_the_opening_video(context: AppContext) -> None:
    assert context.opening_clip is not None
    assert context.opening_clip.name == OPENING_VIDEO
    page = opening.open_page(context, {})
    packed = json.loads(page.player)
    (event,) = (event for event in packed["events"] if event["key"] == packed["landing"]["event"])
    assert (packed["landing"]["time"], event["text"], event["kind"]) == (15.0, "S4->start", "update")
    assert packed["failures"][0]["frame"] == 30
    assert [page.speak, page.update] == [0.5, 0.5]


def test_a_saved_run_is_the_run_that_the_page_would_make(context: AppContext) -> None:
    clip = context.bundled_videos.find("boat")
    saved, live = context.find_saved(clip), LiveRun()
    assert saved is not None
    assert clip.sample is not None
    list(run_views(context, clip, live, **task_boxes(clip.sample)))
    assert live.run is not None
    assert live.run.digest == saved.digest
    assert [output.updates for output in live.run.outputs] == [output.updates for output in saved.outputs]
    assert [output.response for output in live.run.outputs] == [output.response for output in saved.outputs]
    assert live.run.is_kept, "the same run has the diagnosis of the saved one"


def test_it_is_found_for_no_other_videos_model_or_settings(
    context: AppContext, tiny_folder: Path, demo_manifest: Path, tmp_path: Path
) -> None:
    checkpoint, config = context.checkpoint, StreamConfig()
    assert BundledRun.find(BUNDLED_RUN, videos=demo_manifest, model_digest=checkpoint.digest, config=config) is None
    assert BundledRun.find(tmp_path, videos=MANIFEST, model_digest=checkpoint.digest, config=config) is None
    tiny = load_model(tiny_folder, device="cpu")
    assert BundledRun.find(BUNDLED_RUN, videos=MANIFEST, model_digest=tiny.digest, config=config) is None
    for change in ({"speak_threshold": 0.4}, {"illegal_updates": "refuse"}, {"max_new_tokens": 9}):
        other = replace(config, **change)
        assert BundledRun.find(BUNDLED_RUN, videos=MANIFEST, model_digest=checkpoint.digest, config=other) is None
    faster = replace(config, lookahead=2)  # of the same outputs
    assert BundledRun.find(BUNDLED_RUN, videos=MANIFEST, model_digest=checkpoint.digest, config=faster) is not None


def test_a_video_whose_reference_has_changed_has_no_saved_run(context: AppContext) -> None:
    clip = context.bundled_videos.find("boat")
    assert clip.sample is not None
    changed = replace(clip, sample=replace(clip.sample, goal="build the ship"))
    assert context.find_saved(changed) is None
    assert context.find_saved(replace(clip, is_bundled=False)) is None
