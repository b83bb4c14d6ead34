"""The moments of a run for the tools: mistakes in words, the events to judge, and the actions of one judgement."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import pandas as pd

from stepscope.app.core.run import Run
from stepscope.app.review_store.actions import PARTS, Action, Event, check_verdict
from stepscope.app.review_store.events import find_moment_event, reference_event
from stepscope.app.review_store.review import Review
from stepscope.app.window.reasons import pack_reasons
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.data.vocabulary import CAUSE_PREFIX, read_vocabulary
from stepscope.eval.metrics.dialogue_state import reference_states
from stepscope.eval.metrics.matched_video import Failure, FailureKind


class Moment(NamedTuple):
    """A moment of a saved run, to a tenth of a second."""

    run: str
    video_id: str
    time_s: float

    @classmethod
    def at(cls, run: str, video_id: str, time_s: float) -> Self:
        """Return the moment at a time in seconds."""
        return cls(run, video_id, round(time_s, 1))


def list_mistakes(table: pd.DataFrame) -> Iterator[tuple[str, list[Any]]]:
    """Yield the video of each mistake in a table of moments, and its time, sentence, causes, and root or consequence.

    The time is that of its first failure in the table.
    """
    failures = table[table["failure"] != ""]
    for (video_id, numbered), own in failures.groupby(["video_id", "mistake"], sort=False):
        causes, origins = own["cause"].unique(), own["origin"]
        origin = "root" if (origins == "root").any() else origins.iloc[0]
        about = filter(None, (", ".join(filter(None, causes)), origin))
        yield str(video_id), [float(own["time_s"].iloc[0]), str(numbered).partition(" ")[2], *about]


def list_events(sample: Sample, table: pd.DataFrame) -> dict[str, Event]:
    """Return the events of a video by key: those of its table of moments, then the turns of its reference."""
    found = [event for row in table.itertuples() if (event := find_moment_event(sample, row)) is not None]
    found += [reference_event(sample.video_id, name) for name in name_turns(sample.turns)]
    return {event.key: event for event in found}


def describe_event(sample: Sample, row: Any, review: Review) -> dict[str, Any]:
    """Return a row of a table of moments with the key of its event and the verdicts on it."""
    event = find_moment_event(sample, row)
    key = None if event is None else event.key
    opinions = [one for found in review.events if found.event.key == key for one in found.opinions if one.verdict]
    described = {"event": key, "time_s": row.time_s, "is": row.what, "text": row.text, "failure": row.failure}
    return {**described, "verdicts": [f"{one.reviewer}: {one.verdict}" for one in opinions]}


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
    """Return why each failure of a run happened, from its diagnosis; or none, and why that is not known."""
    video, fps = (run.kept.video if run.kept is not None and run.is_kept else None), run.config.fps
    known: list[tuple[FailureKind, int]] = [("missed", 0)]  # without a diagnosis any failure has the reason why not
    if video is not None:
        known = [(one.kind, frame_at(one.time_s, fps)) for one in video.failures]
    packed, places = pack_reasons(run, [Failure(kind=kind, frame_index=at, end_frame=at + 1) for kind, at in known])
    found = []
    for (kind, frame), place in zip(known, places, strict=True) if "roots" in packed else ():
        root, is_root = packed["roots"][place["root"]], not place["is_consequence"]
        of_root = {"root_s": root["frame"] / fps, "class": root["cause"]}
        why = root["words" if is_root else "of_consequence"]
        found.append({"time_s": frame / fps, "kind": kind, "is_root": is_root, **of_root, "why": why})
    return found, str(packed.get("why_not", ""))


def make_judgement(event: Event, *, reviewer: str, write: str, **parts: Any) -> list[Action]:
    """Return the actions of one write: ``parts`` has a verdict with its confidence, tags, a correction or a note.

    Their ids begin with that of the write. Raises ``ValueError`` for a verdict that does not fit.
    """
    of_all: dict[str, Any] = {"reviewer": reviewer, "video_id": event.video_id, "event": event}
    confidence = {"verdict": parts.pop("confidence", None)}
    actions = [
        Action(kind=kind, action_id=f"{write}-{kind}", confidence=confidence.get(kind), **of_all, **{kind: parts[kind]})
        for kind in (*PARTS, "correction")
        if parts.get(kind)
    ]
    check_verdict(actions[0])
    return actions
