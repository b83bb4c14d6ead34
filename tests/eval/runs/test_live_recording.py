"""A recorded session survives the death of its process."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from stepscope.app.tabs.live.handlers import read_recorded
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.errors import VideoError
from stepscope.engine.live.frames import make_gap
from stepscope.engine.live.recorder import VideoRecorder
from stepscope.engine.loading import load_model
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.video.growing import finish_growing
from stepscope.engine.video.reader import read_frames
from stepscope.eval.cli.live import recover
from stepscope.eval.cli.options import RecoverOptions
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder, VideoRecord
from stepscope.eval.runs.live_recording import SESSION_NAME, LiveRecording, RecordingError, recover_recording
from stepscope.eval.runs.output_folder import FolderRefusedError
from stepscope.eval.runs.provenance import read_provenance
from tests.support.paths import ROOT

SESSION = """
import sys
from pathlib import Path
import numpy as np
from stepscope.engine.control.task import Task
from stepscope.engine.config import StreamConfig
from stepscope.engine.live.frames import make_gap
from stepscope.engine.live.recorder import VideoRecorder
from stepscope.engine.loading import load_model
from stepscope.engine.records import Step, UserTurn
from dataclasses import replace
from stepscope.eval.runs.live_recording import LiveRecording

task = Task(goal="build", steps=(Step(id="S1", name="attach the wheel"),))
checkpoint = load_model(sys.argv[1], device="cpu")
recording = LiveRecording(Path(sys.argv[2]), task=task, config=StreamConfig(), checkpoint=checkpoint, source="camera")
before = None
for index in range(1000):
    recording.video.write(index, np.full((48, 64, 3), index % 200, np.uint8))
    if index == 3:
        recording.add_question(UserTurn(time_s=1.5, text="What is next?"))
    gap = make_gap(index, fps=2, before=before, initial={"S1": "not_started"})
    before = replace(gap, speak_prob=0.5, update_prob=0.5, response="Attach the wheel." if index == 3 else None)
    recording.add(before)
    if index == 20:
        print("recorded", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def killed(tiny_folder: Path, tmp_path: Path) -> Path:
    """Return the folder of a session that was killed at frame 20, in the middle of a line."""
    path = tmp_path / "live-1"
    program = subprocess.Popen(
        [sys.executable, "-c", SESSION, str(tiny_folder), str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"recorded\n"
    with pytest.raises(FolderRefusedError, match="another program"):
        recover_recording(path)
    program.send_signal(signal.SIGKILL)
    program.communicate()
    with (path / f"{path.name}.jsonl").open("ab") as file:
        file.write(b'{"frame_index": 21, "ti')
    return path


@pytest.mark.slow
def test_a_killed_session_has_its_video_its_outputs_and_its_questions(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (killed / "split.json").exists()
    assert recover(RecoverOptions(folder=killed)) == 0
    assert capsys.readouterr().out == f"{killed}: 21 frames\n"
    folder = RunFolder(killed)
    (sample,) = read_split(folder.split_path()).samples
    assert (sample.num_frames, sample.goal) == (21, "build")
    assert [(turn.role, turn.text, turn.time_s) for turn in sample.turns] == [
        ("user", "What is next?", 1.5),
        ("assistant", "Attach the wheel.", 1.5),
    ]
    assert read_provenance(folder).asked_label == "asked in the run: 1 question at 0:01.5"
    assert folder.find_finished(sample) is not None
    assert len(folder.outputs(sample)) == 21
    assert sample.video_path is not None
    pictures = list(read_frames(sample.video_path, fps=2))
    assert 19 <= len(pictures) <= 21, "at most the last two pictures are lost"
    assert abs(int(pictures[10].image[0, 0, 0]) - 10) < 4
    assert not (killed / SESSION_NAME).exists()
    with pytest.raises(ValueError, match="not the folder of an unfinished session"):
        recover(RecoverOptions(folder=killed))


@pytest.mark.parametrize("own_name", ["session", "run", "split", "video"])
def test_a_live_recording_with_a_name_of_our_files_is_complete(
    tiny_folder: Path, tmp_path: Path, own_name: str
) -> None:
    recording = record(tmp_path / own_name, tiny_folder)
    for index in range(3):
        recording.video.write(index, np.zeros((48, 64, 3), np.uint8))
        recording.add(replace(make_gap(index, fps=2, before=None, initial={}, reason="dropped"), response="Go."))
    recording.add_question(UserTurn(time_s=0.5, text="What is next?"))
    sample = recording.finish()
    assert sample is not None
    assert len(RunFolder(tmp_path / own_name).outputs(sample)) == 3
    assert [turn.text for turn in sample.turns if turn.role == "user"] == ["What is next?"]


def write_run(folder: Path, *video_ids: str) -> dict[Path, bytes]:
    """Write a finished run of videos with these ids; return its files."""
    outputs = [make_gap(0, fps=2, before=None, initial={}, reason="dropped")]
    with RunFolder.open(folder, {"split": "/s.json", "config": {}}) as run:
        for video_id in video_ids:
            run.save_video(VideoRecord(video_id=video_id, source="s", num_frames=1), outputs)
    return {path: path.read_bytes() for path in folder.iterdir()}


def test_a_run_keeps_the_outputs_of_a_video_called_session_at_the_start_of_a_page(tmp_path: Path) -> None:
    ids = ("session", "session.unfinished", "eval", SESSION_NAME)
    files = write_run(tmp_path / "eval", *ids)
    assert read_recorded({}, tmp_path) == []
    assert {path: path.read_bytes() for path in (tmp_path / "eval").iterdir()} == files


@pytest.mark.parametrize("content", ["", "{}\n", '{"frame_index": 0}\n', "\0", '{"goal": "build"'])
def test_a_foreign_file_with_the_name_of_the_mark_removes_and_cuts_nothing(tmp_path: Path, content: str) -> None:
    write_run(tmp_path / "eval", "eval")
    (tmp_path / "eval" / SESSION_NAME).write_text(content)
    (tmp_path / "eval" / "eval.jsonl").write_text('{"a line without an end": 1}')
    files = {path: path.read_bytes() for path in (tmp_path / "eval").iterdir()}
    problems = read_recorded({}, tmp_path)
    assert len(problems) == 1
    assert "The recorded session eval cannot be completed" in problems[0]
    assert {path: path.read_bytes() for path in (tmp_path / "eval").iterdir()} == files


def test_a_recording_on_a_full_disk_is_completed_once_there_is_space(tiny_folder: Path, tiny_disk: Path) -> None:
    path = tiny_disk / "live-1"
    recording = record(path, tiny_folder)
    outputs = [make_gap(index, fps=2, before=None, initial={}) for index in range(12)]
    for index, output in enumerate(outputs[:10]):
        recording.video.write(index, np.zeros((48, 64, 3), np.uint8))
        recording.add(output)
    fill_disk(tiny_disk)
    with pytest.raises(OSError, match=r"No space left on device: 'live-1\.jsonl'"):
        add_forever(recording, replace(outputs[10], response="x" * 4000))
    number = len(recording.outputs)
    with pytest.raises(
        RecordingError, match=r"live-1 cannot be completed \(video.mp4: No space left on device\).*stepscope recover"
    ):
        recording.finish()
    assert (path / SESSION_NAME).exists()
    (tiny_disk / "ballast").unlink()
    sample = recover_recording(path)
    assert sample is not None
    assert sample.num_frames == number
    assert not (path / SESSION_NAME).exists()


def test_pictures_on_a_full_disk_are_one_sentence_and_complete_once_there_is_space(tiny_disk: Path) -> None:
    recorder, image = VideoRecorder(tiny_disk / "video.mp4", fps=2), np.zeros((48, 64, 3), np.uint8)
    recorder.write(0, image)
    recorder.write(1, image)
    fill_disk(tiny_disk)
    with pytest.raises(VideoError, match=r"video\.mp4: cannot be written \(No space left on device\)"):
        write_forever(recorder)
    with pytest.raises(OSError, match="No space left on device"):
        recorder.close()
    assert sorted(path.name for path in tiny_disk.iterdir()) == ["ballast", "video.mp4"]
    with pytest.raises(OSError, match="No space left on device"):
        finish_growing(tiny_disk / "video.mp4")
    (tiny_disk / "ballast").unlink()
    finish_growing(tiny_disk / "video.mp4")
    assert len(list(read_frames(tiny_disk / "video.mp4", fps=2))) >= 1


def record(path: Path, tiny_folder: Path) -> LiveRecording:
    return LiveRecording(
        path, task=Task(), config=StreamConfig(), checkpoint=load_model(tiny_folder, device="cpu"), source="camera"
    )


def test_a_recording_without_a_frame_leaves_no_folder(tiny_folder: Path, tmp_path: Path) -> None:
    assert record(tmp_path / "live-1", tiny_folder).finish() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("num_outputs", [0, 1])
def test_a_disk_that_is_full_at_the_first_picture_leaves_no_folder_after_its_recovery(
    tiny_folder: Path, tiny_disk: Path, num_outputs: int
) -> None:
    path = tiny_disk / "live-1"
    recording = record(path, tiny_folder)
    for _ in range(num_outputs):
        recording.add(make_gap(0, fps=2, before=None, initial={}))
    fill_disk(tiny_disk)
    with pytest.raises(VideoError, match="No space left on device"):
        write_forever(recording.video)
    with pytest.raises(VideoError, match="No space left on device"):
        write_forever(recording.video)
    with pytest.raises(RecordingError, match=r"live-1 cannot be completed \("):
        recording.finish()
    (tiny_disk / "ballast").unlink()
    assert recover_recording(path) is None
    assert list(tiny_disk.iterdir()) == []


def test_a_recovery_on_a_full_disk_changes_nothing(tiny_folder: Path, tiny_disk: Path) -> None:
    path = tiny_disk / "live-1"
    recording = record(path, tiny_folder)
    for index in range(4):
        recording.video.write(index, np.full((480, 640, 3), 60 * index, np.uint8))
        recording.add(make_gap(index, fps=2, before=None, initial={}))
    fill_disk(tiny_disk)
    with pytest.raises(
        RecordingError, match=r"live-1 cannot be completed \(video.mp4: No space left on device\); free some"
    ):
        recording.finish()
    files = {path: path.read_bytes() for path in path.iterdir()}
    assert read_recorded({}, tiny_disk) == [
        "The recorded session live-1 cannot be completed: video.mp4: No space left on device."
    ]
    assert {path: path.read_bytes() for path in path.iterdir()} == files
    (tiny_disk / "ballast").unlink()
    sample = recover_recording(path)
    assert sample is not None
    assert sample.num_frames == 4


def test_a_damaged_video_of_a_long_recording_is_kept(tiny_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "live-1"
    recording = record(path, tiny_folder)
    for index in range(5):
        recording.add(make_gap(index, fps=2, before=None, initial={}))
    (path / "video.mp4").write_bytes(b"\0\0\0\x20ftypisom")
    recording.outputs.close()
    recording._files.close()
    files = {path: path.read_bytes() for path in path.iterdir()}
    (problem,) = read_recorded({}, tmp_path)
    assert "has no whole picture" in problem
    assert {path: path.read_bytes() for path in path.iterdir()} == files


def fill_disk(disk: Path) -> None:
    """Take all space of a disk with the file ``ballast``."""
    with (disk / "ballast").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def add_forever(recording: LiveRecording, output: FrameOutput) -> None:
    while True:
        recording.add(output)


def write_forever(recorder: VideoRecorder) -> None:
    noise = np.random.default_rng(0)
    for index in count(2):
        recorder.write(index, noise.integers(0, 255, (48, 64, 3), np.uint8))
