"""What the store says of one split: how far reviewers are, how far they agree, and what is to be settled.

Events are the turns of the source's reference, with a run what it wrote, and whatever else has a verdict: what other
runs wrote, times of wrong state. So every verdict that is counted is one on an event that is counted. Texts and names
are as they were typed: they go into cells of type ``str`` only.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Final

from app.exports.folder import correct_samples, read_known_outputs
from app.formatting import tell_wishes
from app.reviews.actions import Event
from app.reviews.events import match_events, name_events, reference_event
from app.reviews.review import EventReview, Review, count_once, review_agreement, review_disagreements
from engine.io import replace_surrogates
from engine.records import FrameOutput
from eval.annotations.corrected_samples import CorrectedSample
from eval.annotations.corrections import name_turns
from eval.data.samples import Sample
from eval.metrics.failures import JudgedVideo
from eval.runs.folder import RunFolder

NONE: Final = "\N{EN DASH}"
"""What stands for an undefined figure."""
VIDEO_HEADERS: Final = ["Video", "Events", "Judged by", "Verdicts", "Corrections", "Conflicts"]
COUNTED: Final = (
    "Events: turns of the reference, what the chosen run wrote, and whatever else has a verdict; a matched pair counts "
    "once. Judged by: how many of them have the reviewer's verdict, a pair on both of its sides. Verdicts: those of "
    "all reviewers, by kind, one on a pair once. Corrections: turns that are "
    "changed, added or deleted. Conflicts: where reviewers want different things, so that the source stands."
)
"""What the columns of the videos count."""
SETTLE_HEADERS: Final = ["Video", "Second", "To settle", "Of", "Text", "Who says what"]
DEFINITIONS: Final = {
    "verdict": "All verdicts told apart, then each against all others: did reviewers give this one or another?",
    "events": "Events that at least two reviewers judged; those that only one judged tell nothing.",
    "raw": f"Share of pairs of verdicts on one event that are equal, from 0 to 1. Undefined ({NONE}) without pairs.",
    "kappa": "Cohen's kappa, at most 1: agreement beyond chance; of more than two reviewers the mean over their pairs. "
    f"Undefined ({NONE}) where nobody said anything else, so that chance explains everything.",
    "alpha": "Krippendorff's alpha, at most 1: agreement beyond chance of any number of reviewers; 0 is chance. "
    f"Undefined ({NONE}) as kappa is.",
}
"""What the columns of the agreement mean."""
_KINDS: Final = {"generated": "response", "update": "update", "reference": "reference", "state": "wrong state"}

Cells = list[list[str | float]]
Judge = Callable[[Sample, Sequence[FrameOutput]], JudgedVideo]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReview:
    """What is said of the videos of a split."""

    events: Mapping[str, tuple[Event, ...]]
    """What there is to judge, and what was judged besides, by video in the order of the split."""
    pairs: Mapping[str, str]
    """Matched pairs of the run: key of what it wrote to the key of the reference turn. Each counts as one event."""
    num_besides: int
    """Events that were judged, though neither the references nor the run has them."""
    review: Review
    """The present state, of these videos only."""
    corrected: tuple[CorrectedSample, ...]
    """The references as corrected, as far as they are known."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Per video whose outputs in the run cannot be read, why; its events are those of the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How much of a split is judged."""

    num_events: int
    """Events there are."""
    num_besides: int
    """Those among them that neither the references nor the run has."""
    num_judged: Mapping[str, int]
    """Those with a verdict, by reviewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """Something that reviewers have to settle."""

    event: Event
    """What it is about."""
    what: str
    """Of which kind it is, in words."""
    said: str
    """Who says what."""

    @property
    def row(self) -> list[str | float]:
        """The cells of ``SETTLE_HEADERS``."""
        event = self.event
        texts = (self.what, _of(event), replace_surrogates(event.text), replace_surrogates(self.said))
        return [replace_surrogates(event.video_id), event.time_s, *texts]


def summarize(
    samples: Iterable[Sample], review: Review, *, run: RunFolder | None = None, judge: Judge | None = None
) -> SplitReview:
    """Put together what is said of a split.

    Args:
        samples: The source's references.
        review: What reviewers say.
        run: What the model did.
        judge: Matches what the run wrote with the reference, to find the pairs; None finds none.
    """
    listed = list(samples)
    events, problems, num_besides = {}, dict[str, str](), 0
    pairs = dict[str, str]()
    judged, given = _judged_events(review), _given_pairs(review)
    for sample in listed:
        outputs, problem = read_known_outputs(run, sample)
        problems |= {sample.video_id: problem} if problem else {}
        named = name_events(sample.video_id, outputs=outputs, references=name_turns(sample.turns))
        if outputs and judge is not None:
            pairs |= match_events(named, judge(sample, outputs))
        known = {event.key for event in named.ordered}
        besides = [
            event
            for key, event in judged.get(sample.video_id, {}).items()
            if key not in known
            and given.get(key) not in known  # another run's, judged with a reference that is counted
        ]
        events[sample.video_id] = (*named.ordered, *besides)
        num_besides += len(besides)
    ours = _only(review, events)
    corrected = correct_samples(listed, review=ours)
    return SplitReview(
        events=events, pairs=pairs, num_besides=num_besides, review=ours, corrected=corrected, problems=problems
    )


def summarize_unsplit(video_ids: Iterable[str], review: Review, *, samples: Iterable[Sample] = ()) -> SplitReview:
    """Put together what is said of videos that are in no split: their events are those that were judged.

    ``samples`` are the references that they were given, as far as these are known.
    """
    judged = _judged_events(review)
    events = {video_id: tuple(judged.get(video_id, {}).values()) for video_id in video_ids}
    ours = _only(review, events)
    pairs, corrected = _given_pairs(ours), correct_samples(samples, review=ours)
    return SplitReview(events=events, pairs=pairs, num_besides=0, review=ours, corrected=corrected)


def _only(review: Review, video_ids: Collection[str]) -> Review:
    """Return what is said of some videos."""
    return replace(
        review,
        events=tuple(found for found in review.events if found.event.video_id in video_ids),
        corrections={video_id: found for video_id, found in review.corrections.items() if video_id in video_ids},
    )


def measure_split(found: SplitReview) -> Progress:
    """Say how many events each reviewer has judged."""
    judged = _judged(found)
    return Progress(
        num_events=sum(_num_events(found, video_id) for video_id in found.events),
        num_besides=found.num_besides,
        num_judged={who: sum(by_video.values()) for who, by_video in judged.items()},
    )


def draw_progress(progress: Progress) -> str:
    """Return a bar for each reviewer as markup."""
    total = progress.num_events
    rows = [
        f'<li><b>{escape(replace_surrogates(who))}</b><progress value="{number}" max="{max(1, total)}" '
        f'aria-label="events judged"></progress><span>{number} of {total}, {number / max(1, total):.0%}</span></li>'
        for who, number in progress.num_judged.items()
    ]
    return f'<ul class="reviewers">{"".join(rows)}</ul>'


def video_rows(found: SplitReview) -> Cells:
    """Return a row per video, with the cells of ``VIDEO_HEADERS``."""
    judged = _judged(found)
    verdicts: dict[str, Counter[str]] = {video_id: Counter() for video_id in found.events}
    for said in count_once(found.review):
        given = [opinion.verdict for opinion in said.opinions if opinion.verdict is not None]
        verdicts[said.event.video_id].update(given)
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
    """Return what reviewers have to settle, by video and time."""
    listed = []
    for event, differing in review_disagreements(found.review):
        said = ", ".join(f"{who}: {verdict}" for who, verdict in differing.verdicts.items())
        listed.append(Unsettled(event=event, what="verdicts differ", said=said))
    for corrected in found.corrected:
        video_id = corrected.sample.video_id
        for conflict in corrected.conflicts:
            event = reference_event(video_id, conflict.turn)
            said = f"{conflict.aspect}: {tell_wishes(conflict.proposals)}"
            listed.append(Unsettled(event=event, what="corrections differ", said=said))
        for unusable in corrected.unusable:
            event = reference_event(video_id, unusable.correction.turn)
            said = f"{unusable.correction.reviewer}: {unusable.reason}"
            listed.append(Unsettled(event=event, what="does not fit any more", said=said))
    order = {video_id: number for number, video_id in enumerate(found.events)}
    return sorted(listed, key=lambda unsettled: (order[unsettled.event.video_id], unsettled.event.time_s))


def draw_agreement(found: SplitReview) -> str:
    """Return the agreement as markup, a row per verdict; what each column means is shown where it is pointed at."""
    heads = "".join(
        f'<th scope="col" tabindex="0" data-hint="{escape(hint)}">{escape(name.capitalize())}</th>'
        for name, hint in DEFINITIONS.items()
    )
    rows = [
        f"<tr><td>{escape(measured.verdict or 'all verdicts')}</td><td>{measured.num_items}</td>"
        + "".join(f"<td>{_figure(value)}</td>" for value in (measured.raw, measured.kappa, measured.alpha))
        + "</tr>"
        for measured in review_agreement(found.review)
    ]
    return f'<table class="agreement"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def said_at(review: Review, video_id: str, time_s: float, *, key: str | None = None) -> tuple[EventReview, ...]:
    """Return what is said of the events of a video at a time; of the one of a ``key`` alone, if anything is."""
    there = tuple(
        found
        for found in review.events
        if found.event.video_id == video_id and math.isclose(found.event.time_s, time_s, abs_tol=0.0005)
    )
    return tuple(found for found in there if found.event.key == key) or there


def _judged(found: SplitReview) -> dict[str, Counter[str]]:
    """Return by reviewer how many events of each video have a verdict; a pair is one, with verdicts on both sides."""
    given: dict[str, dict[str, str]] = {}
    for said in found.review.events:
        for opinion in said.opinions:
            keys = given.setdefault(opinion.reviewer, {})
            if opinion.verdict is not None:
                keys[said.event.key] = said.event.video_id
    counted = {event.key for events in found.events.values() for event in events}
    halves = set(found.pairs.values())
    judged = {}
    for reviewer, keys in sorted(given.items()):
        done = [key for key in keys if key in counted and key not in halves]
        judged[reviewer] = Counter(keys[key] for key in done if found.pairs.get(key, key) in keys)
    return judged


def _num_events(found: SplitReview, video_id: str) -> int:
    """Return how many events of a video there are to judge; a matched pair is one."""
    return sum(event.key not in found.pairs for event in found.events[video_id])


def _judged_events(review: Review) -> dict[str, dict[str, Event]]:
    """Return by video the events with a verdict, by key."""
    judged: dict[str, dict[str, Event]] = {}
    for said in review.events:
        if any(opinion.verdict is not None for opinion in said.opinions):
            judged.setdefault(said.event.video_id, {})[said.event.key] = said.event
    return judged


def _given_pairs(review: Review) -> dict[str, str]:
    """Return the pairs that were always judged as one: the key of the model's event to that of the reference turn."""
    pairs = {}
    for found in review.events:
        others = {said.paired_with.get("verdict") for said in found.opinions if said.verdict is not None}
        if found.event.kind != "reference" and len(others) == 1 and (other := others.pop()) is not None:
            pairs[found.event.key] = other
    return pairs


def _of(event: Event) -> str:
    kind = _KINDS[event.kind]
    return f"{kind}, {event.role}" if event.kind == "reference" else kind


def _figure(value: float) -> str:
    return NONE if math.isnan(value) else f"{value:.3f}"
