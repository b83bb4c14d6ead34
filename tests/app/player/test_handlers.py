"""Chosen, uploaded and linked videos in one window."""

import re
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from warnings import catch_warnings, simplefilter

import pytest

from stepscope.app.__main__ import main
from stepscope.app.core.run import read_task
from stepscope.app.core.videos import MAX_UPLOAD_BYTES, Clip
from stepscope.app.player import handlers, opening
from stepscope.app.player import uploads as page_uploads
from stepscope.app.player.views import show_clip
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.video.reader import probe
from stepscope.eval.data.samples import Turn
from tests.conftest import Uploads
from tests.support.pages.benches import run_views
from tests.support.streams.videos import write_plain

HOSTILE = "<img src=x onerror=alert(1)> {{1+1}} ${1+1}"


def upload(context: AppContext, path: Path) -> tuple[Clip | None, str]:
    """Upload a file to a page without a video; return the clip, None if it is refused, and what the page says."""
    with catch_warnings(record=True) as warned:
        simplefilter("always", UserWarning)  # without a page, Gradio's warnings are Python's
        check = page_uploads.check_upload(context, Window(), str(path))
    if not isinstance(check.accepted, page_uploads.Accepted):
        assert str(warned[-1].message) in check.problem.value
        return None, check.problem.value
    view = page_uploads.show_upload(context, check.accepted)
    return view.clip, view.status.value


def test_a_bundled_video_fills_goal_steps_and_user_turns(context: AppContext) -> None:
    view = opening.show_bundled(context, context.bundled_videos.find("truck-2"))
    assert Path(view.video).read_bytes() == context.bundled_videos.clips[1].path.read_bytes()
    assert view.goal == "build the toy truck"
    assert view.steps == "S1: attach the wheel\nS2: put on the roof\nS3: load the block"
    assert view.user_turns == "3.5: What is next?"
    assert view.status.value == ""


def test_the_task_is_filled_in_to_the_last_digit(context: AppContext) -> None:
    clip = context.bundled_videos.find("truck-2")
    assert clip.sample is not None
    turn = replace(clip.sample.user_turns[0], time_s=1234.56789)
    sample = replace(clip.sample, turns=(Turn(time_s=turn.time_s, role="user", text=turn.text),), num_frames=9999)
    view = show_clip(replace(clip, sample=sample, duration_s=5000.0), clip.path)
    assert view.clip is not None
    task = read_task(view.clip, goal=view.goal, steps=view.steps, user_turns=view.user_turns)
    assert (task.goal, task.steps, task.user_turns) == (sample.goal, sample.steps, sample.user_turns)


def test_uploads_of_one_file_name_share_their_reviews_only_if_they_are_one_video(
    context: AppContext, uploads: Uploads, tmp_path: Path
) -> None:
    videos = [context.bundled_videos.clips[0].path, uploads.foreign, context.bundled_videos.clips[0].path]
    ids = []
    for number, video in enumerate(videos):
        path = tmp_path / str(number) / "mine.mp4"
        path.parent.mkdir()
        shutil.copy(video, path)
        clip, _ = upload(context, path)
        assert clip is not None
        assert clip.name == "mine.mp4"
        ids.append(clip.video_id)
    assert ids[0] == ids[2] != ids[1]
    assert re.fullmatch(r"mine\.mp4 [0-9a-f]{32}", ids[0])
    assert [clip.video_id for clip in context.bundled_videos.clips] == [
        clip.name for clip in context.bundled_videos.clips
    ]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("empty", "⚠ empty.mp4: the file is empty (0 bytes)"),
        ("noise", "⚠ noise.mp4: is no video that can be opened here"),
        ("long", "⚠ long.mp4: lasts 11:00, longer than the limit of 10:00"),
    ],
)
def test_an_upload_that_cannot_be_streamed_is_refused_in_a_sentence(
    context: AppContext, uploads: Uploads, kind: str, words: str
) -> None:
    clip, status = upload(context, getattr(uploads, kind))
    assert clip is None
    assert status.startswith(words)
    assert status.endswith(".")
    assert list(run_views(context, clip, LiveRun()))[-1].status.value.startswith("⚠ there is no video;")


def test_an_upload_of_huge_pictures_or_bytes_is_refused_in_a_sentence(context: AppContext, tmp_path: Path) -> None:
    _, status = upload(context, write_plain(tmp_path / "square.mp4", width=8192, height=8192, num_pictures=1))
    assert status == (
        "⚠ square.mp4: its pictures have 8192 x 8192 pixels, more than the limit of 35.4 million; scale it down."
    )
    with (tmp_path / "large.mp4").open("wb") as file:
        file.truncate(MAX_UPLOAD_BYTES + 1)
    _, status = upload(context, tmp_path / "large.mp4")
    assert status == "⚠ large.mp4: is larger than the limit of 4 GiB; cut or compress it."


def test_an_upload_longer_than_its_header_says_is_cut_at_the_limit(context: AppContext, uploads: Uploads) -> None:
    clip, _ = upload(context, uploads.good)
    short = replace(context, max_duration_s=3)
    last = list(run_views(short, clip, LiveRun(), speak_threshold=1, update_threshold=1))[-1]
    assert "is longer than the limit of 0:03" in last.status.value


@pytest.mark.filterwarnings(
    "default::stepscope.engine.video.reader.VideoWarning"
)  # of the copy for display; the run's is shown
def test_a_damaged_upload_is_streamed_as_far_as_it_can_be_read(context: AppContext, uploads: Uploads) -> None:
    clip, status = upload(context, uploads.damaged)
    assert "The file is cut off at 3.00 s: only that part can be read." in status
    live = LiveRun()
    last = list(run_views(context, clip, live, speak_threshold=1, update_threshold=1))[-1]
    assert last.status.value.startswith("⚠ Done: ")
    assert "damaged.mkv: damaged, could be read up to 3.00 s" in last.status.value
    assert live.run is not None
    assert len(live.run.outputs) == 6


def test_a_video_that_browsers_do_not_play_is_converted_once(
    context: AppContext, uploads: Uploads, tmp_path: Path
) -> None:
    again = tmp_path / "same content.mp4"
    again.write_bytes(uploads.foreign.read_bytes())
    first, second = (context.copies.find_or_convert(path) for path in (uploads.foreign, again))
    assert first == second != uploads.foreign
    assert probe(first).is_browser_playable
    assert probe(first).duration_s == pytest.approx(2.0, abs=0.1)


def test_a_run_without_a_turn_stops_at_once_and_an_ended_one_disturbs_no_other(
    context: AppContext,
) -> None:
    assert handlers.show_stopped(context, Window(live=LiveRun())).status.value == "Stopped before the first frame."
    assert handlers.show_stopped(context, Window()).status.value == "Stopped before the first frame."
    ended = LiveRun()
    ended.ended.set()
    assert handlers.finish_run(Window(live=ended)).run.interactive
    assert isinstance(handlers.finish_run(Window(live=LiveRun())).run, dict), "a skip"


def test_a_link_opens_its_video_with_its_thresholds_and_runs_it(context: AppContext) -> None:
    link = {"video": "truck-2", "run": "123", "t": "2.5", "speak": "0.4", "update": "0.6"}
    view = opening.open_page(context, link)
    assert (view.clip and view.clip.name, view.speak, view.update) == ("truck-2", 0.4, 0.6)
    assert Path(view.video).read_bytes() == context.bundled_videos.clips[1].path.read_bytes()
    boxes = {"user_turns": view.user_turns, "speak_threshold": 0.4, "update_threshold": 0.6}
    last = list(run_views(context, view.clip, view.live, **boxes))[-1]
    assert "The link refers to a different run" in last.status.value
    assert view.live.run is not None
    page = opening.open_page(context, {**link, "run": view.live.run.digest})
    live = page.live
    last = list(run_views(context, view.clip, live, **boxes))[-1]
    assert "link" not in last.status.value


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"video": HOSTILE}, "there is no bundled video"),
        ({"video": "truck-2", "speak": "nan"}, "the speak threshold must be a number from 0 to 1; got 'nan'"),
    ],
)
def test_a_link_that_leads_nowhere_says_so(context: AppContext, link: dict[str, str], words: str) -> None:
    view = opening.open_page(context, link)
    assert view.status.value.startswith("⚠ the link cannot be opened: ")
    assert words in view.status.value
    assert view.clip is not None
    assert view.live is None


def test_a_taken_port_and_a_missing_checkpoint_end_with_2_and_one_line(
    tiny_folder: Path, demo_manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["--port", port, "--checkpoint", str(tiny_folder), "--data", str(demo_manifest)]) == 2
    assert f"port {port} is taken" in capsys.readouterr().err
    assert main(["--port", port, "--checkpoint", str(demo_manifest.parent)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "config.json" in error
    assert error.count("\n") == 1


def test_a_task_longer_than_any_procedure_is_refused_before_it_is_read(context: AppContext) -> None:
    with pytest.raises(ValueError, match="at most 200000 characters; got 500000"):
        read_task(context.bundled_videos.find("truck-1"), goal="", steps="0: a\n" * 100_000, user_turns="")


def test_an_upload_without_a_readable_picture_is_refused_at_once(context: AppContext, tmp_path: Path) -> None:
    path = write_plain(tmp_path / "good.mp4", width=64, height=64, num_pictures=20)
    content = path.read_bytes()
    start, end = content.index(b"mdat") + 4, content.index(b"moov") - 4
    noise = tmp_path / "noise.mp4"
    noise.write_bytes(content[:start] + b"\xff" * (end - start) + content[end:])  # its header is whole
    clip, status = upload(context, noise)
    assert clip is None
    assert status.startswith("⚠ noise.mp4: no picture can be read; export")
