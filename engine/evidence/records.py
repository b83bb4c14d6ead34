"""The evidence for one decision, as plain values, and its file ``VIDEO.evidence.json``. Without torch.

All values are natural log-odds. The evidence of a picture or a text is the log-odds as they are, less those without it:
a positive number supports the decision, and the log-odds without it are the difference. Nothing is normalised.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from stepscope.engine.io.files import atomic_write, to_json
from stepscope.engine.io.json_records import Amount, Count, Finite, read_record

Target = Literal["speak", "update", "silence"]
TextChange = Literal["line removed", "turn removed", "names swapped", "places swapped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Two texts of one turn: the one that was written, and the one that should have been."""

    written: str
    expected: str
    kind: Literal["update", "response"] = "update"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameEvidence:
    """The evidence of one picture, which is replaced by the previous picture of the video."""

    frame_index: Count
    log_odds: Finite | None
    """None for the first frame of the video, which has no previous picture, and for frames beyond the limit of cost."""
    random_log_odds: Finite | None
    """The same of a model with random weights."""
    recency: Finite
    """1 for the last frame, 1/2 for the one before it, and so on."""
    difference: Amount | None
    """Mean absolute difference from the previous picture; see ``Evidence.difference_of``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFrames:
    """The decision with the last frames alone: all earlier ones show the first picture of the context."""

    num_frames: Count
    log_odds: Finite
    is_kept: bool
    """Whether the decision is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchEvidence:
    """The evidence of one patch of a picture, which is replaced by that of the previous picture."""

    row: Count
    column: Count
    log_odds: Finite
    random_log_odds: Finite
    difference: Amount
    """Mean absolute difference of pixels, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEvidence:
    """The evidence of a text of the context, which is removed, or of the names or places of two steps."""

    change: TextChange
    text: str
    """The text that is removed, or both steps, such as ``S2, S3``."""
    log_odds: Finite
    random_log_odds: Finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence for one decision of a run, beside what any model would show."""

    frame_index: Count
    time_s: Amount
    target: Target | Literal["text"]
    """The decision: to speak, to update, to stay silent, or the contrast of two texts."""
    contrast: Contrast | None
    """The texts of the target ``text``."""
    log_odds: Finite
    """Log-odds of the decision at this frame; of a contrast log p(written) - log p(expected)."""
    random_log_odds: Finite
    """The same of a model with random weights."""
    threshold: Finite | None
    """Log-odds that the decision needs; None for a threshold of 0 or 1, and 0 for a contrast. The rule of a policy
    over several frames is not part of it."""
    frames: tuple[FrameEvidence, ...]
    """The frames of the context, in order; the last one is that of the decision."""
    difference_of: Literal["pixels", "features"]
    """The unit of ``FrameEvidence.difference``: pixels in [0, 1], or features of the pictures."""
    fewest_last_frames: Count
    """The fewest last frames that keep the decision; 0 if it needs no picture. Bisection: it is exact if more frames
    never lose the decision."""
    last_frames: tuple[LastFrames, ...]
    """The bisection's trials, and the last frame alone, by number of frames."""
    texts: tuple[TextEvidence, ...] = ()
    patches_frame: Count | None = None
    """The frame whose picture has ``patches``."""
    patches: tuple[PatchEvidence, ...] = ()
    """8 x 8 patches of the picture as the model sees it, row by row."""
    patches_noise: Amount | None = None
    """How much the log-odds move if the unchanged picture is encoded again."""
    seed: int = 0
    """Seed of the random weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFile:
    """The evidence for some decisions of one video, and what it is of."""

    source: str
    """Digest of the sample, as in the record of the video."""
    model_digest: str
    heads_digest: str
    """Empty without a heads file."""
    decisions: tuple[Evidence, ...]


def write_evidence(path: Path, content: EvidenceFile) -> None:
    """Write ``VIDEO.evidence.json`` atomically."""
    with atomic_write(path) as file:
        file.write(to_json(asdict(content)) + "\n")


def read_evidence(path: Path) -> EvidenceFile:
    """Read ``VIDEO.evidence.json``. Raises ``FileNotFoundError``, and ``ValueError`` naming the file and the field."""
    return read_record(EvidenceFile, path)
