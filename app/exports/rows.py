"""The rows that all exports are written from: predictions, references, states, verdicts and corrections.

Rows hold plain values; ``app.exports.tabulate`` makes them of a reviewed video.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRow:
    """Something that the model wrote."""

    video_id: str
    """Its video."""
    frame_index: int
    """Its frame."""
    time_s: float
    """Time of the frame, in seconds."""
    role: str
    """``update`` or ``assistant``."""
    text: str
    """As written."""
    speak_prob: float
    """Probability of speaking at the frame."""
    update_prob: float
    """Probability of an update at the frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRow:
    """A turn of the reference, as in the source or as corrected."""

    video_id: str
    """Its video."""
    layer: str
    """``reference``: as in the source; ``corrected``: with the corrections that count."""
    time_s: float
    """When, in seconds."""
    role: str
    """``update``, ``user`` or ``assistant``."""
    text: str
    """The words or the update."""
    cause: str
    """What makes the turn hard; empty where the data do not say."""
    reviewers: tuple[str, ...]
    """Whose corrections it bears."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """A time during which a step is in one state."""

    video_id: str
    """Its video."""
    source: str
    """``model``, ``reference`` or ``corrected``."""
    step_id: str
    """The step."""
    step_name: str
    """What is done in it."""
    start_s: float
    """From when."""
    end_s: float
    """Until when."""
    state: str
    """``not_started``, ``in_progress`` or ``completed``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """What one reviewer says of one event."""

    video_id: str
    """Its video."""
    event_key: str
    """The event's name in the store."""
    event_kind: str
    """``generated``, ``update``, ``reference`` or ``state``."""
    event_role: str
    """Who speaks."""
    event_time_s: float
    """When, in seconds."""
    event_text: str
    """What was written."""
    reviewer: str
    """Who judges."""
    verdict: str
    """The verdict; empty without one."""
    tags: tuple[str, ...]
    """The tags."""
    note: str
    """The note."""
    at: str
    """When it was last changed, in UTC."""
    run_digest: str
    """Which run was on the page."""
    model_digest: str
    """Which checkpoint."""
    speak_threshold: float | None
    """Threshold of speaking."""
    update_threshold: float | None
    """Threshold of updates."""
    playhead_s: float | None
    """Where the playhead stood."""
    judged_with: str = ""
    """Key of the other event of a matched pair, when one verdict was given to both; empty for this event alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionRow:
    """A correction by one reviewer."""

    video_id: str
    """Its video."""
    reviewer: str
    """Who."""
    kind: str
    """``text``, ``time``, ``update``, ``boundary``, ``add`` or ``delete``."""
    role: str
    """Of which turn: its role,"""
    time_s: float
    """its time in the source,"""
    text: str
    """its text in the source,"""
    number: int
    """and which of several alike."""
    new_text: str
    """New words or update; empty where they stay."""
    new_time_s: float | None
    """New time; None where it stays."""
    order: int = 0
    """Its place among all corrections of the video, the oldest is 1; 0 in files of versions that did not write it."""
    at: str = ""
    """When it was given, in UTC."""
    status: str = ""
    """Whether it is in force: ``effective``, ``in conflict``, ``overruled``, ``replaced``, ``undone`` or ``does not
    fit`` (``eval.annotations.corrected_samples``); empty where there is no reference to apply it to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The rows of any number of videos."""

    predictions: tuple[PredictionRow, ...] = ()
    """What the model wrote."""
    references: tuple[ReferenceRow, ...] = ()
    """The reference, as in the source and as corrected."""
    states: tuple[StateRow, ...] = ()
    """States over time."""
    verdicts: tuple[VerdictRow, ...] = ()
    """What reviewers say."""
    corrections: tuple[CorrectionRow, ...] = ()
    """What reviewers corrected."""


ROWS: Mapping[str, type] = {
    "predictions": PredictionRow,
    "references": ReferenceRow,
    "states": StateRow,
    "verdicts": VerdictRow,
    "corrections": CorrectionRow,
}
"""The record of each table."""


def column_types(row: type) -> dict[str, object]:
    """Return the columns of a record of rows with their types."""
    return {field.name: field.type for field in fields(row)}
