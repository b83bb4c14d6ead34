"""The records of one video that measures count, its outputs, matches, judged turns and failures; and a measure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Generic, Literal, get_args

from pydantic import Field

from stepscope.engine.io.json_records import Amount
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.grading import Grade
from stepscope.eval.matching.turns import Encode, Match
from stepscope.eval.matching.updates import UpdateMatch
from stepscope.eval.metrics.counts import C, Counts

MatchOutcome = Literal["matched", "mismatched", "redundant"]
FailureKind = Literal[
    "missed",
    "redundant",
    "wrong text",
    "early or late",
    "wrong update",
    "missed update",
    "wrong state",
    "repeats itself",
]
FAILURE_KINDS: Final[tuple[FailureKind, ...]] = get_args(FailureKind)
"""In the order of the tables."""
LIVE_SCORES = ("lm_ppl", "frame_diff", "time_diff_s", "fluency", "lm_correctness")
"""The scores of a conversation; ``time_diff_s`` is ``frame_diff`` in seconds."""
_Numbers = Annotated[tuple[Amount, ...], Field(min_length=len(LIVE_SCORES), max_length=len(LIVE_SCORES))]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTurn:
    """A response or an update of the model, with its reference turn."""

    role: Literal["assistant", "update"]
    frame_index: int
    text: str
    outcome: MatchOutcome
    """Matched, mismatched (paired in time with a different content), or redundant (without a reference)."""
    reference: int | None = None
    """Position of the reference in ``Sample.turns``; None if redundant."""
    delay_s: float | None = None
    """Time of the frame minus that of the reference's frame; negative is early. 0 inside a reply span; after it, the
    time since its end."""
    semantic_score: float | None = None
    """Similarity of the two texts, in [0, 1]; responses only."""
    cost: float | None = None
    """Matching cost; responses only."""
    grade: int | None = None
    """Grade of the replies of its reply span so far, 0 wrong to 2 right; None outside the spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure of a turn, or of the state in consecutive frames."""

    kind: FailureKind
    frame_index: int
    """Frame of the prediction, or of the reference if there is no prediction."""
    end_frame: int
    """First frame after the failure; only a wrong state is longer than one frame."""
    turn: int | None = None
    """Position in ``JudgedVideo.turns``; None if there is no prediction."""
    reference: int | None = None
    """Position in ``Sample.turns``; None if there is no reference."""
    step_ids: tuple[str, ...] = ()
    """Steps with a wrong state; only for a wrong state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedVideo:
    """All responses and updates of one video with their outcomes, by frame, and all failures."""

    turns: tuple[JudgedTurn, ...]
    """At one frame updates before the response."""
    failures: tuple[Failure, ...]
    """By time; at one time updates, responses, states, and the model before the reference."""
    num_later: int = 0
    """Turns of the reference after the last output: they are missed, and no frame is there to stop at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCounts(Counts):
    """The scores of one or many conversations, in the order of ``LIVE_SCORES``."""

    sums: _Numbers = (0.0,) * len(LIVE_SCORES)
    """Sum of each score over the conversations in which it is defined."""
    num_defined: _Numbers = (0.0,) * len(LIVE_SCORES)
    """Conversations in which each score is defined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedVideo:
    """Everything of one video that a measure may count; see ``eval.metrics.score.analyze_video``."""

    sample: Sample
    outputs: Sequence[FrameOutput]
    match: Match
    updates: UpdateMatch
    judged: JudgedVideo
    live: LiveCounts | None
    wall_s: float | None
    has_states: bool
    encode: Encode
    grade: Grade
    num_roots: float = math.nan
    """Roots of its failures, as a diagnosis found them; nan if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Generic[C]):
    """One kind of counts, and the scores of their sum over videos; ``eval.metrics.score`` lists all."""

    name: str
    """The field of ``VideoCounts`` that holds the counts."""
    kind: type[C]
    count: Callable[[MatchedVideo], C]
    summarize: Callable[[C], Mapping[str, float]]
    """Counts to scores under their names in ``metrics.toml``."""
