"""Records the outputs of any model as a run folder, which the page opens and ``stepscope score`` scores.

It needs no torch and no model of this project: a loop of any library calls ``VideoRecorder.frame`` once per frame. A
video's outputs are written as they come, into a temporary file that becomes ``<video>.jsonl`` at the end. After a kill
the folder holds the finished videos only; the same program then records the rest. docs/recording.md has an example.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from types import NoneType, TracebackType
from typing import Any, Self, SupportsFloat, cast

from stepscope.engine.decisions.signals import SignalSpec, check_signals
from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.io.arguments import check_list, check_path, check_type
from stepscope.engine.io.files import atomic_write, load_json, strip_text, to_json
from stepscope.engine.io.json_records import short_repr
from stepscope.engine.records import FrameOutput, Reasoning, Step, frame_at, unknown_output
from stepscope.eval.data.json_fields import check_text
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Turn, make_own_sample
from stepscope.eval.data.writers import write_samples
from stepscope.eval.runs.folder import OWN_SPLIT, RunFolder, VideoRecord, digest_sample, output_path

__all__ = ["Reasoning", "RunRecorder", "SignalSpec", "Turn", "VideoRecorder"]
_HEAD, _TAIL = '{\n "videos": [\n', "\n ]\n}\n"
"""A manifest before and after its videos."""
_MAX_GAP = 100_000
"""Frames between two recorded ones; more are a mistake, such as times in milliseconds."""


class RunRecorder:
    """The recording of a run; use it in a ``with`` block, which locks the folder.

    Args:
        folder: Run folder. Finished videos of an earlier recording with the same arguments are kept.
        model: Name of the model, in any form.
        settings: Settings of the model, as plain values of JSON.
        signals: Descriptions of the named signals of its frames, in the order of their lanes.
        split: A split with tasks and references of the videos; None if each video brings its own.
        has_states: Whether the model tracks the steps of the task and its frames have ``updates``.

    Raises:
        FolderRefusedError: On entry, if the folder has other content, or a run with other arguments.
        ValueError: Two signals of one name, settings that are not JSON, or a split that cannot be read.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        model: str,
        settings: Mapping[str, Any] | None = None,
        signals: Sequence[SignalSpec] = (),
        split: str | Path | None = None,
        has_states: bool = False,
    ) -> None:
        check_path("folder", folder)
        check_type("model", model, str, "a text")
        check_type("settings", settings, (Mapping, NoneType), "a dict")
        check_type("split", split, (str, PathLike, NoneType), "a path")
        check_list("signals", signals, SignalSpec, "a list of SignalSpec")
        self.path = Path(folder)
        self.signals = tuple(check_signals(signals))
        self._has_own_split = split is None
        self._split = (self.path / OWN_SPLIT if split is None else Path(split)).resolve()
        if not model.strip():
            raise ValueError("a recorded run must name its model")
        try:
            to_json(settings or {})
        except TypeError as error:
            raise ValueError(f"settings must be plain values of JSON: {error}") from error
        self._settings = {
            "split": str(self._split),
            "checkpoint": model,
            "recorded": {"model": model, "settings": dict(settings or {})},
            "signals": [asdict(spec) for spec in self.signals],
            "has_states": has_states,
        }
        self._stack = ExitStack()
        self._folder: RunFolder | None = None
        self._samples: dict[str, Sample] = {}
        self._texts: dict[str, str] = {}

    def __enter__(self) -> Self:
        samples = read_split(self._split).samples if not self._has_own_split or self._split.exists() else ()
        self._samples = {sample.video_id: sample for sample in samples}
        if self._has_own_split and samples:
            listed = load_json(self._split.read_text(encoding="utf-8"))["videos"]
            texts = (to_json({"videos": [entry]}, indent=1) + "\n" for entry in listed)
            pairs = zip(listed, texts, strict=True)
            self._texts = {entry["video_id"]: text.removeprefix(_HEAD).removesuffix(_TAIL) for entry, text in pairs}
        self._folder = self._stack.enter_context(RunFolder.open(self.path, self._settings, resume=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder = None
        self._stack.close()

    def is_finished(self, video_id: str) -> bool:
        """Return whether a video is finished, so that a loop can skip it."""
        sample = self._samples.get(video_id)
        return sample is not None and self._open_folder().find_finished(sample) is not None

    @contextmanager
    def video(
        self,
        video_id: str,
        *,
        fps: float | None = None,
        video_path: str | Path | None = None,
        goal: str = "",
        steps: str | Sequence[Step] = (),
        turns: Iterable[Turn] | None = None,
    ) -> Iterator["VideoRecorder"]:
        """Record one video; it is finished when the ``with`` block ends.

        An exception of the block marks the video as failed, and propagates.

        Args:
            video_id: Name of the video, unique in the run.
            fps: Frames per second that the model sees, positive; None for those of the split.
            video_path: The video file, for the player.
            goal: Goal of the task.
            steps: Steps of the task, as records or as text with a line for each.
            turns: The reference and the user's turns; None without a reference: the run then has no scores.

        Raises:
            ValueError: The split of the run does not have the video, the arguments contradict it, or are invalid.
        """
        folder = self._open_folder()
        check_type("video_id", video_id, str, "a text")
        check_type("goal", goal, str, "a text")
        check_type("video_path", video_path, (str, PathLike, NoneType), "a path")
        fps = None if fps is None else _read_number("fps", fps)
        if not isinstance(steps, str):
            steps = check_list("steps", steps, Step, "a text with a line for each step, or a list of Step")
        if turns is not None:
            turns = check_list("turns", turns, Turn, "a list of Turn")
        if self._has_own_split:
            sample = self._keep_sample(make_own_sample(video_id, fps, video_path, goal, steps, turns), 1)
        else:
            sample = self._find_sample(video_id, fps)
        folder.delete_video(video_id)
        started_s = time.perf_counter()
        try:
            with atomic_write(output_path(folder.path, video_id)) as file:
                recorder = VideoRecorder(sample, self.signals, bool(self._settings["has_states"]), file.write)
                yield recorder
                if not recorder.num_frames:
                    raise ValueError(f"{video_id} has no frames; call frame() at least once")
            sample = self._keep_sample(sample, recorder.num_frames)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            folder.save_video(VideoRecord(video_id=video_id, source="", error=text), ())
            raise
        folder.save_record(
            VideoRecord(
                video_id=video_id,
                source=digest_sample(sample),
                num_frames=recorder.num_frames,
                wall_s=time.perf_counter() - started_s,
                fps=sample.fps,
            )
        )

    def _open_folder(self) -> RunFolder:
        if self._folder is None:
            raise ValueError("the run is not open; use the recorder in a `with` block")
        return self._folder

    def _find_sample(self, video_id: str, fps: float | None) -> Sample:
        sample = self._samples.get(video_id)
        if sample is None:
            raise ValueError(f"{self._split} has no video {video_id!r}")
        if fps is not None and not math.isclose(fps, sample.fps):
            raise ValueError(f"{video_id} has {sample.fps:g} frames/s in {self._split}, not {fps:g}")
        return sample

    def _keep_sample(self, sample: Sample, num_frames: int) -> Sample:
        """Add a video to the run's own split, with its length so far. Raises ``ValueError`` if its task is invalid."""
        if not self._has_own_split:
            return sample
        last = max((frame_at(turn.time_s, sample.fps) for turn in sample.turns), default=0)
        own, part = replace(sample, num_frames=max(num_frames, last + 1)), self._split.with_suffix(".part")
        try:  # checked and read alone: with all others, each video would take longer than the one before
            write_samples(part, [own], file_format="manifest")
            (kept,) = read_split(part).samples
            text = part.read_text(encoding="utf-8")
        finally:
            part.unlink(missing_ok=True)
        self._texts[kept.video_id] = text.removeprefix(_HEAD).removesuffix(_TAIL)
        with atomic_write(self._split) as file:
            file.write(_HEAD + ",\n".join(self._texts.values()) + _TAIL)
        self._samples[kept.video_id] = kept
        return kept


class VideoRecorder:
    """The frames of one video; ``RunRecorder.video`` makes it."""

    def __init__(
        self, sample: Sample, signals: Sequence[SignalSpec], has_states: bool, write: Callable[[str], object]
    ) -> None:
        self.num_frames = 0
        """Frames so far, with those that were left out between two recorded ones."""
        self._sample, self._has_states, self._write = sample, has_states, write
        self._names = {spec.name for spec in signals}
        self._state: Mapping[str, str] = initial_state(sample.steps, sample.initial_state)

    def frame(
        self,
        time_s: float,
        *,
        signals: Mapping[str, SupportsFloat] | None = None,
        response: str | None = None,
        state: str | None = None,
        updates: Sequence[str] = (),
        speak_prob: float = math.nan,
        update_prob: float = math.nan,
        latency_ms: float = math.nan,
        first_token_ms: float | None = None,
        cache_tokens: float = 0,
        refreshed: bool = False,
        reasoning: Reasoning | None = None,
    ) -> None:
        """Record one frame. Frames that are left out before it are silent, with unknown values and the state before it.

        Args:
            time_s: Time of the frame in seconds from the start of the video, larger than that of the frame before.
            signals: Values by name; one that is missing or nan is unknown. Numbers of numpy and torch are accepted.
            response: The message to the user; None or a text without words for silence.
            state: State of the assistant, such as silent, standby, respond or delegate.
            updates: Update texts, such as ``S3->complete``.
            speak_prob: Probability of speaking in [0, 1]; nan if unknown.
            update_prob: Probability of an update in [0, 1]; nan if unknown.
            latency_ms: Time of the model for this frame in milliseconds; nan if unknown.
            first_token_ms: Milliseconds to the first token of the response; None or nan if unknown.
            cache_tokens: Tokens in the context after the frame; 0 or nan if unknown.
            refreshed: Whether the context was rebuilt before this frame.
            reasoning: What the model wrote before its response; None without reasoning.

        Raises:
            ValueError: A value is out of its range, or a signal is not described.
        """
        index = self._place(time_s := _read_number("time_s", time_s))
        check_type("reasoning", reasoning, (Reasoning, NoneType), "a Reasoning")
        check_type("signals", signals, (Mapping, NoneType), "a dict of values by name")
        values = {name: _read_number(name, value) for name, value in (signals or {}).items()}
        if unknown := values.keys() - self._names:
            raise ValueError(f"the signal {min(unknown)!r} is not described; name it in signals of RunRecorder")
        changes, state_after = [], self._state
        for text in self._check_updates(updates):
            changes.append(apply_update(state_after, text))
            state_after = changes[-1].state
        output = FrameOutput(
            frame_index=index,
            time_s=time_s,
            speak_prob=_check_range("speak_prob", speak_prob, most=1),
            update_prob=_check_range("update_prob", update_prob, most=1),
            response=response if strip_text(_check_text("response", response) or "") else None,
            updates=tuple(updates),
            dst_state=state_after if self._has_states else {},
            cache_tokens=int(_check_known("cache_tokens", cache_tokens, most=2**53 - 1) or 0),
            refreshed=bool(refreshed),
            latency_ms=_check_range("latency_ms", latency_ms),
            first_token_ms=_check_known("first_token_ms", first_token_ms),
            legality=tuple(change.legality for change in changes),
            signals={name: _check_range(name, value, least=-1e15) for name, value in values.items()},
            state=_check_text("state", state),
            reasoning=reasoning,
        )
        self._fill(index)  # still with the state before the updates, which begins at this frame
        self._state = state_after
        self._write(output.to_json() + "\n")
        self.num_frames = index + 1

    def _place(self, time_s: float) -> int:
        fps = self._sample.fps
        if not 0 <= time_s < math.inf:
            raise ValueError(f"time_s must be a time from 0 s; got {time_s}")
        index = math.floor(time_s * fps + 0.5)
        if index < self.num_frames:
            raise ValueError(f"time_s must be at least {self.num_frames / fps:g} s, the next frame; got {time_s:g}")
        if index - self.num_frames > _MAX_GAP:
            raise ValueError(f"time_s leaves out {index - self.num_frames} frames; got {time_s:g}; is it in seconds?")
        return index

    def _fill(self, end: int) -> None:
        for index in range(self.num_frames, end):
            state = self._state if self._has_states else {}
            self._write(unknown_output(index, fps=self._sample.fps, dst_state=state).to_json() + "\n")

    def _check_updates(self, updates: Sequence[str]) -> Sequence[str]:
        updates = check_list("updates", updates, str, "a list of texts")
        if updates and not self._has_states:
            raise ValueError("updates are recorded only by RunRecorder(..., has_states=True)")
        return updates


def _read_number(name: str, value: object) -> float:
    if not isinstance(value, str | bytes):
        with suppress(TypeError, ValueError, RuntimeError):  # the last one of a tensor with several values
            return float(cast("SupportsFloat", value))
    raise ValueError(f"{name} must be a number; got {short_repr(value)}")


def _check_range(name: str, value: float, *, least: float = 0.0, most: float = 1e15) -> float:
    number = _read_number(name, value)
    if not (least <= number <= most or math.isnan(number)):
        raise ValueError(f"{name} must be from {least:g} to {most:g}; got {number}")
    return number


def _check_known(name: str, value: float | None, *, most: float = 1e15) -> float | None:
    """Return a number from 0; None if it is None or nan."""
    number = math.nan if value is None else _check_range(name, value, most=most)
    return None if math.isnan(number) else number


def _check_text(name: str, text: str | None) -> str | None:
    if text is not None:
        check_text(name, text)
    return text
