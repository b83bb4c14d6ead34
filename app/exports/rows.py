"""The rows of all exports: predictions, references, states, verdicts and corrections of reviewed videos.

Rows have plain values. Texts are unchanged, except that unpaired surrogates, which UTF-8 cannot encode, become ``?``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import get_args

from stepscope.app.review_store.actions import is_program
from stepscope.app.review_store.review import Review
from stepscope.engine.dialogue import initial_state
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.annotations.corrected_samples import CorrectedSample, apply_corrections
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.metrics.dialogue_state import reference_states


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRow:
    """A text of the model."""

    video_id: str
    frame_index: int
    time_s: float
    role: str
    """``update`` or ``assistant``."""
    text: str
    speak_prob: float
    """Speak probability at the frame, in [0, 1]."""
    update_prob: float
    """Update probability at the frame, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRow:
    """A turn of the source reference or of the corrected reference."""

    video_id: str
    layer: str
    """``reference``: as in the source; ``corrected``: with the effective corrections."""
    time_s: float
    """Start in seconds."""
    role: str
    """``update``, ``user`` or ``assistant``."""
    text: str
    """The utterance or the update."""
    cause: str
    """Cause of the turn's difficulty; empty if the data set has none."""
    reviewers: tuple[str, ...]
    """Reviewers whose corrections changed the turn."""
    end_s: float | None = None
    """End of the reply span in seconds; None for an instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """An interval in which a step, or the assistant itself, has one state."""

    video_id: str
    source: str
    """``model``, ``reference`` or ``corrected`` for a step; ``assistant`` for the state of the assistant itself."""
    step_id: str
    """Empty for the assistant."""
    step_name: str
    start_s: float
    end_s: float
    state: str
    """``not_started``, ``in_progress`` or ``completed``; of the assistant its own word, such as ``standby``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """The verdict, tags and note of one reviewer on one event."""

    video_id: str
    event_key: str
    """Key of the event in the store."""
    event_kind: str
    """``generated``, ``update``, ``reference`` or ``state``."""
    event_role: str
    event_time_s: float
    event_text: str
    reviewer: str
    verdict: str
    """The verdict; empty without one."""
    tags: tuple[str, ...]
    note: str
    at: str
    """Time of the last change, in UTC."""
    run_digest: str
    """Digest of the run on the reviewer's page."""
    model_digest: str
    """Digest of the run's checkpoint."""
    speak_threshold: float | None
    """Speak threshold on the page, in [0, 1]."""
    update_threshold: float | None
    """Update threshold on the page, in [0, 1]."""
    playhead_s: float | None
    """Position of the playhead in seconds."""
    judged_with: str = ""
    """Key of the partner event, if one verdict was given to a matched pair; empty for this event alone."""
    final: str = ""
    """The verdict that counts: the one that settled the event, else that of all its reviewers; empty if they differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionRow:
    """A correction by one reviewer."""

    video_id: str
    reviewer: str
    kind: str
    """``text``, ``time``, ``update``, ``boundary``, ``add``, ``delete`` or ``span``."""
    role: str
    time_s: float
    """Start of the turn in the source, in seconds."""
    text: str
    """Text of the turn in the source."""
    number: int
    """Index among turns with equal role, time and text, from 0."""
    new_text: str
    """New utterance or update; empty if the text does not change."""
    new_time_s: float | None
    """New start in seconds; None if the time does not change."""
    order: int = 0
    """Rank among all corrections of the video, oldest first, from 1; 0 in files of versions without this column."""
    at: str = ""
    """Time of the correction, in UTC."""
    status: str = ""
    """``effective``, ``in conflict``, ``overruled``, ``replaced``, ``undone`` or ``does not fit``
    (``eval.annotations.corrected_samples``); empty if the video has no reference."""
    new_end_s: float | None = None
    """For ``span`` the new end of the reply span in seconds; None makes the turn an instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The rows of any number of videos."""

    predictions: tuple[PredictionRow, ...] = ()
    references: tuple[ReferenceRow, ...] = ()
    states: tuple[StateRow, ...] = ()
    verdicts: tuple[VerdictRow, ...] = ()
    corrections: tuple[CorrectionRow, ...] = ()


ROW_TYPES: Mapping[str, type] = {field.name: get_args(field.type)[0] for field in fields(Tables)}
"""The row type of each table, by the name of the table."""


def column_types(row: type) -> dict[str, object]:
    """Return the columns of a row type with their types, in order."""
    return {field.name: field.type for field in fields(row)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedVideo:
    """The outputs, reference and reviews of one video; any of the three may be missing."""

    video_id: str
    video_path: Path | None = None
    start_s: float = 0.0
    """Start of the video within the file, in seconds."""
    duration_s: float
    steps: tuple[Step, ...] = ()
    outputs: tuple[FrameOutput, ...] = ()
    """Outputs of the run; empty without a run."""
    has_states: bool = True
    """Whether the states of the steps in the outputs are the system's own."""
    sample: Sample | None = None
    """The source reference."""
    review: Review
    """State of the reviews; it may include further videos."""
    prefer: tuple[str, ...] = ()
    """Reviewers whose corrections win conflicts, best first."""
    problem: str = ""
    """Error of reading the outputs; empty if there was none."""

    @property
    def corrected(self) -> CorrectedSample | None:
        """The corrected reference; None without a reference."""
        if self.sample is None:
            return None
        return apply_corrections(self.sample, self.review.corrections.get(self.video_id, ()), prefer=self.prefer)


def build_tables(videos: Iterable[ReviewedVideo]) -> Tables:
    """Return the rows of all videos, in the order of the videos."""
    listed = list(videos)
    return Tables(
        predictions=tuple(row for video in listed for row in _predictions(video)),
        references=tuple(row for video in listed for row in _references(video)),
        states=tuple(row for video in listed for row in _states(video)),
        verdicts=tuple(row for video in listed for row in _verdicts(video)),
        corrections=tuple(row for video in listed for row in _corrections(video)),
    )


def explain_no_predictions(videos: Sequence[ReviewedVideo]) -> str:
    """Return why an export has no predictions, with the cure; an empty text if it has any."""
    if any(output.updates or output.response for video in videos for output in video.outputs):
        return ""
    if any(video.outputs for video in videos):
        return "No predictions are exported: the run is silent"
    return "No predictions are exported: no run with outputs is chosen"


def _predictions(video: ReviewedVideo) -> Iterator[PredictionRow]:
    for output in video.outputs:
        texts = [("update", text) for text in output.updates]
        texts += [("assistant", output.response)] if output.response else []
        for role, text in texts:
            yield PredictionRow(
                video_id=replace_surrogates(video.video_id),
                frame_index=output.frame_index,
                time_s=output.time_s,
                role=role,
                text=replace_surrogates(text),
                speak_prob=output.speak_prob,
                update_prob=output.update_prob,
            )


def _references(video: ReviewedVideo) -> Iterator[ReferenceRow]:
    corrected = video.corrected
    if video.sample is None or corrected is None:
        return
    for turn in video.sample.turns:
        yield _reference(video, "reference", turn, ())
    for found in corrected.turns:
        yield _reference(video, "corrected", found.turn, found.reviewers)


def _reference(video: ReviewedVideo, layer: str, turn: Turn, reviewers: tuple[str, ...]) -> ReferenceRow:
    return ReferenceRow(
        video_id=replace_surrogates(video.video_id),
        layer=layer,
        time_s=turn.time_s,
        role=turn.role,
        text=replace_surrogates(turn.text),
        cause=replace_surrogates(turn.cause or ""),
        reviewers=reviewers,
        end_s=turn.end_s,
    )


def _states(video: ReviewedVideo) -> Iterator[StateRow]:
    if video.outputs:
        if video.has_states:
            states = [(output.time_s, output.dst_state) for output in video.outputs]
            yield from _state_intervals(video, "model", video.steps, states)
        own = [(output.time_s, {"": output.state or ""}) for output in video.outputs]
        yield from (row for row in _state_intervals(video, "assistant", [Step(id="", name="")], own) if row.state)
    corrected = video.corrected
    layers = [] if video.sample is None else [("reference", video.sample)]
    layers += [("corrected", corrected.sample)] if corrected is not None else []
    for source, sample in layers:
        start = initial_state(sample.steps, sample.initial_state)
        frames = [(frame / sample.fps, state) for frame, state in enumerate(reference_states(sample))]
        yield from _state_intervals(video, source, sample.steps, [(0.0, start), *frames])


def _state_intervals(
    video: ReviewedVideo, source: str, steps: Iterable[Step], states: Sequence[tuple[float, Mapping[str, str]]]
) -> Iterator[StateRow]:
    """Yield one row per interval of equal state.

    Example: states a, a, b at 0, 1, 2 s in a video of 4 s give a from 0 to 2 s and b from 2 to 4 s. Of several states
    at one time the last is used.
    """
    for step in steps:
        starts: list[tuple[float, str]] = []
        for time_s, state in states:
            if starts and starts[-1][0] == time_s:
                starts.pop()
            if not starts or starts[-1][1] != state[step.id]:
                starts.append((time_s, state[step.id]))
        ends = [time_s for time_s, _ in starts[1:]]
        for (start_s, value), end_s in zip(starts, [*ends, max(video.duration_s, starts[-1][0])], strict=True):
            yield StateRow(
                video_id=replace_surrogates(video.video_id),
                source=source,
                step_id=replace_surrogates(step.id),
                step_name=replace_surrogates(step.name),
                start_s=start_s,
                end_s=end_s,
                state=replace_surrogates(value),
            )


def _verdicts(video: ReviewedVideo) -> Iterator[VerdictRow]:
    for found in video.review.events:
        event = found.event
        if event.video_id != video.video_id:
            continue
        people = [opinion for opinion in found.opinions if not is_program(opinion.reviewer)]
        given = {opinion.verdict for opinion in people if opinion.verdict is not None}
        for opinion in found.opinions:
            assert opinion.action is not None  # fold_actions builds every opinion from an action
            yield VerdictRow(
                video_id=replace_surrogates(video.video_id),
                **{f"event_{name}": getattr(event, name) for name in ("key", "kind", "role", "time_s", "text")},
                reviewer=opinion.reviewer,
                verdict=opinion.verdict or "",
                tags=opinion.tags,
                note=opinion.note,
                at=opinion.action.at.isoformat(),
                **asdict(opinion.action.moment),
                judged_with=opinion.paired_with.get("verdict", ""),
                final=found.final or ("".join(given) if len(given) == 1 else ""),
            )


def _corrections(video: ReviewedVideo) -> Iterator[CorrectionRow]:
    corrected = video.corrected
    statuses = iter(() if corrected is None else corrected.statuses)
    for order, entry in enumerate(video.review.correction_log.get(video.video_id, ()), start=1):
        correction = entry.correction
        yield CorrectionRow(
            video_id=replace_surrogates(video.video_id),
            reviewer=correction.reviewer,
            kind=correction.kind,
            **asdict(correction.turn),
            new_text=correction.text or "",
            new_time_s=correction.time_s,
            new_end_s=correction.end_s,
            order=order,
            at=entry.at.isoformat(),
            status="undone" if entry.is_undone else next(statuses, ""),
        )
