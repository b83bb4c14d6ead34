"""Records a live session as a run folder: its video, its outputs, and a split that refers to the video.

All files grow while the session runs. ``recover_recording`` completes those of a process that was killed. The turns of
the split are a copy of the model's own updates and responses, with the user's questions. They are no reference, so that
the run has no scores; corrections turn them into one.
"""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.errors import EngineError, VideoError, first_line
from stepscope.engine.inference.cuda_graphs import describe_graphs
from stepscope.engine.io.files import append_whole, check_regular, to_json
from stepscope.engine.io.json_records import parse_record, reading
from stepscope.engine.live.output_log import OutputLog
from stepscope.engine.live.recorder import LiveVideoWriter
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.records import GAP_REASONS, FrameOutput, UserTurn, numbered_lines, read_outputs
from stepscope.engine.video.growing import finish_growing
from stepscope.eval.data.samples import Sample, Turn, turn_order
from stepscope.eval.data.writers import write_samples
from stepscope.eval.runs.batch import model_settings
from stepscope.eval.runs.folder import (
    OWN_SPLIT,
    OWNER,
    RunFolder,
    VideoRecord,
    digest_sample,
    output_path,
    signal_settings,
)
from stepscope.eval.runs.output_folder import lock_folder
from stepscope.eval.runs.provenance import describe_questions

VIDEO_NAME: Final = "video.mp4"
SESSION_NAME: Final = "session.unfinished"
"""The mark of an unfinished recording: the task, and a line for each question. No file of a video has this ending."""


MAX_LOST: Final = 2
"""Last pictures that the video of a killed process may lack."""


class RecordingError(EngineError):
    """The recording of a live session cannot be completed now."""


class LiveRecording:
    """Writes the run folder of a live session while it runs.

    The name of the run folder, new or empty, becomes the id of the video. ``source`` is the name of the source, without
    passwords; ``scoring`` is copied into ``run.json``.

    Raises:
        FolderRefusedError: The folder cannot be written.
    """

    def __init__(
        self,
        path: Path,
        *,
        task: Task,
        config: StreamConfig,
        checkpoint: Checkpoint,
        source: str,
        scoring: Mapping[str, Any] | None = None,
    ) -> None:
        device = checkpoint.model.device.type
        settings = {
            "split": OWN_SPLIT,
            "checkpoint": checkpoint.name,
            "model_digest": checkpoint.digest,
            "device": device,
            "devices": [device],
            "dtype": checkpoint.dtype_name,
            "config": asdict(config),
            **signal_settings(config),
            **model_settings(checkpoint.folder, config, frame_pixels=checkpoint.frame_pixels),
            "source": source,
            **(scoring or {}),
        }
        self._path, self._checkpoint, self._config = path, checkpoint, config
        with ExitStack() as files:
            files.enter_context(RunFolder.open(path, settings))
            self.outputs = OutputLog(output_path(path, _video_id(path)))
            self.video = LiveVideoWriter(path / VIDEO_NAME, fps=config.fps)
            self._session = files.enter_context((path / SESSION_NAME).open("wb", buffering=0))
            self._write(asdict(task))
            self._files = files.pop_all()

    def add(self, output: FrameOutput) -> None:
        """Append the output of the next frame."""
        self.outputs.append(output)

    def add_question(self, turn: UserTurn) -> None:
        """Append a question, at the time of its frame."""
        self._write(asdict(turn))

    def finish(self) -> Sample | None:
        """Close the files, complete the recording and release the folder.

        Returns the sample; None if there was no frame, and the folder is then removed. Raises ``RecordingError`` if
        the folder cannot be written; the recording is then still marked as unfinished.
        """
        try:
            with self._files:
                with ExitStack() as closed:  # each is closed, also after an error of another
                    for file in (self._session, self.outputs, self.video):
                        closed.callback(file.close)
                sample = _complete(self._path, graphs=describe_graphs(self._checkpoint, self._config))
        except (OSError, VideoError) as error:
            reason = first_line(error)
            raise RecordingError(
                f"the recording {self._path.name} cannot be completed ({reason}); free some space, then run "
                "`stepscope recover` with its folder, or start the page again"
            ) from error
        if sample is None:
            _remove(self._path)
        return sample

    def _write(self, content: Mapping[str, Any]) -> None:
        append_whole(self._session, (to_json(content) + "\n").encode())  # a killed process loses no question


def recover_recording(path: Path) -> Sample | None:
    """Complete the recording of a process that was killed; return its sample.

    Outputs and questions are complete up to the end; the video lacks the last ``MAX_LOST`` pictures at most. Without a
    frame that was decided and has a picture, the folder is removed, and None is returned.

    Raises:
        FolderRefusedError: The session still runs.
        ValueError: A file of the folder is invalid; no file is changed then.
        VideoError: The video cannot be read, though it had more pictures.
        OSError: A file cannot be written, such as on a full disk; the recording is still marked as unfinished.
    """
    with lock_folder(path):
        _check_session(path)
        _drop_half_line(output_path(path, _video_id(path)))
        _drop_half_line(path / SESSION_NAME)
        if (path / VIDEO_NAME).exists():
            try:
                finish_growing(path / VIDEO_NAME)
            except VideoError:  # it was killed before the first whole picture
                if len(read_outputs(output_path(path, _video_id(path)))) > MAX_LOST:
                    raise
                (path / VIDEO_NAME).unlink()
        sample = _complete(path)
    if sample is None:
        _remove(path)
    return sample


def _remove(path: Path) -> None:
    """Remove the files of a recording without a frame, which would be listed as a run, and their folder."""
    owner = (path / OWN_SPLIT).with_suffix(OWNER)
    for file in (output_path(path, _video_id(path)), path / VIDEO_NAME, path / "run.json", owner):
        file.unlink(missing_ok=True)
    with suppress(OSError):  # it holds something else
        path.rmdir()


def _video_id(path: Path) -> str:
    return path.resolve().name


def _check_session(path: Path) -> None:
    """Raise ``ValueError`` unless a folder is that of a live session, before any of its files is cut or removed."""
    mark, settings = path / SESSION_NAME, RunFolder(path).settings()
    with reading(mark), mark.open(encoding="utf-8") as file:
        if (line := file.readline()).endswith("\n"):  # else it was killed in its first line
            parse_record(Task, line)
    if settings is None or not settings.get("source") or settings.get("split") != str(path.resolve() / OWN_SPLIT):
        raise ValueError(f"{path} holds no recording of a live session; remove {mark.name} if it is not needed")


def _drop_half_line(path: Path) -> None:
    check_regular(path)
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)


def _complete(path: Path, *, graphs: str = "") -> Sample | None:
    """Write the split and the record of closed files; return the sample, or None without a frame or a picture.

    ``graphs`` is the text of ``describe_graphs``.
    """
    folder, video_id, video = RunFolder(path), _video_id(path), path / VIDEO_NAME
    outputs = read_outputs(output_path(path, video_id))
    if not outputs or not video.is_file():
        (path / SESSION_NAME).unlink()
        return None
    task, questions = _read_session(path / SESSION_NAME)
    settings = folder.settings() or {}
    found = {"asked_in_run": describe_questions(questions), "graphs": graphs}
    if known := {name: text for name, text in found.items() if text}:
        folder.write_settings({**settings, **known})
    asked = [Turn(time_s=turn.time_s, role="user", text=turn.text) for turn in questions]
    sample = Sample(
        video_id=video_id,
        video_path=video.resolve(),
        fps=settings["config"]["fps"],
        num_frames=len(outputs),
        goal=task.goal,
        steps=task.steps,
        turns=tuple(sorted((*_copy_turns(outputs), *asked), key=turn_order)),
        initial_state=task.initial_state,
        has_reference=False,
    )
    write_samples(path / OWN_SPLIT, [sample], file_format="manifest")
    folder.save_record(
        VideoRecord(
            video_id=video_id,
            source=digest_sample(sample),
            fps=sample.fps,
            num_frames=len(outputs),
            device=settings["device"],
            graphs=graphs,
            undecided={reason: sum(output.state == reason for output in outputs) for reason in GAP_REASONS},
        )
    )
    (path / SESSION_NAME).unlink()
    return sample


def _copy_turns(outputs: tuple[FrameOutput, ...]) -> list[Turn]:
    """Return the legal updates and the responses of the model as turns to correct."""
    turns = []
    for output in outputs:
        for text, legality in zip(output.updates, output.legality or (), strict=True):
            if legality == "legal":
                turns.append(Turn(time_s=output.time_s, role="update", text=text))
        if output.response:
            turns.append(Turn(time_s=output.time_s, role="assistant", text=output.response))
    return turns


def _read_session(path: Path) -> tuple[Task, tuple[UserTurn, ...]]:
    with reading(path):
        (_, first), *rest = numbered_lines(path)
        return parse_record(Task, first), tuple(parse_record(UserTurn, line) for _, line in rest)
