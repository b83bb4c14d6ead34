"""Summary of the reviews of one split: progress per reviewer, agreement, and events to settle.

Events are the turns of the source reference, the texts of the run if one is chosen, and all further events with a
verdict, such as texts of different runs or times with a wrong state. So every counted verdict is on a counted event.
Texts and names are untrusted: they are shown in cells of type ``str`` only.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stepscope.app.exports.folder import correct_samples, read_known_outputs
from stepscope.app.formatting import format_wishes
from stepscope.app.review_store.actions import Event, is_program
from stepscope.app.review_store.events import match_events, name_events, reference_event
from stepscope.app.review_store.review import (
    EventReview,
    Review,
    count_once,
    describe_calibration,
    measure_programs,
    review_agreement,
    review_disagreements,
)
from stepscope.app.templates import render, render_note
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.records import FrameOutput
from stepscope.eval.annotations.corrected_samples import CorrectedSample
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.matched_video import JudgedVideo
from stepscope.eval.runs.folder import RunFolder

UNDEFINED: Final = "\N{EN DASH}"
VIDEO_HEADERS: Final = ["Video", "Events", "Judged by", "Verdicts", "Corrections", "Conflicts"]
COLUMN_HELP: Final = (
    "Events: turns of the reference, texts of the chosen run, and all further events with a verdict; a matched pair "
    "counts once. Judged by: number of events with the reviewer's verdict, for a pair on both sides. "
    "Verdicts: those of all reviewers, by kind; a verdict on a pair counts once. "
    "Corrections: turns that were changed, added or deleted. "
    "Conflicts: contradicting corrections, which are not applied."
)
SETTLE_HEADERS: Final = ["Video", "Second", "To settle", "Of", "Text", "Opinions"]
AGREEMENT_HELP: Final = {
    "verdict": "The first row compares all verdicts; each further row compares one verdict with all the rest.",
    "events": "Events that at least two reviewers judged.",
    "raw": "Share of equal verdicts among all pairs of verdicts on one event, from 0 to 1. "
    f"Undefined ({UNDEFINED}) without pairs.",
    "kappa": "Cohen's kappa, at most 1: agreement beyond chance; with more than two reviewers, the mean over their "
    "pairs. "
    f"Undefined ({UNDEFINED}) if all verdicts are equal, so that chance explains all agreement.",
    "alpha": "Krippendorff's alpha, at most 1: agreement beyond chance of any number of reviewers; 0 is chance. "
    f"Undefined ({UNDEFINED}) if kappa is.",
}
_KINDS: Final = {"generated": "response", "update": "update", "reference": "reference", "state": "wrong state"}

Cells = list[list[str | float]]
Judge = Callable[[Sample, Sequence[FrameOutput]], JudgedVideo]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReview:
    """The reviews of the videos of a split."""

    events: Mapping[str, tuple[Event, ...]]
    """Events of the references and the run, then extra events with a verdict, by video in the order of the split."""
    pairs: Mapping[str, str]
    """Matched pairs of the run: key of the run's event to key of the reference turn. A pair counts as one event."""
    num_extra: int
    """Number of judged events that are neither in the references nor in the run."""
    review: Review
    corrected: tuple[CorrectedSample, ...]
    """The corrected references of the videos that have one."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Errors of reading the outputs of the run, by video; such a video has the events of its reference only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """An event with differing verdicts, conflicting corrections, or a correction that no longer fits."""

    event: Event
    problem: str
    opinions: str

    @property
    def row(self) -> list[str | float]:
        """The cells of ``SETTLE_HEADERS``."""
        video_id, text, opinions = map(replace_surrogates, (self.event.video_id, self.event.text, self.opinions))
        return [video_id, self.event.time_s, self.problem, _describe_event(self.event), text, opinions]


def summarize(
    samples: Iterable[Sample], review: Review, *, run: RunFolder | None = None, judge: Judge | None = None
) -> SplitReview:
    """Summarize the reviews of a split.

    ``judge`` analyses the outputs of a video of ``run``, to find the matched pairs.
    """
    listed = list(samples)
    events, problems, num_extra = {}, dict[str, str](), 0
    pairs = dict[str, str]()
    judged, given = _judged_events(review), _judged_pairs(review)
    for sample in listed:
        outputs, problem = read_known_outputs(run, sample)
        problems |= {sample.video_id: problem} if problem else {}
        named = name_events(sample.video_id, outputs=outputs, references=name_turns(sample.turns))
        if outputs and judge is not None and sample.has_reference:
            pairs |= match_events(named, judge(sample, outputs))
        known = {event.key for event in named.ordered}
        extra = [
            event
            for key, event in judged.get(sample.video_id, {}).items()
            if key not in known
            and given.get(key) not in known  # of a different run, but judged as a pair with a counted reference turn
        ]
        events[sample.video_id] = (*named.ordered, *extra)
        num_extra += len(extra)
    own_review = _restrict(review, events)
    corrected = correct_samples(listed, review=own_review)
    return SplitReview(
        events=events, pairs=pairs, num_extra=num_extra, review=own_review, corrected=corrected, problems=problems
    )


def summarize_unsplit(video_ids: Iterable[str], review: Review, *, samples: Iterable[Sample] = ()) -> SplitReview:
    """Summarize the reviews of videos that are in no split; their events are the judged ones.

    ``samples`` are the uploaded references that the page still has.
    """
    judged = _judged_events(review)
    events = {video_id: tuple(judged.get(video_id, {}).values()) for video_id in video_ids}
    own_review = _restrict(review, events)
    pairs, corrected = _judged_pairs(own_review), correct_samples(samples, review=own_review)
    return SplitReview(events=events, pairs=pairs, num_extra=0, review=own_review, corrected=corrected)


def _restrict(review: Review, video_ids: Collection[str]) -> Review:
    return replace(
        review,
        events=tuple(found for found in review.events if found.event.video_id in video_ids),
        corrections={video_id: found for video_id, found in review.corrections.items() if video_id in video_ids},
    )


def count_events(found: SplitReview) -> int:
    """Return the number of events of a split; a matched pair counts once."""
    return sum(_num_events(found, video_id) for video_id in found.events)


def draw_progress(found: SplitReview) -> str:
    """Return a progress bar per reviewer as HTML."""
    judged = {replace_surrogates(who): by_video.total() for who, by_video in _count_judged(found).items()}
    return render("review_progress", total=count_events(found), num_judged=judged)


def video_rows(found: SplitReview) -> Cells:
    """Return a row per video, with the cells of ``VIDEO_HEADERS``."""
    judged = _count_judged(found)
    verdicts: dict[str, Counter[str]] = {video_id: Counter() for video_id in found.events}
    for judged_event in count_once(found.review):
        people = [opinion for opinion in judged_event.opinions if not is_program(opinion.reviewer)]
        given = [opinion.verdict for opinion in people if opinion.verdict is not None]
        verdicts[judged_event.event.video_id].update(given)
    corrected = {of_video.sample.video_id: of_video for of_video in found.corrected}
    rows: Cells = [
        [
            video_id,
            _num_events(found, video_id),
            ", ".join(f"{who} {by_video[video_id]}" for who, by_video in judged.items() if by_video[video_id]),
            ", ".join(f"{verdict} {count}" for verdict, count in verdicts[video_id].most_common()),
            corrected[video_id].num_changed if video_id in corrected else 0,
            len(corrected[video_id].conflicts) if video_id in corrected else 0,
        ]
        for video_id in found.events
    ]
    return [[replace_surrogates(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]


def list_unsettled(found: SplitReview) -> list[Unsettled]:
    """Return the events that the reviewers have to settle, sorted by video and time."""
    listed = []
    for event, differing in review_disagreements(found.review):
        opinions = ", ".join(f"{reviewer}: {verdict}" for reviewer, verdict in differing.verdicts.items())
        listed.append(Unsettled(event=event, problem="verdicts differ", opinions=opinions))
    for corrected in found.corrected:
        video_id = corrected.sample.video_id
        for conflict in corrected.conflicts:
            event = reference_event(video_id, conflict.turn)
            opinions = f"{conflict.aspect}: {format_wishes(conflict.proposals)}"
            listed.append(Unsettled(event=event, problem="corrections differ", opinions=opinions))
        for unusable in corrected.unusable:
            event = reference_event(video_id, unusable.correction.turn)
            opinions = f"{unusable.correction.reviewer}: {unusable.reason}"
            listed.append(Unsettled(event=event, problem="no longer fits", opinions=opinions))
    order = {video_id: number for number, video_id in enumerate(found.events)}
    return sorted(listed, key=lambda unsettled: (order[unsettled.event.video_id], unsettled.event.time_s))


NO_AGREEMENT: Final = (
    "No event has the verdicts of two reviewers yet. Once one has, their agreement is shown here, and each event on "
    "which they differ is listed below, to settle it. Assign shares videos among reviewers, with an overlap."
)


def draw_agreement(found: SplitReview) -> str:
    """Return the agreement as an HTML table, one row per verdict; the headers have explanations as hints.

    Without an event that two reviewers judged it says how to get one.
    """
    measures, programs = review_agreement(found.review), measure_programs(found.review)
    if not any(measured.num_items for measured in (*measures, *(one.agreement for one in programs))):
        return render_note(NO_AGREEMENT)
    named = [(measured.verdict or "all verdicts", measured) for measured in measures]
    named += [(f"{one.reviewer} and people", one.agreement) for one in programs]
    rows = [
        [label, measured.num_items, *map(_format_value, (measured.raw, measured.kappa, measured.alpha))]
        for label, measured in named
    ]
    notes = (render_note(f"{one.reviewer}: {describe_calibration(one)}.") for one in programs if one.calibration)
    return render("agreement", help=AGREEMENT_HELP, rows=rows) + "".join(notes)


def reviews_at(review: Review, event: Event) -> tuple[EventReview, ...]:
    """Return the review of an event, or else those of the events of its video at its time."""
    at_time = tuple(
        found
        for found in review.events
        if found.event.video_id == event.video_id and math.isclose(found.event.time_s, event.time_s, abs_tol=0.0005)
    )
    return tuple(found for found in at_time if found.event.key == event.key) or at_time


def _count_judged(found: SplitReview) -> dict[str, Counter[str]]:
    """Return the number of judged events by reviewer and video; a pair is judged if both sides have a verdict."""
    given: dict[str, dict[str, str]] = {}
    for event_review in found.review.events:
        for opinion in event_review.opinions:
            keys = given.setdefault(opinion.reviewer, {})
            if opinion.verdict is not None:
                keys[event_review.event.key] = event_review.event.video_id
    counted = {event.key for events in found.events.values() for event in events}
    halves = set(found.pairs.values())
    judged = {}
    for reviewer, keys in sorted(given.items()):
        done = [key for key in keys if key in counted and key not in halves]
        judged[reviewer] = Counter(keys[key] for key in done if found.pairs.get(key, key) in keys)
    return judged


def _num_events(found: SplitReview, video_id: str) -> int:
    """Return the number of events of a video; a matched pair counts once."""
    return sum(event.key not in found.pairs for event in found.events[video_id])


def _judged_events(review: Review) -> dict[str, dict[str, Event]]:
    judged: dict[str, dict[str, Event]] = {}
    for found in review.events:
        if any(opinion.verdict is not None for opinion in found.opinions):
            judged.setdefault(found.event.video_id, {})[found.event.key] = found.event
    return judged


def _judged_pairs(review: Review) -> dict[str, str]:
    """Return the pairs that all reviewers judged as one: key of the model's event to key of the reference turn."""
    pairs = {}
    for found in review.events:
        partners = {opinion.paired_with.get("verdict") for opinion in found.opinions if opinion.verdict is not None}
        if found.event.kind != "reference" and len(partners) == 1 and (partner := partners.pop()) is not None:
            pairs[found.event.key] = partner
    return pairs


def _describe_event(event: Event) -> str:
    kind = _KINDS[event.kind]
    return f"{kind}, {event.role}" if event.kind == "reference" else kind


def _format_value(value: float) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.3f}"
