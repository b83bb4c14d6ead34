"""References that a user adds to an upload, in any format of ``eval.data.loading``.

A reference applies only to the upload. Video paths in it are not opened.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from stepscope.app.core.videos import Clip
from stepscope.app.formatting import format_clock
from stepscope.engine.io.json_records import short_repr
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.engine.video.track import EPSILON_S
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.folder import explain_no_reference

MAX_BYTES = 20 * 2**20
MAX_RESULT_BYTES = 200 * 2**20
MAX_PARTS = 2**21
"""Maximum number of lists, objects, lines and commas of a file: each takes up to 0.25 kB of memory, and up to 1 us in
which JSON holds Python's lock."""
MAX_TEXTS = 20_000
"""Maximum number of turns of a video's reference, and of messages and updates of a system: scoring compares them."""
MAX_TEXT_CHARS = 2**22
MAX_STATES = 2**21
"""Maximum product of the steps and the updates of a reference: each update makes a new state of all steps."""
MAX_MISSING_S = 1.0
"""If a video is shorter than its reference by more than this many seconds, the page warns of a mismatch."""


def check_size(path: Path, *, limit: int = MAX_BYTES) -> None:
    """Raise ``ValueError`` if a file has more bytes than ``limit``, or more than ``MAX_PARTS``."""
    size, cure = path.stat().st_size, "remove the videos that are not needed"
    if size > limit:
        raise ValueError(f"{path}: has {size / 2**20:.0f} MiB, more than the limit of {limit / 2**20:.0f} MiB; {cure}")
    content = path.read_bytes()
    num_indented = content.count(b"\n ") + content.count(b"\n\t")  # lines inside a value, which has other marks as well
    number = sum(map(content.count, (b"{", b"[", b"\n", b","))) - num_indented + num_indented // 4
    if number > MAX_PARTS:
        raise ValueError(
            f"{path}: has {number} lists, objects, lines and commas, more than the limit of {MAX_PARTS}; {cure}"
        )


def check_outputs(outputs: Iterable[FrameOutput]) -> None:
    """Raise ``ValueError`` if the outputs of a video have too many texts to score, or too long ones."""
    texts = [text for output in outputs for text in (output.response, *output.updates) if text is not None]
    _check_texts("the outputs have", texts)


def check_turns(sample: Sample) -> None:
    """Raise ``ValueError`` if the reference of a video has too many turns to score, too long ones, or too many states.

    Scoring takes about 0.1 ms for a text.
    """
    name = f"the reference of {sample.video_id} has"
    _check_texts(name, [turn.text for turn in sample.turns])
    num_updates = sum(turn.role == "update" for turn in sample.turns)
    if (number := num_updates * len(sample.steps)) > MAX_STATES:
        raise ValueError(f"{name} {number} states of steps, one for each step at each update; at most {MAX_STATES}")


def _check_texts(what: str, texts: Sequence[str]) -> None:
    for number, name, limit in (
        (len(texts), "messages and updates", MAX_TEXTS),
        (sum(map(len, texts)), "characters", MAX_TEXT_CHARS),
    ):
        if number > limit:
            raise ValueError(f"{what} {number} {name}; at most {limit} are scored for a video")


def add_reference(clip: Clip, path: Path) -> tuple[Clip, Sample]:
    """Return an upload with its reference from a file, and the reference with the length that the file states.

    That of the upload ends at most ``MAX_MISSING_S`` after the video, whatever length the file states. The reference is
    the only record of the file, or the record whose ``video_id`` or file name matches the upload.

    Raises ``ValueError`` with the file, record, field and remedy; also for a turn after that end.
    """
    check_size(path)
    sample = _find(read_samples(path), clip, path)
    check_turns(sample)
    if reason := explain_no_reference(sample):
        raise ValueError(f"{path}: the video {sample.video_id} {reason}")
    num_frames = max(1, math.ceil((clip.duration_s - EPSILON_S) * sample.fps))
    clip = replace(clip, fps=sample.fps, num_frames=num_frames)
    max_frames = find_max_frames(clip)
    if late := next((turn for turn in sample.turns if frame_at(turn.time_s, sample.fps) >= max_frames), None):
        raise ValueError(
            f"{path}, video {sample.video_id}: the {late.role} turn {short_repr(late.text)} at "
            f"{format_clock(late.time_s, digits=1)} lies after the end of {clip.name}, which lasts "
            f"{format_clock(clip.duration_s, digits=1)}; upload the video of this reference, or remove the turn"
        )
    own = replace(
        sample,
        video_id=clip.video_id,
        video_path=None,
        num_frames=max(num_frames, min(sample.num_frames, max_frames)),
        start_s=None,  # the reference is about the whole upload
    )
    return replace(clip, sample=own), sample


def find_max_frames(clip: Clip) -> int:
    """Return the frames of a clip, with those of ``MAX_MISSING_S`` after its end: lengths of one video may differ."""
    return clip.num_frames + math.ceil(MAX_MISSING_S * clip.fps)


def digest_reference(clip: Clip) -> str:
    """Return the digest of an upload's reference as 16 hex digits; empty without a reference.

    The digest is also empty for a video of a split, whose reference belongs to the split.
    """
    sample = clip.sample
    if sample is None or not clip.content_digest:
        return ""
    names = ("fps", "num_frames", "goal", "steps", "turns", "initial_state")
    values = asdict(sample)
    content = json.dumps({name: values[name] for name in names}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def describe_reference(clip: Clip, sample: Sample, path: Path, *, replaced: Sequence[str] = ()) -> tuple[str, bool]:
    """Return a message about the reference of an upload, and whether it probably belongs to a different video.

    ``replaced`` are the parts of the typed task that it replaces.
    """
    turns = format_count(len(sample.turns), "reference turn")
    summary = f"{clip.name}, {format_clock(clip.duration_s)}, with {turns} of {path.name}."
    summary += f" It replaces the typed {' and '.join(replaced)}." if replaced else ""
    length_s = sample.num_frames / sample.fps
    if length_s <= clip.duration_s + MAX_MISSING_S:
        return f"{summary} Press Run.", False
    return f"{summary} The reference covers a video of {format_clock(length_s)}. Is this the right file?", True


def _find(samples: Sequence[Sample], clip: Clip, path: Path) -> Sample:
    if len(samples) == 1:
        return samples[0]
    names = {clip.name, Path(clip.name).stem}
    found = [
        sample
        for sample in samples
        if sample.video_id in names or (sample.video_path is not None and sample.video_path.name == clip.name)
    ]
    if len(found) != 1:
        matches = f"{len(found)} are" if found else "none is"
        raise ValueError(
            f"{path}: has {len(samples)} videos, and {matches} called {clip.name}; "
            "rename the upload, or give a file with its reference alone"
        )
    return found[0]
