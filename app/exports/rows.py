"""The row types of all exports: predictions, references, states, verdicts and corrections.

Rows have plain values; ``app.exports.tabulate`` builds them from reviewed videos.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRow:
    """A text of the model."""

    video_id: str
    frame_index: int
    time_s: float
    """Time of the frame in seconds."""
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
    """Start in seconds."""
    end_s: float
    """End in seconds."""
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
    """Role of the speaker."""
    event_time_s: float
    """Start of the event in seconds."""
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
    """Role of the corrected turn."""
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


ROW_TYPES: Mapping[str, type] = {
    "predictions": PredictionRow,
    "references": ReferenceRow,
    "states": StateRow,
    "verdicts": VerdictRow,
    "corrections": CorrectionRow,
}
"""The row type of each table, by the name of the table."""


def column_types(row: type) -> dict[str, object]:
    """Return the columns of a row type with their types, in order."""
    return {field.name: field.type for field in fields(row)}
