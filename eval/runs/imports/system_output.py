"""The record of a system's results in one video, and the helpers of the readers."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from stepscope.engine.decisions.signals import SignalPolicy, SignalSpec
from stepscope.engine.io.files import strip_text
from stepscope.engine.plurals import format_count
from stepscope.engine.records import frame_at
from stepscope.eval.data.json_fields import Fields, check_text
from stepscope.eval.data.samples import InvalidSample, Sample, Split

_ROUNDING_S = 0.0005
"""Programs round times to milliseconds."""
_POLL_S = 1.0
"""Seconds between two entries of most programs: the last one may be up to a poll after the end of the video."""
NO_TEXT: Final = "[text not recorded]"
"""The message of a reply whose text the file does not hold."""
Value = TypeVar("Value")


@dataclass(slots=True, kw_only=True)
class SystemOutput:
    """The results of a system in one video, by frame index; the reader of a form fills it."""

    texts: dict[int, str] = field(default_factory=dict)
    costs_s: dict[int, float] = field(default_factory=dict)
    signals: dict[int, dict[str, float]] = field(default_factory=dict)
    """Further values by frame and name."""
    states: dict[int, str] = field(default_factory=dict)
    cache_tokens: dict[int, int] = field(default_factory=dict)
    audio: list[Mapping[str, float | str]] = field(default_factory=list)
    """Files of sound that the file names: ``time_s``, ``from`` (user or assistant) and ``path``, as it is written."""
    num_entries: int = 0
    """Entries of the file, if it has one for each frame, also for silent ones."""
    at_least: int = 0
    """Frames that it has at least: all of the sample in a form that does not name its last frame."""
    warning: str = ""
    """About replies after the end of the video, without a text, or without a time; empty if there are none."""

    @property
    def num_named(self) -> int:
        """The number of frames up to the last entry."""
        return max((frame for part in self._parts for frame in part), default=-1) + 1

    @property
    def num_frames(self) -> int:
        """The number of frames."""
        return max(self.at_least, self.num_named)

    @property
    def num_without_entry(self) -> int:
        """The number of frames without an entry in the file."""
        return self.num_frames - max(self.num_entries, *map(len, self._parts))

    @property
    def _parts(self) -> tuple[Mapping[int, object], ...]:
        return self.texts, self.costs_s, self.signals, self.states

    def end_with(self, sample: Sample) -> "SystemOutput":
        """Move replies after the last frame of a sample to it, with their values; return the output.

        The values of a silent entry after it are of no frame, unless the last one has none.
        """
        last = sample.num_frames - 1
        late = {frame: self.texts.pop(frame) for frame in sorted(self.texts) if frame > last}
        parts: tuple[dict[int, Any], ...] = (self.costs_s, self.signals, self.states, self.cache_tokens)
        for part in parts:
            for frame in sorted(frame for frame in part if frame > last):
                value = part.pop(frame)
                if frame in late or last not in part:
                    part[last] = value
        for text in late.values():
            self.add_text(last, text)
        self.at_least = min(self.at_least, sample.num_frames)
        if late:
            replies = format_count(len(late), "reply at or after the end counts", "replies at or after the end count")
            self.warn(f"{replies} at the last frame")
        return self

    def hold_within_seconds(self, sample: Sample) -> "SystemOutput":
        """Let the values of a form with one entry per second hold for all frames of their second; return the output."""
        self.states = _hold(self.states, sample)
        self.cache_tokens = _hold(self.cache_tokens, sample)
        self.signals = _hold(self.signals, sample)
        return self

    def add_reply(self, fields: Fields, name: str, text: str, sample: Sample, *, poll_s: float = _POLL_S) -> None:
        """Add a reply at a field's time in seconds, as ``place_entry``; a silent one may be at any time."""
        time_s = fields.read_number(name, minimum=0)
        if strip_text(text):
            self.add_text(place_entry(fields, name, time_s, sample, poll_s=poll_s), text)

    def warn(self, warning: str) -> None:
        """Add a warning."""
        self.warning = "; ".join(filter(None, (self.warning, warning)))

    def add_text(self, frame: int, text: str) -> None:
        """Add a message at a frame; several messages at one frame are joined with a space."""
        if text := strip_text(text):
            self.texts[frame] = f"{self.texts[frame]} {text}" if frame in self.texts else text
            check_text("a message", self.texts[frame])


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One record of a result file."""

    path: Path
    fields: Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultForm:
    """A form of result files."""

    name: str
    missing: str = "probabilities, states of the steps, latencies, cache lengths"
    """Values that files of this form do not hold."""
    matches: Callable[[Fields], bool]
    find_sample: Callable[[Result, Split], Sample]
    """Returns the sample of a record; raises ``OtherVideoError`` for one that names another video."""
    read: Callable[[Fields, Sample], SystemOutput]
    deciding: tuple[str, ...] = ()
    """Names of the signals that its messages are decided from."""


class OtherVideoError(ValueError):
    """A record names a video that is not the only one that fits."""

    def __init__(self, names: Sequence[str], reason: str) -> None:
        self.name = " or ".join(names)
        """The name in the record, or its names."""
        self.names = tuple(names)
        super().__init__(f"is of the video {self.name}, {reason}")


def file_name(path: str) -> str:
    r"""Return the name of a file from its path on any system: ``kettle.mp4`` of ``C:\videos\kettle.mp4``."""
    return re.split(r"[/\\]", path)[-1]


def find_by_names(names: Iterable[str], split: Split) -> Sample:
    """Return the sample with one of these ids, or with a video file of one of these names, in order of preference.

    Raises ``OtherVideoError`` if not exactly one sample fits.
    """
    names = tuple(names)
    for name in names:
        stem = PurePosixPath(file_name(name)).stem
        for attribute, wanted in (("name", name), ("stem", stem)):
            if fits := [sample for sample in split.samples if sample.video_id == wanted]:
                return check_fit(fits, names, split)
            if fits := [one for one in split.samples if getattr(one.video_path, attribute, None) == wanted]:
                return check_fit(fits, names, split)
    return check_fit([], names, split)


def read_names(fields: Fields, *names: str) -> list[str]:
    """Return the ids and files of a video that a record has under these names. Raises ``ValueError`` without any."""
    found = [fields.record.get(name) for name in names]
    texts = [str(one) for one in found if isinstance(one, str | int) and not isinstance(one, bool) and str(one).strip()]
    if not texts:
        raise fields.error(names[0], "must be the name of a video")
    return texts


def find_by(*fields: str, is_path: bool = False) -> Callable[[Result, Split], Sample]:
    """Return a function that finds the sample of a record by the values of some fields, or by the files they name."""

    def find(result: Result, split: Split) -> Sample:
        names = read_names(result.fields, *fields)
        return find_by_names(map(file_name, names) if is_path else names, split)

    return find


def find_by_file(names: Sequence[str], split: Split) -> Sample:
    """Return the sample of a file whose records name no video: by the names of the file, or the only one of a split.

    Raises ``OtherVideoError`` if the split has several videos, and none has one of these names.
    """
    return split.samples[0] if len(split.entries) == len(split.samples) == 1 else find_by_names(names, split)


def check_fit(fits: list[Sample], names: Sequence[str], split: Split) -> Sample:
    """Return the only sample that fits a video's names. Raises ``OtherVideoError`` for none or several."""
    ids = {name for given in names for name in (given, PurePosixPath(file_name(given)).stem)}
    invalid = [entry for entry in split.entries if isinstance(entry, InvalidSample) and entry.video_id in ids]
    if invalid and not fits:
        raise OtherVideoError(names, f"whose reference is invalid: {invalid[0].reason}")
    if len(fits) != 1:
        raise OtherVideoError(names, f"which fits {len(fits)} videos of {split.path}; choose the split of that video")
    return fits[0]


def read_frame(fields: Fields, name: str, sample: Sample) -> int:
    """Return the frame of a field's time in seconds, as ``place_entry``."""
    return place_entry(fields, name, fields.read_number(name, minimum=0), sample)


def place_entry(fields: Fields, name: str, time_s: float, sample: Sample, *, poll_s: float = _POLL_S) -> int:
    """Return the frame of an entry's time; up to a poll after the end, one that ``SystemOutput.end_with`` moves.

    Raises ``ValueError`` for a later time: it is of another video, or not in seconds.
    """
    end_s = sample.num_frames / sample.fps
    if time_s > end_s + max(poll_s, _POLL_S) + _ROUNDING_S:
        place = f"{fields.path_prefix}{name} is at {time_s:.10g} s, but the video ends by {end_s:g} s"
        raise ValueError(f"{place}; give the results of this video, in seconds")
    nearest = round(time_s * sample.fps)  # 0.333 s at 3 frames per second is frame 1
    is_rounded = abs(nearest / sample.fps - time_s) <= _ROUNDING_S + 1e-9
    return nearest if is_rounded else frame_at(time_s, sample.fps)


def end_frame(time_s: float, sample: Sample) -> int:
    """Return the first frame after an interval that ends at a time, at most the number of frames of the sample."""
    return min(math.ceil(time_s * sample.fps - _ROUNDING_S), sample.num_frames)


def check_new_frame(fields: Fields, name: str, frame: int, seen: Mapping[int, object], sample: Sample) -> None:
    """Raise ``ValueError`` if an earlier entry has this frame; the last frame may have one more, for its end."""
    if frame in seen and frame < sample.num_frames - 1:
        raise fields.error(
            name, f"must be in a frame of its own, at {sample.fps:g} frames per second; use a split of the file's rate"
        )


def _hold(values: Mapping[int, Value], sample: Sample) -> dict[int, Value]:
    """Return values by frame, each held for all frames of its second.

    At 2 frames per second, ``{0: "silent", 2: "standby"}`` becomes frames 0 and 1 ``silent``, 2 and 3 ``standby``.
    """
    held: dict[int, Value] = {}
    for frame, value in values.items():
        end = min(sample.num_frames, frame + math.ceil(sample.fps))
        held |= {frame: value, **{other: value for other in range(frame + 1, end) if other not in values}}
    return held


def read_optional(fields: Fields, name: str) -> float:
    """Return a number; nan if the field is absent or null."""
    return fields.read_number(name) if fields.has(name) else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRule:
    """The rule by which a signal decides to speak. Raises ``ValueError`` for a threshold that is not finite."""

    threshold: float
    """In the units of the signal, or of its sum or fall."""
    policy: SignalPolicy = "above"
    """How values become decisions; engine/decisions/policies.toml describes the choices."""
    signal: str = ""
    """Name of the signal; empty for the only one that decides."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold):
            raise ValueError(f"the threshold must be a finite number; got {self.threshold:g}")


def describe_signals(
    systems: Sequence[tuple[SystemOutput, ResultForm]], rule: SignalRule | None = None
) -> list[SignalSpec]:
    """Return the signals of results, each with the range of its values, at least from 0 to 1.

    Those that a form decides from have no threshold, unless a rule gives one. With a rule, its signal alone decides.
    Raises ``ValueError`` if the results do not have that signal.
    """
    specs: dict[str, SignalSpec] = {}
    for system_output, form in systems:
        for values in system_output.signals.values():
            for name, value in values.items():
                spec = specs.setdefault(name, SignalSpec(name=name, decides="speak" if name in form.deciding else None))
                if not math.isnan(value) and not spec.low <= value <= spec.high:
                    specs[name] = replace(spec, low=min(spec.low, value), high=max(spec.high, value))
    return list(specs.values()) if rule is None else _apply(rule, specs)


def _apply(rule: SignalRule, specs: Mapping[str, SignalSpec]) -> list[SignalSpec]:
    if not specs:
        raise ValueError("the results hold no signals, so that no rule decides; import them without one")
    deciding = [name for name, spec in specs.items() if spec.decides is not None]
    if not rule.signal and len(deciding) != 1:
        raise ValueError(f"the rule names no signal; choose one of {', '.join(deciding or specs)}")
    chosen = rule.signal or deciding[0]
    if chosen not in specs:
        raise ValueError(f"the results hold no signal {chosen!r}; choose one of {', '.join(specs)}")
    return [
        replace(spec, decides="speak", policy=rule.policy, threshold=rule.threshold)
        if name == chosen
        else replace(spec, decides=None)
        for name, spec in specs.items()
    ]
