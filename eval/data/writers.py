"""Writes samples in the three forms that ``eval.data.loading`` reads, so that they load again unchanged, or not at all.

Every record is read back before a file is written. What a form cannot hold is a ``ValueError`` that says what: the
published forms know neither a turn's ``cause`` nor the video's file, and ProAssist's no state updates and no time but
the start of a frame. ``without`` names what shall be left out knowingly. A published clip is written under its name
here, with its place in its video; a sample that is a whole file is written as the clip of its frames from frame 0.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, get_args

from engine.dialogue import apply_update, initial_state, parse_update
from engine.io import to_json, write_whole
from engine.records import turn_frame
from eval.data.loading import read_published
from eval.data.samples import Sample, Turn, is_inside, turn_order

Form = Literal["manifest", "dst", "proassist"]
Detail = Literal["video_path", "cause", "updates"]
FORMS: tuple[Form, ...] = get_args(Form)
DETAILS: Final[dict[Detail, str]] = {
    "video_path": "the video's file",
    "cause": "what makes a turn hard",
    "updates": "state updates",
}
"""What some form cannot hold and ``without`` leaves out, in words."""
_FIELDS = ("video_id", "video_path", "fps", "num_frames", "goal", "steps", "initial_state")


class UnheldError(ValueError):
    """A form cannot hold something that may be left out."""

    def __init__(self, problem: str, detail: Detail) -> None:
        super().__init__(f"{problem}; name {detail!r} in 'without' to leave it out, or write a manifest")
        self.problem = problem
        """What cannot be held, of which video, without what to do."""
        self.detail: Detail = detail
        """What ``without`` calls it."""


def write_samples(
    path: Path,
    samples: Sequence[Sample],
    *,
    form: Form,
    without: Collection[Detail] = (),
    videos: Mapping[Path, str] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a split, whole or not at all.

    Args:
        path: The file; the manifest names videos below its folder relative to it, others by their absolute path.
        samples: In the order in which they are written.
        form: Our manifest (one object), DST training clips (a list) or ProAssist's dialogues (JSON lines).
        without: What is left out because the form cannot hold it; ``updates`` includes the initial state.
        videos: What the manifest calls each video file instead.
        provenance: Where the samples come from: the manifest's field ``provenance``, which ``eval.data.loading``
            ignores; of another form the file ``<path>.provenance.json``.

    Raises ``ValueError`` naming the video and what the form cannot hold, ``UnheldError`` when it may be left out.
    """
    _check(samples)
    kept = [_without(sample, without) for sample in samples]
    if form == "manifest":
        folder, names = path.resolve().parent, videos or {}
        listed = [_listed(sample, names.get(sample.video_path or path), folder) for sample in kept]
        text = to_json({**({"provenance": provenance} if provenance else {}), "videos": listed}, indent=1)
    else:
        records = [_published(sample, form) for sample in kept]
        lines = ",\n".join(to_json(record) for record in records)
        text = f"[{lines}]" if form == "dst" else "\n".join(to_json(record) for record in records)
    with write_whole(path) as file:
        file.write(text + "\n")
    if provenance and form != "manifest":
        with write_whole(path.with_name(f"{path.name}.provenance.json")) as file:
            file.write(to_json(provenance, indent=1) + "\n")


def _check(samples: Sequence[Sample]) -> None:
    if not samples:
        raise ValueError("a split must hold at least one video")
    for sample in samples:
        for turn in sample.turns:
            if not is_inside(turn.time_s, sample):
                raise ValueError(
                    f"video {sample.video_id}: the turn {turn.text!r} at {turn.time_s:g} s lies outside it"
                )
        if list(sample.turns) != sorted(sample.turns, key=turn_order):
            raise ValueError(f"video {sample.video_id}: its turns must be in order of time")
        if sum(other.video_id == sample.video_id for other in samples) > 1:
            raise ValueError(f"two videos have one video_id, {sample.video_id}; name each differently")


def _without(sample: Sample, without: Collection[Detail]) -> Sample:
    turns = sample.turns
    if "cause" in without:
        turns = tuple(replace(turn, cause=None) for turn in turns)
    if "updates" in without:
        turns = tuple(turn for turn in turns if turn.role != "update")
        sample = replace(sample, initial_state={})
    return replace(sample, turns=turns, video_path=None if "video_path" in without else sample.video_path)


def _listed(sample: Sample, name: str | None, folder: Path) -> dict[str, Any]:
    video_path = None if sample.video_path is None else sample.video_path.resolve()
    if video_path is not None and video_path.is_relative_to(folder):
        video_path = video_path.relative_to(folder)
    video_name = None if video_path is None else name or video_path.as_posix()
    start = {} if sample.start_s is None else {"start_s": sample.start_s}
    return {
        "video_id": sample.video_id,
        "video_path": video_name,
        **start,
        "fps": sample.fps,
        "num_frames": sample.num_frames,
        "goal": sample.goal,
        "steps": [{"id": step.id, "name": step.name} for step in sample.steps],
        "initial_state": dict(sample.initial_state),
        "turns": [
            {"time_s": turn.time_s, "role": turn.role, "text": turn.text}
            | ({} if turn.cause is None else {"cause": turn.cause})
            for turn in sample.turns
        ],
    }


def _published(sample: Sample, form: Form) -> dict[str, Any]:
    """Return a published record that reads as this very sample."""
    _refuse(sample, form, "video_path", is_there=sample.video_path is not None)
    _refuse(sample, form, "cause", is_there=any(turn.cause is not None for turn in sample.turns))
    if form == "proassist":
        has_updates = any(turn.role == "update" for turn in sample.turns)
        _refuse(sample, form, "updates", is_there=has_updates or bool(sample.initial_state))
    record = _dst_clip(sample) if form == "dst" else _dialogue(sample)
    try:
        read = read_published(json.loads(to_json(record)))
    except ValueError as error:
        raise ValueError(f"video {sample.video_id} does not fit the form {form}: {error}") from error
    for name in _FIELDS:
        if getattr(read, name) != getattr(sample, name):
            raise ValueError(
                f"video {sample.video_id}: the form {form} cannot hold its {name} {getattr(sample, name)!r}; it would "
                f"be read as {getattr(read, name)!r}; write a manifest"
            )
    if read.start_s != (sample.start_s or 0.0):
        raise ValueError(
            f"video {sample.video_id}: the form {form} cannot hold its start_s {sample.start_s!r}, which is no "
            f"frame of its file at {sample.fps:g} frames per second; write a manifest"
        )
    for wanted, got in zip(sample.turns, read.turns, strict=True):
        if wanted != got:
            raise ValueError(
                f"video {sample.video_id}: the form {form} cannot hold the {wanted.role} turn {wanted.text!r} at "
                f"{wanted.time_s!r} s; it would be read as {got.text!r} at {got.time_s!r} s; write a manifest"
            )
    return record


def _refuse(sample: Sample, form: Form, detail: Detail, *, is_there: bool) -> None:
    if is_there:
        raise UnheldError(f"video {sample.video_id}: the form {form} cannot hold {DETAILS[detail]}", detail)


def _dst_clip(sample: Sample) -> dict[str, Any]:
    start_s = sample.start_s or 0.0
    updates = [(parse_update(turn.text), start_s + turn.time_s) for turn in sample.turns if turn.role == "update"]
    spans = {(str(update), time_s) for update, time_s in updates}
    return {
        "video_uid": sample.video_id,
        "inferred_goal": sample.goal,
        "fps": sample.fps,
        "start_frame_idx": _start_frame(sample),
        "end_frame_idx": _start_frame(sample) + sample.num_frames,
        "dst": [
            {
                "type": "step",
                "id": step.id,
                "name": step.name,
                "start_ts": min((time_s for text, time_s in spans if text == f"{step.id}->start"), default=None),
                "end_ts": max((time_s for text, time_s in spans if text == f"{step.id}->complete"), default=None),
            }
            for step in sample.steps
        ],
        "initial_dst_state": dict(sample.initial_state),
        "conversation": list(_dst_turns(sample)),
    }


def _dst_turns(sample: Sample) -> Iterator[dict[str, Any]]:
    start_s = sample.start_s or 0.0
    state: Mapping[str, str] = initial_state(sample.steps, sample.initial_state)
    for turn in sample.turns:
        if turn.role != "update":
            yield {"role": turn.role, "content": turn.text, "time": start_s + turn.time_s}
            continue
        update = parse_update(turn.text)
        if update is None:
            raise ValueError(f"video {sample.video_id}: the update {turn.text!r} is not written S3->start")
        change = {"id": update.step_id, "transition": update.transition}
        yield {"role": "DST_UPDATE", "content": [change], "time": start_s + turn.time_s, "dst_state": dict(state)}
        state = apply_update(state, turn.text).state


def _dialogue(sample: Sample) -> dict[str, Any]:
    return {
        "video_uid": sample.video_id,
        "fps": sample.fps,
        "start_frame_idx": _start_frame(sample),
        "end_frame_idx": _start_frame(sample) + sample.num_frames,
        "metadata": {
            "task_goal": sample.goal,
            "knowledge": "\n".join(f"{number}. {step.name}" for number, step in enumerate(sample.steps, start=1)),
        },
        "conversation": list(_dialogue_turns(sample)),
    }


def _dialogue_turns(sample: Sample) -> Iterator[dict[str, Any]]:
    """Yield frames and words: who answers speaks after the image of a frame, a user alone speaks before it."""
    start_s, start = sample.start_s or 0.0, _start_frame(sample)
    seen = start
    for frame, group in groupby(sample.turns, key=lambda turn: start + turn_frame(turn.time_s, sample.fps)):
        turns: list[Turn] = list(group)
        end = frame + any(turn.role == "assistant" for turn in turns)
        if end > seen:
            yield {"role": "frames", "start": seen, "end": end}
            seen = end
        for turn in turns:
            yield {"role": turn.role, "content": turn.text, "time": start_s + turn.time_s}
    if start + sample.num_frames > seen:
        yield {"role": "frames", "start": seen, "end": start + sample.num_frames}


def _start_frame(sample: Sample) -> int:
    return turn_frame(sample.start_s or 0.0, sample.fps)
