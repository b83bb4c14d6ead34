"""Serialise a run as JSON for the player's script.

Series are base64-encoded little-endian float64, one value per frame, so that threshold comparisons in the browser agree
exactly with the engine. All metrics come from ``eval``. Dialogue states are bands: a band is the list of changes of one
step: the frame, and the index of the new state in ``STATES``; frame -1 is the state before the video. A step that
starts at frame 2 and is completed at frame 7 has ``[(-1, 0), (2, 1), (7, 2)]``.
"""

import base64
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stepscope.app.core.places import link_params, run_url_params, url_params
from stepscope.app.core.references import digest_reference
from stepscope.app.core.run import Run, write_task
from stepscope.app.core.videos import Clip
from stepscope.app.formatting import STATE_WORDS
from stepscope.app.review_store.events import VideoEvents, failure_keys
from stepscope.app.window.failures import (
    describe_recording,
    find_lost_pairs,
    find_low_texts,
    pack_failure,
    pack_mistakes,
)
from stepscope.app.window.focus import describe_run
from stepscope.app.window.landing import STAYING, Landing
from stepscope.app.window.reasons import pack_evidence, pack_reasons
from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.dialogue import STATES, initial_state
from stepscope.engine.io.files import replace_surrogates, to_json
from stepscope.engine.records import FrameOutput, Step, UpdateLegality, UserTurn, frame_at
from stepscope.eval.data.samples import Sample, Turn, build_task
from stepscope.eval.metrics.dialogue_state import reference_states
from stepscope.eval.metrics.failures import LATE_S
from stepscope.eval.metrics.matched_video import JudgedTurn, JudgedVideo
from stepscope.eval.runs.folder import read_signal_specs
from stepscope.eval.runs.imports.recorded_sound import list_answers

Band = list[tuple[int, int]]
_MAX_REASONING = 2_000_000
"""Characters of reasoning of a whole run."""


def model_bands(
    steps: Sequence[Step], outputs: Sequence[FrameOutput], given: Mapping[str, str] | None = None
) -> list[Band]:
    """Return the model's band of each step; ``given`` are its states before the video."""
    states = [(-1, initial_state(steps, given)), *((output.frame_index, output.dst_state) for output in outputs)]
    return [_band(states, step.id) for step in steps]


def reference_bands(sample: Sample) -> list[Band]:
    """Return the reference's band of each step."""
    states = [(-1, initial_state(sample.steps, sample.initial_state)), *enumerate(reference_states(sample))]
    return [_band(states, step.id) for step in sample.steps]


def expected_frames(sample: Sample) -> dict[str, list[int]]:
    """Return the sorted frames at which the reference speaks and updates."""
    return {
        name: sorted({frame_at(turn.time_s, sample.fps) for turn in sample.turns if turn.role == role})
        for name, role in (("speak", "assistant"), ("update", "update"))
    }


def _band(states: Sequence[tuple[int, Mapping[str, str]]], step_id: str) -> Band:
    band: Band = []
    for frame, state in states:
        number = STATES.index(state.get(step_id, STATES[0]))  # a branch may get other steps later
        if not band or band[-1][1] != number:
            band.append((frame, number))
    return band


Packed = dict[str, Any]
TurnRole = Literal["assistant", "update"]


def pack_run(
    run: Run,
    judged: JudgedVideo | None = None,
    *,
    events: VideoEvents | None = None,
    is_corrected: bool = False,
    landing: Landing = STAYING,
    other: tuple[Run, JudgedVideo | None] | None = None,
    answers: int | None = None,
) -> str:
    """Return a run as JSON for the player.

    Args:
        run: A run with any number of outputs.
        judged: Verdicts and failures; None for a run that still streams or has no reference.
        events: Events to review; None for a run that still streams.
        is_corrected: Whether the reference contains corrections.
        landing: Where the player goes.
        other: A second run of the video with its verdicts, whose lanes are shown below.
        answers: Number of the threshold request that this run answers; None without one.
    """
    keys = failure_keys(judged, events) if judged is not None and events is not None else ()
    packed = _pack(run, judged, other=other[0] if other is not None else None, keys=keys) | {
        "events": _events(events) if events else [],
        "is_corrected": is_corrected,
        "landing": landing.pack(),
        "answers": answers,
        "other": _pack(*other) if other is not None else None,
    }
    return to_json(packed)


def pack_nothing(clip: Clip | None) -> str:
    """Return a video without a run as JSON for the player; an empty string without a video."""
    if clip is None:
        return ""
    task = {} if clip.sample is None else asdict(write_task(build_task(clip.sample)))
    return to_json({"nothing": True, "name": clip.name, "split": clip.split, "place": url_params(clip), "task": task})


def _events(events: VideoEvents) -> list[Packed]:
    """Return the events in order, each with its index among the generated or the reference turns."""
    turns = {event.key: number for number, event in enumerate(events.written)}
    references = {event.key: number for number, event in enumerate(events.references)}
    return [
        {
            "key": event.key,
            "kind": event.kind,
            "role": event.role,
            "time": event.time_s,
            "text": event.text,
            "number": event.number,
            "turn": turns.get(event.key),
            "reference": references.get(event.key),
        }
        for event in events.ordered
    ]


def _pack(run: Run, judged: JudgedVideo | None, *, other: Run | None = None, keys: Sequence[str] = ()) -> Packed:
    sample, outputs = run.reference, run.outputs
    failures = judged.failures if judged else ()
    missed = {failure.reference for failure in failures if failure.turn is None}
    lost = find_lost_pairs(judged, sample, run.scoring.zero_cost) if judged and sample else {}
    reasons, of_failures = pack_reasons(run, failures, keys)
    return {
        "name": run.clip.name,
        "video_id": run.clip.video_id,
        "run": run.digest,
        "model": run.model_digest,
        "run_name": run.name,
        "split": run.clip.split,
        "made_by": describe_run(run.provenance),
        "kept_run": (run.name or run.kept_as) if run.is_finished else "",
        "letter": run.letter,
        **(
            {"branch": {"name": run.branch.name, "changes": run.branch.changes, "root": run.branch.root.digest}}
            if run.branch
            else {}
        ),
        "origin": {"summary": run.provenance.summary, "rows": run.provenance.rows()},
        "link": link_params(run, other),
        "place": run_url_params(run, other),
        "is_finished": run.is_finished,
        "duration_s": max(run.clip.duration_s, run.reached_s),
        "fps": run.config.fps,
        "video_fps": run.clip.video_fps,
        "policy": run.config.policy.pack(),
        "is_untrained": run.is_untrained,
        "refresh_at": run.config.shorten_at,
        "thresholds": run.known_thresholds,
        "task": asdict(run.typed_task or write_task(run.task)),
        "steps": [_pack_step(step, sample) for step in run.task.steps],
        "state_words": list(STATE_WORDS.values()),
        **({"warning": run.warning} if run.warning else {}),
        **({"sounds": sounds} if (sounds := list_answers(run.settings, run.clip.video_id)) else {}),
        **pack_outputs(outputs),
        **({"reasoning": reasoning} if (reasoning := _pack_reasoning(outputs)) else {}),
        "named": _named_signals(run),
        "has_states": run.has_states,
        "has_reference": sample is not None,
        **({"has_other_steps": True} if run.has_other_steps else {}),
        "is_copied": run.clip.sample is not None and run.clip.sample.is_copied,
        "reference_digest": digest_reference(run.clip) if run.clip.content_digest else None,
        "is_judged": judged is not None,
        "judge": run.scoring_settings["judge"],
        "expected_frames": run.clip.num_frames,
        "expected": _expected(sample, len(outputs), is_finished=run.is_finished) if sample else None,
        "tolerance_s": LATE_S,
        "tolerance_frames": int(LATE_S * run.config.fps + 1e-9),
        "turns": _turns(run, judged, {f.turn: f.kind for f in failures if f.turn is not None}, lost),
        "references": _references(run, missed),
        "bands": {
            "model": model_bands(run.task.steps, outputs, run.task.initial_state),
            "reference": reference_bands(sample) if sample else [],
        },
        **({"num_later": judged.num_later} if judged and judged.num_later else {}),
        "failures": [
            pack_failure(failure, judged, sample, run.task, lost=lost) | reason
            for failure, reason in zip(failures, of_failures, strict=True)
        ]
        if judged and sample
        else [],
        "mistakes": pack_mistakes(judged, sample, run, lost=lost) if judged and sample else [],
        **({"intro": describe_recording(run)} if outputs and run.is_finished else {}),
        **reasons,
        **({"evidence": evidence} if (evidence := pack_evidence(run)) else {}),
    }


def _pack_step(step: Step, sample: Sample | None) -> Packed:
    """Return a step, with the steps that must be completed before it if the recipe names any."""
    after = sample.after.get(step.id, ()) if sample is not None else ()
    return {"id": step.id, "name": step.name, **({"after": list(after)} if after else {})}


def _named_signals(run: Run) -> list[Packed]:
    specs = read_signal_specs(run.settings)
    return [
        {
            "key": spec.name,
            "title": spec.title,
            "low": spec.low,
            "high": spec.high,
            "threshold": spec.threshold,
            "decides": spec.decides,
            "missing": spec.missing,
            "policy": spec.rule.pack(),
            "values": values,
        }
        for spec, values in zip(specs, pack_values(specs, run.outputs), strict=True)
    ]


def pack_values(specs: Sequence[SignalSpec], outputs: Sequence[FrameOutput]) -> list[str]:
    """Return the values of each named signal at successive outputs."""
    frames = [output.signals for output in outputs]
    return [_encode(np.array(spec.values(frames), "<f8")) for spec in specs]


def _pack_states(outputs: Sequence[FrameOutput], before: str | None) -> list[tuple[int, str | None]]:
    """Return the changes of the assistant's state as (frame, state)."""
    changes: list[tuple[int, str | None]] = []
    for output in outputs:
        if output.state != (changes[-1][1] if changes else before):
            changes.append((output.frame_index, output.state))
    return changes


def pack_outputs(outputs: Sequence[FrameOutput], *, before: str | None = None) -> Packed:
    """Return the series of successive outputs, where ``before`` is the assistant's state at the frame before.

    The browser appends each list to that of the run: of frames, of records with a ``frame``, or of pieces as (first
    frame, value), which last until the next one.
    """
    return {
        "times": _series(outputs, lambda output: output.time_s),
        "speak": _series(outputs, lambda output: output.speak_prob),
        "update": _series(outputs, lambda output: output.update_prob),
        "cache": _series(outputs, lambda output: output.cache_tokens),
        "latency": _series(outputs, lambda output: output.latency_ms),
        "refreshed": [output.frame_index for output in outputs if output.refreshed],
        "forgotten": [
            {"frame": output.frame_index, **asdict(output.forgotten)} for output in outputs if output.forgotten
        ],
        "assistant_states": _pack_states(outputs, before),
        "decided": {
            "speak": [output.frame_index for output in outputs if output.response is not None],
            "update": [output.frame_index for output in outputs if output.updates],
        },
    }


def _pack_reasoning(outputs: Sequence[FrameOutput]) -> list[Packed]:
    """Return the reasoning at each frame that has one, shortened so that all have a bounded size."""
    found = [(output.frame_index, output.reasoning) for output in outputs if output.reasoning]
    limit = _MAX_REASONING // max(len(found), 1)
    return [{**asdict(part), "frame": frame, "text": replace_surrogates(part.text[:limit])} for frame, part in found]


def _series(outputs: Sequence[FrameOutput], read: Callable[[FrameOutput], float]) -> str:
    return _encode(np.fromiter((read(output) for output in outputs), "<f8", len(outputs)))


def _encode(values: NDArray[np.float64]) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _expected(sample: Sample, num_frames: int, *, is_finished: bool) -> Packed:
    """Return the reference's events up to the last frame; those after the last output are due if none follows."""
    num_frames = max(num_frames, sample.num_frames) if is_finished else num_frames
    return {name: frames[: bisect_left(frames, num_frames)] for name, frames in expected_frames(sample).items()}


def _turns(run: Run, judged: JudgedVideo | None, failures: Mapping[int, str], lost: Collection[int]) -> list[Packed]:
    if judged is None:
        return _link_copies(pack_turns(run.outputs), run)
    low = find_low_texts(judged)
    unused = {output.frame_index: iter(output.legality or ()) for output in run.outputs if output.updates}
    return [
        _turn(
            turn,
            legality=next(unused[turn.frame_index]) if turn.role == "update" else "legal",
            verdict=turn.outcome,
            failure=failures.get(number),
        )
        | ({"is_low": True} if number in low else {})
        | ({"is_lost": True} if number in lost else {})
        for number, turn in enumerate(judged.turns)
    ]


def _link_copies(turns: list[Packed], run: Run) -> list[Packed]:
    """Return the turns of a run, each with the index of its copy among the turns to correct, if these are copies."""
    sample = run.clip.sample
    if sample is None or not sample.is_copied:
        return turns
    copies: dict[tuple[str, int, str], list[int]] = {}
    for number, copy in reversed(list(enumerate(sample.turns))):
        copies.setdefault((copy.role, frame_at(copy.time_s, run.config.fps), copy.text), []).append(number)
    for turn in turns:
        if numbers := copies.get((turn["role"], turn["frame"], turn["text"])):
            turn["link"] = numbers.pop()
    return turns


def pack_turns(outputs: Iterable[FrameOutput]) -> list[Packed]:
    """Return the unscored turns of outputs."""
    return [
        _turn(
            JudgedTurn(role=role, frame_index=output.frame_index, text=text, outcome="matched"),
            legality=legality,
            verdict=None,
        )
        for output in outputs
        for role, text, legality in _output_turns(output)
    ]


def _output_turns(output: FrameOutput) -> Iterator[tuple[TurnRole, str, UpdateLegality]]:
    for text, legality in zip(output.updates, output.legality or (), strict=True):
        yield "update", text, legality
    if output.response:
        yield "assistant", output.response, "legal"


def _turn(turn: JudgedTurn, *, legality: UpdateLegality, verdict: str | None, failure: str | None = None) -> Packed:
    return {
        "role": turn.role,
        "frame": turn.frame_index,
        "text": turn.text,
        "verdict": verdict,
        "failure": failure,
        "legality": legality,
        "link": turn.reference,
        "delay": turn.delay_s,
        "score": turn.semantic_score,
        "cost": turn.cost,
        **({} if turn.grade is None else {"grade": turn.grade}),
    }


def _references(run: Run, missed: set[int | None]) -> list[Packed]:
    """Return the reference turns in the order of the sample, followed by user turns that were added on the page.

    ``is_given`` is whether the run had the user turn: on the page, one of the reference can be deleted or changed.
    """
    sample, given = run.clip.sample, run.task.all_user_turns
    turns, known = ((), ()) if sample is None else (sample.turns, sample.user_turns)
    of_reference = [
        {
            **_reference(turn.role, turn, fps=run.config.fps),
            "is_missed": number in missed,
            "is_given": turn.role == "user" and UserTurn(time_s=turn.time_s, text=turn.text) in given,
        }
        for number, turn in enumerate(turns)
    ]
    added = [turn for turn in given if turn not in known]
    return of_reference + [{**_reference("user", turn, fps=run.config.fps), "is_given": True} for turn in added]


def _reference(role: str, turn: Turn | UserTurn, *, fps: float) -> Packed:
    span = {"span_end": turn.end_s} if isinstance(turn, Turn) and turn.end_s is not None else {}
    return {"role": role, "time": turn.time_s, "frame": frame_at(turn.time_s, fps), "text": turn.text, **span}
