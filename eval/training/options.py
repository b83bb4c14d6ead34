"""The options of the command ``train``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from tyro.conf import OmitArgPrefixes, Positional

from stepscope.engine.cli.options import DeviceOptions
from stepscope.engine.training.config import Decisions, Method, Schedule, TrainConfig


@dataclass(frozen=True, kw_only=True)
class TrainOptions(DeviceOptions):
    """Train on the videos of a split, and write a checkpoint that run, eval, page and Space take."""

    split: Positional[Path]
    """Training split of any format, or JSON lines of clips with feature files."""
    out: Path
    """Folder of the result; new, empty, or with --resume one of an earlier run."""
    val: Path | None = None
    """Validation split: the checkpoint with the best score on it is kept (default: the last checkpoint)."""
    metric: tuple[str, ...] = ("F1", "dst_f1")
    """Scores of docs/metrics.md whose mean is the validation score."""
    resume: bool = False
    """Continue the run in --out, whose settings and data must be equal."""
    dry_run: bool = False
    """Train 20 steps, print the predicted time and memory, and write no checkpoint."""
    trackio: str | None = None
    """Also send losses and scores to this project of trackio, which must be installed."""
    on_invalid: Literal["refuse", "skip"] = "refuse"
    """Refuse a split with clips that cannot be used, or name and skip them."""
    videos: Path | None = None
    """Folder to search recursively for videos of records whose video_path is missing or does not exist."""
    features: Path | None = None
    """Folder to keep frame features in (default: training/features in --out); a video without a file takes its features
    from VIDEO_ID.safetensors, .npy or .arrow there."""
    fps: float = 2.0
    """Frame rate of the features of JSON lines of clips; a split has its own."""
    method: Method = "auto"
    """full: text model and heads; lora: an adapter and heads; heads: heads alone; auto: lora from 500 M parameters on,
    else full."""
    lora_rank: int = 16
    """Rank of the adapter, which is scaled by 2."""
    decisions: Decisions = "heads"
    """Train the two heads; the streaming-EOS loss of the silent token, without updates; the answers to questions about
    speaking and steps; or the text of a state at each frame, without updates."""
    silent_token: str | None = None
    """The token that means silence (default: that of the heads file)."""
    pooling: Literal["mean", "first", "none"] | None = None
    """Begin with this pooling of a frame's tokens (default: that of the heads file, or mean)."""
    feature_dim: int | None = None
    """Begin with a new projector for stored features of this width, such as 2048."""
    batch_size: int = 8
    """Contexts in one step."""
    max_seq_len: int = 4096
    """Longest context, in tokens; a longer clip is split as the stream refreshes."""
    reserved_seq_len: int = 512
    """Tokens reserved for the current turn: a context ends at max_seq_len - reserved_seq_len."""
    train: OmitArgPrefixes[TrainConfig] = field(default_factory=lambda: TrainConfig(learning_rate=1e-4))
    """Settings of the optimisation."""
    schedule: OmitArgPrefixes[Schedule] = field(default_factory=Schedule)
    """When to validate, save and stop."""

    stop_message: ClassVar[str] = "stopped; {0.out} keeps the training state, --resume continues it"
