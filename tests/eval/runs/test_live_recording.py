"""A recorded session survives the death of its process."""

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepscope.app.live.handlers import read_recorded
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.live.frames import make_gap
from stepscope.engine.loading import load_model
from stepscope.engine.records import FrameOutput, Step, UserTurn
from stepscope.engine.video.reader import read_frames
from stepscope.eval.cli.live import recover
from stepscope.eval.cli.options import RecoverOptions
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.live_recording import SESSION_NAME, LiveRecording, RecordingError, recover_recording
from stepscope.eval.runs.output_folder import FolderRefusedError
from stepscope.eval.runs.provenance import read_provenance


def test_a_killed_session_has_its_video_its_outputs_and_its_questions(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The copy of a folder that is being written is what a kill leaves on the disk."""
    task = Task(goal="build", steps=(Step(id="S1", name="attach the wheel"),))
    recording, before = record(tmp_path / "live-1", tiny_folder, task), None
    for index in range(21):
        recording.video.write(index, np.full((48, 64, 3), index, np.uint8))
        if index == 3:
            recording.add_question(UserTurn(time_s=1.5, text="What is next?"))
        gap = make_gap(index, fps=2, before=before, initial={"S1": "not_started"})
        before = replace(gap, speak_prob=0.5, update_prob=0.5, response="Attach the wheel." if index == 3 else None)
        recording.add(before)
    with pytest.raises(FolderRefusedError, match="another program"):
        recover_recording(tmp_path / "live-1")
    killed = Path(shutil.copytree(tmp_path / "live-1", tmp_path / "copy" / "live-1"))
    recording.finish()
    with (killed / "live-1.jsonl").open("ab") as file:
        file.write(b'{"frame_index": 21, "ti')
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


@pytest.mark.parametrize("own_name", ["session", "run"])
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


def record(path: Path, tiny_folder: Path, task: Task | None = None) -> LiveRecording:
    checkpoint = load_model(tiny_folder, device="cpu")
    return LiveRecording(path, task=task or Task(), config=StreamConfig(), checkpoint=checkpoint, source="camera")


def test_a_recording_without_a_frame_leaves_no_folder(tiny_folder: Path, tmp_path: Path) -> None:
    assert record(tmp_path / "live-1", tiny_folder).finish() is None
    assert list(tmp_path.iterdir()) == []


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
