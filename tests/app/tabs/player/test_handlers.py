"""Chosen, uploaded and linked videos in one window."""

import json
import re
import shutil
import socket
from dataclasses import asdict, replace
from pathlib import Path

import gradio as gr
import pytest

from stepscope.app import opening
from stepscope.app.__main__ import main
from stepscope.app.context import AppContext
from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.run import read_task, write_task
from stepscope.app.core.videos import MAX_UPLOAD_BYTES, Clip, read_bundled_videos
from stepscope.app.tabs.player import handlers
from stepscope.app.tabs.player import uploads as page_uploads
from stepscope.app.web.views import UNCHANGED, show_clip
from stepscope.engine.records import Step
from stepscope.engine.video.reader import VideoWarning, probe
from stepscope.eval.data.samples import Turn, build_task
from tests.conftest import Uploads
from tests.support.pages.benches import open_upload, run_views, views
from tests.support.paths import REAL_VIDEOS
from tests.support.streams.videos import write_plain

HOSTILE = "<img src=x onerror=alert(1)> {{1+1}} ${1+1}"


def upload(context: AppContext, path: Path) -> tuple[Clip | None, str]:
    """Upload a file to a page without a video; return the clip if it is accepted, and the status line."""
    check = page_uploads.check_upload(context, None, None, str(path))
    if not isinstance(check.accepted, page_uploads.Accepted):
        return None, check.status.value
    clip_view, run_view, _ = views(page_uploads.show_upload(context, None, None, check.accepted))
    return clip_view.clip, run_view.status.value


def test_a_bundled_video_fills_goal_steps_and_user_turns(context: AppContext) -> None:
    clip_view, run_view, _ = views(opening.choose_bundled(context, None, "truck-2"))
    assert Path(clip_view.video).read_bytes() == context.bundled_videos.clips[1].path.read_bytes()
    assert clip_view.goal == "build the toy truck"
    assert clip_view.steps == "S1: attach the wheel\nS2: put on the roof\nS3: load the block"
    assert clip_view.user_turns == "3.5: What is next?"
    assert run_view.status.value == "truck-2, 0:06. Press Run."


def test_the_task_is_filled_in_to_the_last_digit(context: AppContext) -> None:
    clip = context.bundled_videos.find("truck-2")
    assert clip.sample is not None
    turn = replace(clip.sample.user_turns[0], time_s=1234.56789)
    sample = replace(clip.sample, turns=(Turn(time_s=turn.time_s, role="user", text=turn.text),), num_frames=9999)
    view = show_clip(replace(clip, sample=sample, duration_s=5000.0), clip.path, chosen=None)
    assert view.clip is not None
    task = read_task(view.clip, goal=view.goal, steps=view.steps, user_turns=view.user_turns)
    assert (task.goal, task.steps, task.user_turns) == (sample.goal, sample.steps, sample.user_turns)


def test_a_missing_manifest_leaves_the_page_to_uploads(context: AppContext, tmp_path: Path, uploads: Uploads) -> None:
    bundled_videos = read_bundled_videos(tmp_path / "absent.json")
    alone = replace(context, bundled_videos=bundled_videos)
    _, run_view, _ = views(opening.choose_bundled(alone, None, None))
    assert "absent.json does not exist. Upload a video instead." in run_view.status.value
    clip, status = upload(alone, uploads.good)
    assert clip is not None
    assert status.startswith("Lok 組み立て <b>1 & 2.mp4, 0:40.")


def test_bundled_videos_without_a_file_are_counted_not_shown(demo_manifest: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "test.json"
    manifest.write_text(demo_manifest.read_text(encoding="utf-8"), encoding="utf-8")
    bundled_videos = read_bundled_videos(manifest)
    assert bundled_videos.clips == ()
    assert bundled_videos.notice.startswith("2 of 2 bundled videos have no file")
    manifest.write_text(json.dumps({"videos": [{"video_id": "x"}]}), encoding="utf-8")
    assert "video x: num_frames is missing; it must be" in read_bundled_videos(manifest).notice


def test_an_upload_clears_the_task_of_a_bundled_video_but_not_the_users(context: AppContext, uploads: Uploads) -> None:
    before = context.bundled_videos.find("truck-1")
    assert views(open_upload(context, uploads.good, before=before))[0].goal == ""
    again = views(open_upload(context, uploads.good))[0]
    assert isinstance(again.goal, dict), "a skip"


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
        ("noise", "⚠ noise.mp4: not a video container"),
        ("sound", "⚠ sound.m4a: has no video stream"),
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


@pytest.mark.parametrize("has_upload", [False, True])
@pytest.mark.parametrize("is_running", [False, True])
def test_what_was_open_stays_when_an_upload_is_refused(
    context: AppContext, uploads: Uploads, has_upload: bool, is_running: bool
) -> None:
    before = views(open_upload(context, uploads.good))[0].clip if has_upload else context.bundled_videos.find("truck-1")
    assert before is not None
    live = LiveRun(is_started=is_running)
    check = page_uploads.check_upload(context, live, before, str(uploads.noise))
    said = check.problem if is_running else check.status.value
    assert said.startswith("⚠ noise.mp4: not a video container")
    assert said.endswith(f" {before.name} stays open.")
    assert check.accepted == gr.skip()
    assert check.upload == (str(uploads.good) if has_upload else None), "the box names what is open"
    assert not live.is_cancelled, "a run goes on"


def test_what_is_open_stays_when_the_box_of_the_upload_is_emptied(context: AppContext, uploads: Uploads) -> None:
    clip = views(open_upload(context, uploads.foreign))[0].clip
    assert clip is not None
    said = page_uploads.clear_box(None, clip).value
    assert said == f"{clip.name} stays open until another video is chosen or uploaded."
    assert page_uploads.clear_box(LiveRun(is_started=True), clip) == gr.skip(), "the run writes in the line"
    assert page_uploads.clear_box(None, context.bundled_videos.clips[0]) == gr.skip()


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


def test_damage_is_named_at_the_upload(context: AppContext) -> None:
    path = REAL_VIDEOS / "corrupted.mp4"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    with pytest.warns(VideoWarning, match="damaged"):
        _, status = upload(context, path)
    assert "converted copy, because browsers show no pictures from its damage on. The file is damaged at 0:03" in status
    assert "pictures near it and after it may be missing." in status
    copy = context.copies.find_or_convert(path)  # Chromium stops for good at the damage
    assert probe(copy).duration_s == pytest.approx(2.8, abs=0.01)


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
    assert handlers.show_stopped(context, LiveRun()).run.status.value == "Stopped before the first frame."
    assert handlers.show_stopped(context, None).run.status.value == "Stopped before the first frame."
    ended = LiveRun()
    ended.ended.set()
    assert handlers.finish_run(ended).run.interactive
    assert isinstance(handlers.finish_run(LiveRun()).run, dict), "a skip"


def test_a_link_opens_its_video_with_its_thresholds_and_runs_it(context: AppContext) -> None:
    link = {"video": "truck-2", "run": "123", "t": "2.5", "speak": "0.4", "update": "0.6"}
    page = opening.open_page(context, None, "truck-1", link)
    clip_view, _, buttons = views(page)
    assert (clip_view.chosen, page.thresholds) == ("truck-2", (0.4, 0.6))
    assert Path(clip_view.video).read_bytes() == context.bundled_videos.clips[1].path.read_bytes()
    boxes = {"user_turns": clip_view.user_turns, "speak_threshold": 0.4, "update_threshold": 0.6}
    last = list(run_views(context, clip_view.clip, buttons.live, **boxes))[-1]
    assert "The link refers to a different run" in last.status.value
    assert buttons.live.run is not None
    page = opening.open_page(context, None, "truck-1", {**link, "run": buttons.live.run.digest})
    live = views(page)[2].live
    last = list(run_views(context, clip_view.clip, live, **boxes))[-1]
    assert "link" not in last.status.value


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"video": HOSTILE}, "there is no bundled video"),
        ({"video": "truck-2", "speak": "nan"}, "the speak threshold must be a number from 0 to 1; got 'nan'"),
        ({"video": "truck-2", "update": "7"}, "the update threshold must be a number from 0 to 1; got '7'"),
    ],
)
def test_a_link_that_leads_nowhere_says_so(context: AppContext, link: dict[str, str], words: str) -> None:
    clip_view, run_view, buttons = views(opening.open_page(context, None, "truck-1", link))
    assert run_view.status.value.startswith("⚠ the link cannot be opened: ")
    assert words in run_view.status.value
    assert clip_view.clip is not None
    assert buttons.live is None


def test_no_link_opens_the_first_video_and_runs_nothing(context: AppContext) -> None:
    clip_view, _, buttons = views(opening.open_page(context, None, "truck-1", {}))
    assert clip_view.clip == context.bundled_videos.find("truck-1")
    assert list(run_views(context, clip_view.clip, buttons.live)) == [UNCHANGED]


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


@pytest.mark.parametrize("box", ["goal", "steps", "user_turns"])
def test_a_task_longer_than_any_procedure_is_refused_before_it_is_read(context: AppContext, box: str) -> None:
    boxes = {"goal": "", "steps": "", "user_turns": ""} | {box: "0: a\n" * 100_000}
    with pytest.raises(ValueError, match="at most 200000 characters; got 500000"):
        read_task(context.bundled_videos.find("truck-1"), **boxes)


def test_a_box_left_out_is_empty_and_half_a_surrogate_pair_is_a_question_mark(
    context: AppContext,
) -> None:
    clip = context.bundled_videos.find("truck-1")
    task = read_task(clip, goal=None, steps="S1: build", user_turns=None)
    assert (task.goal, task.user_turns) == ("", ())
    assert read_task(clip, goal=None, steps=None, user_turns=None).steps == ()
    clip = context.bundled_videos.clips[0]
    task = read_task(clip, goal="build \ud83d", steps="S1: a\ud83d", user_turns="1: b\ud83d")
    assert (task.goal, task.steps[0].name, task.user_turns[0].text) == ("build ?", "a?", "b?")


def test_texts_of_several_lines_take_one_line_of_the_boxes_and_change_nothing(context: AppContext) -> None:
    clip = context.bundled_videos.clips[0]
    assert clip.sample is not None
    turn = Turn(time_s=1, role="user", text="What\r\nis\u2028next?")
    sample = replace(clip.sample, goal="a\nb", steps=(Step(id="S1", name="c\rd"),), turns=(turn,), initial_state={})
    boxes = asdict(write_task(build_task(sample)))
    assert boxes == {"goal": "a b", "steps": "S1: c d", "user_turns": "1: What is next?"}
    assert read_task(replace(clip, sample=sample), **boxes) == build_task(sample)
    edited = read_task(replace(clip, sample=sample), **boxes | {"goal": "e"})
    assert (edited.goal, edited.steps[0].name, edited.user_turns[0].text) == ("e", "c d", "What is next?")


def test_an_upload_without_a_readable_picture_is_refused_at_once(context: AppContext, tmp_path: Path) -> None:
    path = tmp_path / "hollow.mp4"
    path.write_bytes(b"GIF89a\xff\xff\xff\xff\x80\x00\x00" + bytes(50))
    clip, status = upload(context, path)
    assert clip is None
    assert "hollow.mp4: no picture can be read" in status
    path = write_plain(tmp_path / "good.mp4", width=64, height=64, num_pictures=20)
    assert upload(context, path)[0] is not None
    content = path.read_bytes()
    start, end = content.index(b"mdat") + 4, content.index(b"moov") - 4
    noise, cut = tmp_path / "noise.mp4", tmp_path / "cut.mp4"
    noise.write_bytes(content[:start] + b"\xff" * (end - start) + content[end:])  # its header is whole
    cut.write_bytes(content[: len(content) // 2])
    for path, problem in ((noise, "no picture can be read; export"), (cut, "cannot be opened as video (")):
        clip, status = upload(context, path)
        assert clip is None
        assert status.startswith(f"⚠ {path.name}: {problem}")
