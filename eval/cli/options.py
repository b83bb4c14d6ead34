"""The options of the evaluation's commands."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from engine.cli.options import CheckpointOptions
from engine.cli.program import Options
from engine.config import StreamConfig, read_config
from eval.matching.turns import DEFAULT_ENCODER, ZeroCost


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(Options):
    """Settings of the scores."""

    encoder: str = DEFAULT_ENCODER
    """Text encoder."""
    dataset: str = ""
    """Name that chooses the match window, such as assembly101."""
    zero_cost: ZeroCost = "keep"
    """Keep or drop a match of cost 0, a perfect response on the exact frame; the published program drops it."""


@dataclass(frozen=True, kw_only=True)
class StreamOptions(CheckpointOptions):
    """The split, the checkpoint and the settings of its streams."""

    split: Positional[Path]
    """Manifest of the split; to tune thresholds, a validation split."""
    videos: Path | None = None
    """Folder to search recursively for videos of records whose video_path is missing or does not exist; a file name
    must be the record's video_id, video_uid or frames_file."""
    features: Path | None = None
    """Folder to keep frame embeddings in (float16), so that the next run need not encode the videos."""
    config: Path | None = None
    """YAML or JSON file of stream settings; its frame rate is not used, since each video has its own."""
    resume: bool = False
    """Keep the finished videos of --out, whose settings and model must be equal, and run the rest."""

    def stream_config(self, **thresholds: float | None) -> StreamConfig:
        """Return the settings of ``--config`` with the thresholds that are not None."""
        given = {name: value for name, value in thresholds.items() if value is not None}
        return read_config(self.config, fps=StreamConfig().fps, **given)


@dataclass(frozen=True, kw_only=True)
class RunOptions(ScoreOptions, StreamOptions):
    """Stream every video of a split, write a run folder and print the scores."""

    out: Path
    """Run folder to write; one that holds finished videos is refused without --resume, nothing is overwritten."""
    devices: Annotated[str, arg(aliases=("--device",))] = "auto"
    """auto (all GPUs, else one process on the CPU), cuda (all), cuda:0,cuda:1, mps, cpu, cpu:2 for two processes of one
    thread each, or a Ray cluster: ray (this machine's, or $RAY_ADDRESS) or ray://HOST:10001."""
    speak_threshold: float | None = None
    """Speak if the probability is greater (default: that of --config, or 0.5)."""
    update_threshold: float | None = None
    """Update if the probability is greater (default: that of --config, or 0.5)."""
    teacher_forced: bool = False
    """Add VideoLLM-online's scores, from a second, teacher-forced pass over each video."""

    stop_message: ClassVar[str] = "stopped; finished videos are in {0.out}, --resume runs the rest"


@dataclass(frozen=True, kw_only=True)
class SweepOptions(ScoreOptions, StreamOptions):
    """Score a split at every point of a grid of thresholds and print the best."""

    out: Path | None = None
    """Sweep folder to write: sweep.csv, sweep.json; a preview needs none."""
    speak: str = "0.1:0.9:9"
    """Speak thresholds: FIRST:LAST:NUMBER, or with commas."""
    update: str = "0.1:0.9:9"
    """Update thresholds: FIRST:LAST:NUMBER, or with commas."""
    preview: Path | None = None
    """Derive the decisions from the probabilities of this run folder, without a model; approximate, since different
    decisions change the context of the model."""
    metric: tuple[str, ...] = ()
    """Scores to choose the best point by; see docs/metrics.md (default: fewest failures where each point is run, then
    F1 of decisions)."""
    device: str = "auto"
    """auto, cuda:0, mps, cpu, or cpu:1 for one thread."""

    stop_message: ClassVar[str] = "stopped; --out keeps the finished videos, --resume runs the rest"


@dataclass(frozen=True, kw_only=True)
class ImportOptions(ScoreOptions):
    """Import result files of published systems into a run folder and score it."""

    files: Positional[tuple[Path, ...]]
    """ProAssist's results/*.json, or the output of VideoLLM-online's demo.cli."""
    split: Path
    """Manifest of the references."""
    out: Path
    """Run folder to write; it must be new or empty."""

    stop_message: ClassVar[str] = "stopped; {0.out} is not complete; remove it and import again"


@dataclass(frozen=True, kw_only=True)
class RescoreOptions(Options):
    """Score a run folder again, without a model, and replace its tables; settings that are not given stay."""

    run: Positional[Path]
    """Run folder."""
    split: Path | None = None
    """Manifest of the references (default: the split of the run); it must hold every video of the run."""
    encoder: str | None = None
    """Text encoder (default: that of the run)."""
    dataset: str | None = None
    """Name that chooses the match window (default: that of the run)."""
    zero_cost: ZeroCost | None = None
    """Keep or drop a match of cost 0 (default: as in the run)."""

    stop_message: ClassVar[str] = "stopped; score {0.run} again, if its tables were being written"


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    """Print the differences of two runs of one split, B minus A, with 95 % intervals and p-values.

    Both runs are scored with the settings of run A.
    """

    run_a: Positional[Path]
    """Run folder A."""
    run_b: Positional[Path]
    """Run folder B."""
    split: Path | None = None
    """Manifest of the references (default: the split of the runs)."""
    out: Path | None = None
    """CSV file to write as well."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclass(frozen=True, kw_only=True)
class MetricsOptions(Options):
    """Print the definition of every score, as in docs/metrics.md."""
