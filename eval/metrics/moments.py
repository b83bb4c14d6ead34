"""The moments of a video: every turn, failure and near miss, for the search in a run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, get_args

import numpy as np

from stepscope.engine.config import StreamConfig
from stepscope.engine.decisions.policies import Signal
from stepscope.engine.dialogue import parse_update
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.metrics.matched_video import Failure, JudgedVideo

NEAR: Final = 0.1
"""Greatest distance of a probability below its threshold at a near miss."""
_SIGNALS: Final[dict[str, Signal]] = {"message": "speak", "update": "update"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoMoment:
    """A moment of one video, a row of ``moments.csv``."""

    video_id: str
    time_s: float
    """Time of the frame of the prediction, or of the reference if there is none."""
    what: str
    """``message``, ``update``, ``state`` (wrong for some frames), ``user`` (a turn of the user), or ``near message`` or
    ``near update``: the peak of a signal that stayed at most ``NEAR`` below its threshold."""
    failure: str = ""
    """Kind of the failure, as in ``eval.metrics.failures``; empty if it is none."""
    mistake: str = ""
    """Its mistake: the time of the first failure, and sentences that all failures of the mistake have."""
    text: str = ""
    """What the model wrote, or the user said."""
    reference: str = ""
    step: str = ""
    """Ids of the steps of an update or a wrong state, else of those in progress, with blanks between."""
    cause: str = ""
    delay_s: float = math.nan
    """Time after the reference; negative is early."""
    probability: float = math.nan
    margin: float = math.nan
    """That probability minus its threshold; nan where the rule compares something else."""
    latency_ms: float = math.nan


def list_moments(
    sample: Sample,
    outputs: Sequence[FrameOutput],
    judged: JudgedVideo,
    *,
    config: StreamConfig | None,
    mistakes: Mapping[int, str],
) -> tuple[VideoMoment, ...]:
    """Return the moments of a video, by time.

    ``config`` are the settings of its run, None if they are unknown; ``mistakes`` those of the failures by position.
    """
    thresholds: dict[Signal, float] = {}
    if config is not None and config.policy.kind.has_values:
        thresholds = {signal: config.threshold(signal) for signal in get_args(Signal) if config.policy.decides(signal)}
    found = [*_turns(sample, outputs, judged, thresholds, mistakes)]
    for turn in sample.turns:
        if turn.role == "user":
            found.append(VideoMoment(video_id=sample.video_id, time_s=turn.time_s, what="user", text=turn.text))
    for what, signal in _SIGNALS.items():
        if signal in thresholds:
            found += _near_misses(sample, outputs, what, thresholds[signal])
    return tuple(sorted(found, key=lambda moment: moment.time_s))


def _turns(
    sample: Sample,
    outputs: Sequence[FrameOutput],
    judged: JudgedVideo,
    thresholds: dict[Signal, float],
    mistakes: Mapping[int, str],
) -> Iterator[VideoMoment]:
    """Yield the turns of the model, and the failures without one."""
    places = {failure.turn: place for place, failure in enumerate(judged.failures) if failure.turn is not None}
    alone = [(None, place) for place, failure in enumerate(judged.failures) if failure.turn is None]
    for number, place in [*((number, places.get(number)) for number in range(len(judged.turns))), *alone]:
        turn = None if number is None else judged.turns[number]
        failure = None if place is None else judged.failures[place]
        at = turn if turn is not None else failure
        assert at is not None
        reference = None if at.reference is None else sample.turns[at.reference]
        what = "state" if turn is None and reference is None else _role(turn.role if turn else reference)
        output = outputs[at.frame_index] if at.frame_index < len(outputs) else None
        prob = math.nan
        if output is not None and what in _SIGNALS:
            prob = output.speak_prob if what == "message" else output.update_prob
        yield VideoMoment(
            video_id=sample.video_id,
            time_s=output.time_s if output is not None else at.frame_index / sample.fps,
            what=what,
            failure=failure.kind if failure is not None else "",
            mistake="" if place is None else mistakes.get(place, ""),
            text=turn.text if turn is not None else "",
            reference=reference.text if reference is not None else "",
            step=_steps(output, turn.text if turn else "", reference, failure),
            cause=(reference.cause or "") if reference is not None else "",
            delay_s=math.nan if turn is None or turn.delay_s is None else turn.delay_s,
            probability=prob,
            margin=prob - thresholds.get(_SIGNALS.get(what, "speak"), math.nan),
            latency_ms=output.latency_ms if output is not None and turn is not None else math.nan,
        )


def _role(turn: Turn | str | None) -> str:
    role = turn.role if isinstance(turn, Turn) else turn
    return "update" if role == "update" else "message"


def _steps(output: FrameOutput | None, text: str, reference: Turn | None, failure: Failure | None) -> str:
    if failure is not None and failure.step_ids:
        return " ".join(failure.step_ids)
    texts = [text, reference.text if reference is not None else ""]
    named = [update.step_id for update in map(parse_update, texts) if update is not None]
    if named:
        return " ".join(dict.fromkeys(named))
    state = output.dst_state if output is not None else {}
    return " ".join(step for step, value in state.items() if value == "in_progress")


def _near_misses(sample: Sample, outputs: Sequence[FrameOutput], what: str, threshold: float) -> Iterator[VideoMoment]:
    """Yield the peak of each stretch of frames just below the threshold, unless it leads to or from a trigger."""
    probs = np.array([output.speak_prob if what == "message" else output.update_prob for output in outputs], float)
    margins = probs - threshold
    level = np.where(margins >= 0, 2, np.where(margins >= -NEAR, 1, 0))
    start = 0
    for value, stretch in groupby(level.tolist()):
        end = start + len(list(stretch))
        beside = level[max(start - 1, 0) : end + 1]
        if value == 1 and not (beside == 2).any():
            peak = start + int(np.argmax(margins[start:end]))
            output = outputs[peak]
            yield VideoMoment(
                video_id=sample.video_id,
                time_s=output.time_s,
                what=f"near {what}",
                step=_steps(output, "", None, None),
                probability=float(probs[peak]),
                margin=float(margins[peak]),
                latency_ms=output.latency_ms,
            )
        start = end
