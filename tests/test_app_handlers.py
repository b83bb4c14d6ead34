import base64
import itertools
import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gradio as gr
import numpy as np
import pytest

from app import handlers, streaming
from app.__main__ import main
from app.clips import Clip, read_demos
from app.desk.desk import Desk
from app.display import DisplayCopies
from app.handlers import Bench
from app.reviews.actions import Action
from app.reviews.store import open_store
from app.runs import Run
from app.views import UNCHANGED, Buttons, ClipView, LiveRun, Page, RunView
from engine.checkpoint import load_model
from engine.video import Frame, probe
from eval.corrections import Correction, name_turns
from eval.samples import Split
from tests.conftest import Uploads
from tests.fakes import anybody, count_letters

HOSTILE = "<img src=x onerror=alert(1)> {{1+1}} ${1+1}"


@pytest.fixture(scope="module")
def bench(tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(
        checkpoint=load_model(tiny_folder, device="cpu"),
        demos=read_demos(demo_manifest),
        copies=DisplayCopies(tmp_path_factory.mktemp("copies")),
        encode=count_letters,
        max_duration_s=600,
    )


@pytest.fixture
def every_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "UPDATE_EVERY_S", 0.0)
    monkeypatch.setattr(streaming, "REST_PER_UPDATE", 0.0)


def views(page: Page) -> tuple[ClipView, RunView, Buttons]:
    return ClipView(*page[:7]), RunView(*page[7:11]), Buttons(*page[11:14])


def run_views(bench: Bench, clip: Clip | None, live: LiveRun | None, **changes: Any) -> Iterator[RunView]:
    boxes = {
        "goal": "build the toy truck",
        "steps": "S1: attach the wheel\nS2: put on the roof\nS3: load the block",
        "user_turns": "",
        "speak_threshold": 0.5,
        "update_threshold": 0.5,
    }
    return streaming.stream(bench, live, clip, **{**boxes, **changes})


def decisions(run: Run) -> list[tuple[Any, ...]]:
    return [(output.response, output.updates, dict(output.dst_state)) for output in run.outputs]


def upload(bench: Bench, path: Path) -> tuple[Clip | None, str]:
    clip_view, run_view, _ = views(handlers.accept_upload(bench, None, None, str(path)))
    return clip_view.clip, run_view.status.value


def test_a_bundled_video_fills_goal_steps_and_user_turns(bench: Bench) -> None:
    clip_view, run_view, _ = views(handlers.choose_demo(bench, None, "truck-2"))
    assert Path(clip_view.video).name == "truck-2.mp4"
    assert clip_view.goal == "build the toy truck"
    assert clip_view.steps == "S1: attach the wheel\nS2: put on the roof\nS3: load the block"
    assert clip_view.user_turns == "3.5: What is next?"
    assert run_view.status.value == "truck-2, 0:06. Press Run."


def test_a_missing_manifest_leaves_the_page_to_uploads(bench: Bench, tmp_path: Path, uploads: Uploads) -> None:
    demos = read_demos(tmp_path / "absent.json")
    alone = replace(bench, demos=demos)
    _, run_view, _ = views(handlers.choose_demo(alone, None, None))
    assert "absent.json is not there. Upload a video instead." in run_view.status.value
    clip, status = upload(alone, uploads.good)
    assert clip is not None
    assert status.startswith("Lok 組み立て <b>1 & 2.mp4, 0:40.")


def test_bundled_videos_without_a_file_are_counted_not_shown(demo_manifest: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "test.json"
    manifest.write_text(demo_manifest.read_text(encoding="utf-8"), encoding="utf-8")
    demos = read_demos(manifest)
    assert demos.clips == ()
    assert demos.notice.startswith("2 of 2 bundled videos have no file")
    manifest.write_text(json.dumps({"videos": [{"video_id": "x"}]}), encoding="utf-8")
    assert "video x: the field 'fps' is missing" in read_demos(manifest).notice


def test_an_upload_clears_the_task_of_a_bundled_video_but_not_the_users(bench: Bench, uploads: Uploads) -> None:
    before, good = bench.demos.find("truck-1"), str(uploads.good)
    assert ClipView(*handlers.accept_upload(bench, None, before, good)[:7]).goal == ""
    again = ClipView(*handlers.accept_upload(bench, None, None, good)[:7])
    assert isinstance(again.goal, dict), "a skip"


def test_uploads_of_one_file_name_share_their_reviews_only_if_they_are_one_video(
    bench: Bench, uploads: Uploads, tmp_path: Path
) -> None:
    videos = [bench.demos.clips[0].path, uploads.foreign, bench.demos.clips[0].path]
    ids = []
    for number, video in enumerate(videos):
        path = tmp_path / str(number) / "mine.mp4"
        path.parent.mkdir()
        shutil.copy(video, path)
        clip, _ = upload(bench, path)
        assert clip is not None
        assert clip.name == "mine.mp4"
        ids.append(clip.video_id)
    assert ids[0] == ids[2] != ids[1]
    assert re.fullmatch(r"mine\.mp4 [0-9a-f]{8}", ids[0])
    assert [clip.video_id for clip in bench.demos.clips] == [clip.name for clip in bench.demos.clips]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("empty", "⚠ empty.mp4: the file is empty (0 bytes)"),
        ("noise", "⚠ noise.mp4: cannot be opened as video"),
        ("sound", "⚠ sound.m4a: has no video stream"),
        ("long", "⚠ long.mp4: lasts 11:00, longer than the limit of 10:00"),
    ],
)
def test_an_upload_that_cannot_be_streamed_is_refused_in_a_sentence(
    bench: Bench, uploads: Uploads, kind: str, words: str
) -> None:
    clip, status = upload(bench, getattr(uploads, kind))
    assert clip is None
    assert status.startswith(words)
    assert status.endswith(".")
    assert list(run_views(bench, clip, LiveRun()))[-1].status.value.startswith("⚠ there is no video;")


def test_an_upload_longer_than_its_header_says_is_cut_at_the_limit(bench: Bench, uploads: Uploads) -> None:
    clip, _ = upload(bench, uploads.good)
    short = replace(bench, max_duration_s=3)
    last = list(run_views(short, clip, LiveRun(), speak_threshold=1, update_threshold=1))[-1]
    assert "goes on after the limit of 0:03" in last.status.value


@pytest.mark.filterwarnings("default::engine.video.VideoWarning")  # of the copy for display; the run's is shown
def test_a_damaged_upload_is_streamed_as_far_as_it_can_be_read(bench: Bench, uploads: Uploads) -> None:
    clip, _ = upload(bench, uploads.damaged)
    live = LiveRun()
    last = list(run_views(bench, clip, live, speak_threshold=1, update_threshold=1))[-1]
    assert last.status.value.startswith("⚠ Done: ")
    assert "damaged.mkv: damaged, could be read up to 3.00 s" in last.status.value
    assert live.run is not None
    assert len(live.run.outputs) == 6


def test_a_video_that_browsers_do_not_play_is_converted_once(bench: Bench, uploads: Uploads, tmp_path: Path) -> None:
    again = tmp_path / "same content.mp4"
    again.write_bytes(uploads.foreign.read_bytes())
    first, second = (bench.copies.find_or_convert(path) for path in (uploads.foreign, again))
    assert first == second != uploads.foreign
    assert probe(first).is_browser_playable
    assert probe(first).duration_s == pytest.approx(2.0, abs=0.1)


@pytest.mark.usefixtures("every_frame")
def test_a_run_shows_each_frame_and_ends_with_scores(bench: Bench) -> None:
    clip, live = bench.demos.find("truck-1"), LiveRun()
    seen = list(run_views(bench, clip, live, user_turns="3.5: What is next?"))
    assert seen[2].status.value.startswith("Running: 3 of 12 frames, ")
    assert seen[2].status.value.endswith(", at 0:01 of 0:06.")
    assert seen[-1].status.value.startswith("Done: 12 frames in ")
    assert 'value="12" max="12"' in seen[-1].progress
    shown = json.loads(seen[-1].player)
    assert [step["id"] for step in shown["steps"]] == ["S1", "S2", "S3"]
    assert [band[-1][1] for band in shown["bands"]["reference"]] == [2, 1, 0]
    assert (shown["is_finished"], json.loads(seen[-2].player)["is_finished"]) == (True, False)
    assert 'data-hint="Share of the frames whose whole state is the reference' in seen[-1].scores
    references = [(turn["role"], turn["text"]) for turn in shown["references"]]
    assert references.count(("user", "What is next?")) == 1
    assert ("assistant", "Let's build the toy truck.") in references
    assert live.ended.is_set()


@pytest.mark.parametrize(("threshold", "num_spoken"), [(0.0, 12), (1.0, 0)])
def test_thresholds_are_used_exactly_as_set(bench: Bench, threshold: float, num_spoken: int) -> None:
    live = LiveRun()
    list(run_views(bench, bench.demos.find("truck-1"), live, speak_threshold=threshold, update_threshold=1))
    assert live.run is not None
    assert sum(output.response is not None for output in live.run.outputs) == num_spoken
    assert live.run.config.speak_threshold == threshold


@pytest.mark.usefixtures("every_frame")
def test_stop_keeps_what_was_reached(bench: Bench) -> None:
    live = LiveRun()
    going = run_views(bench, bench.demos.find("truck-1"), live)
    for _ in range(4):
        next(going)
    live.is_wanted = False
    assert list(going) == []
    status, progress, player, *_ = handlers.stop(bench, live)
    assert status.value == "Stopped at 0:02 of 0:06."  # frames 0, 0.5, 1.0, 1.5 s: 1.5 rounds to the even second
    assert 'value="4" max="12"' in progress
    shown = json.loads(player)
    assert shown["is_finished"] is False
    assert len(base64.b64decode(shown["times"])) == 4 * 8


@pytest.mark.usefixtures("every_frame")
def test_closing_a_run_ends_its_threads(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def frames_for_ever(*_: Any, **__: Any) -> Iterator[Frame]:
        for index in itertools.count():
            yield Frame(index=index, time_s=index / 2, image=np.zeros((8, 8, 3), np.uint8))

    monkeypatch.setattr(streaming, "read_frames", frames_for_ever)
    live = LiveRun()
    going = run_views(bench, bench.demos.find("truck-1"), live)
    next(going)
    assert any(thread.name == "read-ahead" for thread in threading.enumerate())
    going.close()  # type: ignore[attr-defined]
    assert live.ended.is_set()
    assert not any(thread.name == "read-ahead" for thread in threading.enumerate())


def test_a_run_that_never_had_its_turn_stops_at_once(bench: Bench) -> None:
    assert handlers.stop(bench, LiveRun())[0].value == "Stopped before the first frame."
    assert handlers.stop(bench, None)[0].value == "Stopped before the first frame."


def test_the_end_of_one_run_does_not_disturb_the_next() -> None:
    ended = LiveRun()
    ended.ended.set()
    assert handlers.end(ended).run.interactive
    assert isinstance(handlers.end(LiveRun()).run, dict), "a skip"


@pytest.mark.usefixtures("every_frame")
def test_two_windows_do_not_mix(bench: Bench) -> None:
    def outputs(live: LiveRun) -> list[tuple[Any, ...]]:
        assert live.run is not None
        return [(o.time_s, o.speak_prob, o.response, o.updates) for o in live.run.outputs]

    names = ("truck-1", "truck-2")
    alone, together = (LiveRun(), LiveRun()), (LiveRun(), LiveRun())
    for name, live in zip(names, alone, strict=True):
        list(run_views(bench, bench.demos.find(name), live))
    runs = [run_views(bench, bench.demos.find(name), live) for name, live in zip(names, together, strict=True)]
    for _ in zip(*runs, strict=True):
        pass
    assert [outputs(live) for live in alone] == [outputs(live) for live in together]
    assert outputs(alone[0]) != outputs(alone[1])


@pytest.mark.parametrize(
    ("box", "text", "words"),
    [
        ("steps", "S1: a\nS1: b", "step ids must differ"),
        ("user_turns", "soon: hello", "soon: hello"),
        ("user_turns", "7: hello", "the user turn at 0:07 comes after the end of the video (0:06)"),
        ("goal", "long " * 5000, "the schema prompt takes"),
        ("speak_threshold", 2.0, "the speak threshold must be a number from 0 to 1; got 2.0"),
    ],
)
def test_a_wrong_entry_is_said_and_the_page_goes_on(bench: Bench, box: str, text: Any, words: str) -> None:
    clip = bench.demos.find("truck-1")
    last = list(run_views(bench, clip, LiveRun(), **{box: text}))[-1]
    assert last.status.value.startswith("⚠ ")
    assert words in last.status.value
    assert list(run_views(bench, clip, LiveRun()))[-1].status.value.startswith("Done: ")


def test_hostile_text_stays_text(bench: Bench) -> None:
    steps = f"S1: {HOSTILE}"
    views = list(
        run_views(bench, bench.demos.find("truck-1"), LiveRun(), steps=steps, goal=HOSTILE, user_turns=f"1: {HOSTILE}")
    )
    shown = json.loads(views[-1].player)
    assert shown["steps"][0]["name"] == HOSTILE
    assert HOSTILE in [turn["text"] for turn in shown["references"]]
    assert "<img" not in views[-1].progress + views[-1].scores


def test_other_steps_than_the_references_are_not_held_against_it(bench: Bench) -> None:
    views = list(run_views(bench, bench.demos.find("truck-1"), LiveRun(), steps="A1: fry the egg"))
    assert json.loads(views[-1].player)["has_reference"] is False


def test_other_thresholds_run_again_exactly_as_from_the_start(bench: Bench) -> None:
    clip, live, fresh = bench.demos.find("truck-1"), LiveRun(), LiveRun()
    list(run_views(bench, clip, live))
    list(run_views(bench, clip, fresh, speak_threshold=0.0, update_threshold=1.0))
    assert live.run is not None
    assert fresh.run is not None
    before = decisions(live.run)
    view = streaming.rerun(bench, live, 0.0, 1.0)
    assert view.status.value.startswith("Done: the same run with the new thresholds, 12 frames in ")
    assert decisions(live.run) == decisions(fresh.run) != before
    assert json.loads(view.player)["thresholds"] == {"speak": 0.0, "update": 1.0}
    live.recording = None  # too large to keep: the video is read again
    streaming.rerun(bench, live, 0.5, 0.5)
    assert decisions(live.run) == before


def test_a_run_that_was_stopped_is_not_run_again(bench: Bench) -> None:
    assert (
        streaming.rerun(bench, None, 0.4, 0.6).player == streaming.rerun(bench, LiveRun(), 0.4, 0.6).player == gr.skip()
    )


def test_a_run_too_large_to_keep_is_not_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MOST_KEPT_VALUES", 100)
    live = LiveRun()
    list(run_views(bench, bench.demos.find("truck-1"), live))
    assert live.run is not None
    assert live.run.is_finished
    assert live.recording is None


def test_a_run_is_judged_by_the_corrected_reference_or_the_sources(bench: Bench, tmp_path: Path) -> None:
    def judge(*, corrected: bool, is_blind: bool = False) -> tuple[str, dict[str, Any]]:
        event = SimpleNamespace(corrected=corrected, reviewer="bob", is_blind=is_blind)
        view = streaming.judge_against(bench, desk, live, cast(gr.EventData, event), anybody())
        return view.status.value, json.loads(view.player)

    clip = bench.demos.clips[0]
    assert clip.sample is not None
    live = LiveRun()
    *_, last = run_views(bench, clip, live)
    with open_store(tmp_path / "reviews.sqlite") as store:
        desk = Desk(store=store, splits={"test": Split(path=tmp_path / "test.json", entries=(clip.sample,))})
        name = name_turns(clip.sample.turns)[0]
        correction = Correction(reviewer="ann", kind="delete", turn=name)
        store.append(Action(kind="correction", reviewer="ann", video_id=clip.name, correction=correction))
        said, packed = judge(corrected=True)
        assert said == "Judged by the corrected reference; corrections: 1, conflicts: 0."
        assert len(packed["references"]) == len(clip.sample.turns) - 1
        keys = [event["key"] for event in json.loads(last.player)["events"] if event["kind"] == "reference"]
        left = [event["key"] for event in packed["events"] if event["kind"] == "reference"]
        assert left == keys[1:]  # the others keep their names
        said, packed = judge(corrected=False)
        assert "of the source" in said
        assert packed["references"] == json.loads(last.player)["references"]
        said, packed = judge(corrected=True, is_blind=True)
        assert "corrections: 0" in said
        assert len(packed["references"]) == len(clip.sample.turns)
        live.run = None
        nothing = streaming.judge_against(bench, desk, live, cast(gr.EventData, SimpleNamespace()), anybody())
        assert "press Run" in nothing.status.value


def test_a_link_opens_its_video_with_its_thresholds_and_runs_it(bench: Bench) -> None:
    link = {"video": "truck-2", "run": "123", "t": "2.5", "speak": "0.4", "update": "0.6"}
    page = handlers.open_page(bench, None, "truck-1", link)
    clip_view, _, buttons = views(page)
    assert (clip_view.chosen, Path(clip_view.video).name, page[14:]) == ("truck-2", "truck-2.mp4", (0.4, 0.6))
    last = list(run_views(bench, clip_view.clip, buttons.live, speak_threshold=0.4, update_threshold=0.6))[-1]
    assert "The link was made from another run" in last.status.value
    assert buttons.live.run is not None
    page = handlers.open_page(bench, None, "truck-1", {**link, "run": buttons.live.run.digest})
    live = views(page)[2].live
    last = list(run_views(bench, clip_view.clip, live, speak_threshold=0.4, update_threshold=0.6))[-1]
    assert "link" not in last.status.value


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"video": HOSTILE}, "there is no bundled video"),
        ({"video": "truck-2", "speak": "nan"}, "the speak threshold must be a number from 0 to 1; got nan"),
        ({"video": "truck-2", "update": "7"}, "the update threshold must be a number from 0 to 1; got 7"),
    ],
)
def test_a_link_that_leads_nowhere_says_so(bench: Bench, link: dict[str, str], words: str) -> None:
    clip_view, run_view, buttons = views(handlers.open_page(bench, None, "truck-1", link))
    assert run_view.status.value.startswith("⚠ the link leads nowhere: ")
    assert words in run_view.status.value
    assert clip_view.clip is not None
    assert buttons.live is None


def test_no_link_opens_the_first_video_and_runs_nothing(bench: Bench) -> None:
    clip_view, _, buttons = views(handlers.open_page(bench, None, "truck-1", {}))
    assert clip_view.clip == bench.demos.find("truck-1")
    assert list(run_views(bench, clip_view.clip, buttons.live)) == [UNCHANGED]


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
