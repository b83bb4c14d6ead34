"""*Publish* of the batch tab: its size beforehand, a zip, a folder, a story as Markdown, cancelling and refusals."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from stepscope.app.batch import publishing
from stepscope.app.batch.publishing import (
    ALL,
    AS_FOLDER,
    AS_MARKDOWN,
    AS_ZIP,
    SHOWN,
    STORY,
    PublishForm,
)
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Cancellable
from tests.support.pages.batch_tab import select

pytestmark = pytest.mark.usefixtures("finished")


def choose(**changes: Any) -> PublishForm:
    chosen = PublishForm(selection=select("a"), what=ALL, has_videos=True, target=AS_ZIP, folder="", title="", story="")
    return replace(chosen, **changes)


def tell(*moments: tuple[str, str], caption: str = "It waits.") -> str:
    told = [{"run": run, "video": video, "time_s": 1.0, "caption": caption} for run, video in moments]
    return json.dumps({"title": "Late", "moments": told})


def finish(context: AppContext, batches: BatchContext, **changes: Any) -> tuple[Updates, list[str], bytes]:
    """Return the last view, the names in its zip file, and the content of the first one of ``story.md``."""
    names, markdown = list[str](), b""
    for view in publishing.publish(context, batches, Cancellable(), choose(**changes)):
        if isinstance(view.file, str):
            with ZipFile(view.file) as archive:  # deleted when the handler ends
                names = archive.namelist()
                markdown = next((archive.read(name) for name in names if name.endswith("story.md")), b"")
    return view, names, markdown


def test_the_size_is_said_before_and_the_zip_is_the_player(context: AppContext, finished: BatchContext) -> None:
    said = publishing.describe_plan(context, finished, choose())
    assert "3 videos of “a”: about " in said
    assert " MB." in said
    view, names, _ = finish(context, finished)
    assert "Saved: a-player.zip" in view.progress
    assert {"a-player/index.html", "a-player/data/run.json", "a-player/publish.json"} <= set(names)
    assert sum(name.endswith(".mp4") for name in names) > 0
    assert not any(name.endswith(".mp4") for name in finish(context, finished, has_videos=False)[1])


def test_a_story_of_two_runs_is_a_player_or_markdown_with_pictures(context: AppContext, finished: BatchContext) -> None:
    video = finished.split_of(finished.settings_of("a")).entries[1].video_id  # type: ignore[union-attr]
    story = {"what": STORY, "story": tell(("silent", video), ("a", video), caption="<b>x</b>")}
    assert "2 moments in 2 videos of “silent” and “a”" in publishing.describe_plan(context, finished, choose(**story))
    view, names, markdown = finish(context, finished, **story)
    assert "Saved: silent-story.zip" in view.progress
    assert {"silent-story/index.html", "silent-story/story/2.jpg"} <= set(names)
    _, names, same = finish(context, finished, **story, target=AS_MARKDOWN)
    assert sorted(names) == [f"silent-story/{name}" for name in ("story.md", "story/1.jpg", "story/2.jpg")]
    assert same == markdown
    assert b"\\<b\\>x" in markdown


def test_a_folder_is_replaced_but_no_foreign_one(context: AppContext, finished: BatchContext, tmp_path: Path) -> None:
    out = tmp_path / "site"
    for _ in range(2):
        view, _, _ = finish(context, finished, target=AS_FOLDER, folder=str(out), has_videos=False)
        assert f"Written: {out}" in view.progress
    assert (out / "index.html").is_file()
    (out / "mine.txt").touch()
    assert "did not write" in finish(context, finished, target=AS_FOLDER, folder=str(out))[0].size


def test_cancelling_writes_nothing(context: AppContext, finished: BatchContext, tmp_path: Path) -> None:
    live = Cancellable()
    live.is_cancelled = True
    *_, view = publishing.publish(
        context, finished, live, choose(target=AS_FOLDER, folder=str(tmp_path / "site"), has_videos=False)
    )
    assert "Cancelled; nothing was written." in view.progress
    assert live.ended.is_set()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"what": STORY}, "there is no story yet"),
        ({"what": STORY, "story": tell(("../a", "v"))}, "there is no run"),
        ({"what": STORY, "story": tell(("a", "<b>v</b>"))}, "the run a has no video &lt;b&gt;v"),
        ({"what": SHOWN, "selection": select("a", "video:nothing")}, "no video is selected"),
    ],
)
def test_what_cannot_be_published_is_one_sentence(
    context: AppContext, finished: BatchContext, changes: dict[str, Any], words: str
) -> None:
    chosen = choose(**changes)
    assert words in publishing.describe_plan(context, finished, chosen)
    (view,) = publishing.publish(context, finished, Cancellable(), chosen)
    assert (words in view.size, view.progress) == (True, "")


def test_a_run_without_a_finished_video_is_refused_by_its_name_before_it_is_written(
    context: AppContext, finished: BatchContext, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").write_bytes((finished.runs / "a" / "run.json").read_bytes())
    begun = replace(finished, runs=tmp_path)
    assert "⚠ “a” has no finished video yet; wait for one" in publishing.describe_plan(context, begun, choose())
