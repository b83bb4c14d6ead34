"""The moments of a run for the tools: mistakes in words, the events to judge, and the actions of one judgement."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from uuid import uuid4

from stepscope.app.core.run import Run
from stepscope.app.review_store.actions import Action, ActionKind, Event, check_verdict
from stepscope.app.review_store.events import find_moment_event, reference_event
from stepscope.app.review_store.review import Review
from stepscope.app.window.reasons import pack_reasons
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.data.vocabulary import CAUSE_PREFIX, read_vocabulary
from stepscope.eval.metrics.dialogue_state import reference_states
from stepscope.eval.metrics.matched_video import Failure


class Mistake(NamedTuple):
    """The failures of one moment."""

    video_id: str
    time_s: float
    sentence: str
    cause: str
    origin: str
    """``root``, or ``consequence`` if all are; empty without a diagnosis."""


def list_mistakes(rows: Any) -> Iterator[Mistake]:
    """Yield the mistakes among rows of ``moments.csv``, in their order."""
    for (video_id, time_s), group in groupby(rows, key=lambda row: (str(row.video_id), float(row.time_s))):
        if own := [row for row in group if row.failure]:
            origins, causes = {row.origin for row in own}, dict.fromkeys(row.cause for row in own if row.cause)
            origin = "root" if "root" in origins else next(iter(origins))
            yield Mistake(video_id, time_s, "; ".join(map(describe_failure, own)), ", ".join(causes), origin)


def describe_failure(row: Any) -> str:
    """Return the sentence of a failure, a row of ``moments.csv``."""
    said, expected = f"“{row.text}”", f"“{row.reference}”"
    match row.failure:
        case "missed":
            return f"silent, not {expected}"
        case "redundant":
            return f"{said}, not silent"
        case "early or late":
            return f"{said} {abs(row.delay_s):g} s {'early' if row.delay_s < 0 else 'late'}"
        case "missed update":
            return f"no {expected}"
        case "wrong state":
            return f"wrong state of {row.step.replace(' ', ', ')}"
        case "repeats itself":
            return f"{said} again"
        case _:
            return f"{said}, not {expected}" if row.reference else f"{said}, with no reference near"


def list_events(sample: Sample, rows: Any) -> dict[str, Event]:
    """Return the events of a video by key: those of rows of ``moments.csv``, then the turns of its reference."""
    found = [event for row in rows if (event := find_moment_event(sample, row)) is not None]
    found += [reference_event(sample.video_id, name) for name in name_turns(sample.turns)]
    return {event.key: event for event in found}


def describe_event(sample: Sample, row: Any, review: Review) -> dict[str, Any]:
    """Return a row of ``moments.csv`` with the key of its event and the verdicts on it."""
    event = find_moment_event(sample, row)
    key = None if event is None else event.key
    said = [one for found in review.events if found.event.key == key for one in found.opinions if one.verdict]
    mistake = describe_failure(row) if row.failure else ""
    verdicts = [f"{one.reviewer}: {one.verdict}" for one in said]
    return {
        "event": key,
        "time_s": row.time_s,
        "is": row.what,
        "text": row.text,
        "mistake": mistake,
        "verdicts": verdicts,
    }


def compare_states(sample: Sample, output: FrameOutput) -> list[str]:
    """Return the state of each step, with that of the reference where it differs."""
    own = output.dst_state
    expected = reference_states(sample)[output.frame_index] if sample.has_reference else own
    ids = [step.id for step in sample.steps]
    return [f"{id}: {own[id]}" + (f", reference {expected[id]}" if expected[id] != own[id] else "") for id in ids]


def list_tags(split: Split) -> list[str]:
    """Return the tags and causes of the vocabulary of a split."""
    found = read_vocabulary(split.path)
    return [*found.tags, *(f"{CAUSE_PREFIX}{name}" for name in found.causes)]


def list_reasons(run: Run) -> tuple[list[dict[str, Any]], str]:
    """Return why each failure of a run happened, from its diagnosis, or why that is not known."""
    video, fps = (run.kept.video if run.kept is not None and run.is_kept else None), run.config.fps
    known = [] if video is None else [(one.kind, frame_at(one.time_s, fps)) for one in video.failures]
    failures = [Failure(kind=kind, frame_index=frame, end_frame=frame + 1) for kind, frame in known]
    packed, places = pack_reasons(run, failures or [Failure(kind="missed", frame_index=0, end_frame=1)])
    if not failures or "why_not" in packed:
        return [], str(packed.get("why_not", "The run has no failure here.")) if video is None or failures else ""
    found = []
    for failure, place in zip(failures, places, strict=True):
        root, is_root = packed["roots"][place["root"]], not place["is_consequence"]
        why = root["words" if is_root else "of_consequence"]
        times = {"time_s": failure.frame_index / fps, "root_s": root["frame"] / fps}
        found.append({"kind": failure.kind, "is_root": is_root, **times, "class": root["cause"], "why": why})
    return found, ""


def make_judgement(
    event: Event,
    *,
    reviewer: str,
    verdict: Any,
    confidence: float | None,
    tags: Sequence[str],
    note: str,
    write: str = "",
) -> list[Action]:
    """Return the actions of one write: a verdict, and tags and a note if there are any.

    Their ids begin with that of the write, which is a new one by default. Raises ``ValueError`` for a verdict that does
    not fit the event.
    """
    write = write or uuid4().hex[:16]

    def act(kind: ActionKind, **fields: Any) -> Action:
        named = {"reviewer": reviewer, "video_id": event.video_id, "action_id": f"{write}-{kind}"}
        return Action(kind=kind, event=event, **named, **fields)

    actions = [act("verdict", verdict=verdict, confidence=confidence)]
    actions += [act("tags", tags=tuple(tags))] if tags else []
    actions += [act("note", note=note)] if note else []
    check_verdict(actions[0])
    return actions


def find_write(action: Action) -> str:
    """Return the id of the write of an action of ``make_judgement``."""
    return action.action_id.rpartition("-")[0]
