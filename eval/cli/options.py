"""The options of the evaluation's commands."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from tyro.conf import Positional, arg

from stepscope.engine.cli.options import DecodingOptions, LoadingOptions, TaskOptions
from stepscope.engine.cli.program import Options
from stepscope.engine.config import ContextStrategy, StreamConfig
from stepscope.engine.config_files import read_config
from stepscope.engine.decisions.signals import SignalPolicy
from stepscope.eval.matching.turns import DEFAULT_ENCODER, ZeroCost
from stepscope.eval.reports.table_formats import TableFormat
from stepscope.eval.runs.imports.system_output import SignalRule


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
class StreamOptions(DecodingOptions, LoadingOptions):
    """The split, the checkpoint and the settings of its streams."""

    split: Positional[Path]
    """Manifest of the split; to tune thresholds, a validation split."""
    videos: Path | None = None
    """Folder to search recursively for videos of records whose video_path is missing or does not exist; a file name
    must be the record's video_id, video_uid or frames_file."""
    features: Path | None = None
    """Folder to keep frame embeddings in (float16), so that the next run need not encode the videos."""
    preset: str = ""
    """Settings of a published assistant by name, or of a file of your own; stepscope presets lists them. --config and
    other options win."""
    config: Path | None = None
    """YAML or JSON file of stream settings; its frame rate, or that of --preset, is not used, since a video of a split
    has that of the split."""
    answer_user_turns: bool = False
    """The assistant must answer each user turn of the references at its frame, also below the speak threshold."""
    context_strategy: ContextStrategy | None = None
    """How a full context becomes shorter (default: that of --config, or refresh)."""
    resume: bool = False
    """Keep the finished videos of --out, whose settings and model must be equal, and run the rest."""

    def stream_config(self, **thresholds: float | None) -> StreamConfig:
        """Return the settings of ``--config`` with the options, and with the thresholds that are not None."""
        settings = {
            **thresholds,
            "context_strategy": self.context_strategy,
            "answer_user_turns": self.answer_user_turns or None,
        }
        given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        return read_config(self.config, preset=self.preset, fps=StreamConfig().fps, **given)


@dataclass(frozen=True, kw_only=True)
class EvalOptions(ScoreOptions, StreamOptions):
    """Stream every video of a split, write a run folder and print the scores."""

    out: Path | None = None
    """Run folder to write; one that holds finished videos is refused without --resume, nothing is overwritten."""
    estimate: float | None = None
    """Instead of a run folder: run the split for this many seconds, and print the time, memory and storage of all."""
    devices: Annotated[str, arg(aliases=("--device",))] = "auto"
    """auto (all GPUs, else one process on the CPU, the fastest on few cores), cuda (all), cuda:0,cuda:1, mps, cpu,
    cpu:2 for two processes of one thread each, or a Ray cluster: ray (this machine's, or $RAY_ADDRESS) or ray://HOST:10001."""
    speak_threshold: float | None = None
    """Speak if the probability is greater (default: that of --config, or 0.5)."""
    update_threshold: float | None = None
    """Update if the probability is greater (default: that of --config, or 0.5)."""
    batch_size: int | None = None
    """Videos per forward pass of a worker; the results are the same (default: from the free memory, at most 16 on a
    CPU and 32 on a GPU)."""
    teacher_forced: bool = False
    """Add VideoLLM-online's scores, from a second, teacher-forced pass over each video."""
    trackio: str | None = None
    """Also send the scores to this project of trackio, which must be installed, as a run named like --out."""

    stop_message: ClassVar[str] = "stopped; finished videos are in {0.out}, --resume runs the rest"


@dataclass(frozen=True, kw_only=True)
class SweepOptions(ScoreOptions, StreamOptions):
    """Score a split at every point of a grid of thresholds and print the best."""

    out: Path | None = None
    """Sweep folder to write: sweep.csv, sweep.json; a preview needs none."""
    speak: str | None = None
    """Speak thresholds: FIRST:LAST:NUMBER, or with commas (default: 0.1:0.9:9; nine of a named signal)."""
    update: str | None = None
    """Update thresholds, likewise; a checkpoint that decides by a silent token has none."""
    preview: Path | None = None
    """Derive the decisions from the probabilities of this run folder, without a model; approximate, since different
    decisions change the context of the model."""
    signal: tuple[str, ...] = ()
    """With --preview: the signals that decide, one to speak and one to update, such as speak_prob or a named one
    (default: the probabilities that the run has, else its first named signals)."""
    metric: tuple[str, ...] = ()
    """Scores to choose the best point by; see docs/metrics.md (default: fewest failures where each point is run, then
    F1 of decisions)."""
    device: str = "auto"
    """auto, cuda:0, mps, cpu, or cpu:1 for one thread."""
    batch_size: int | None = None
    """Videos per forward pass; the results are the same (default: from the free memory, at most 16 on a CPU and 32 on a
    GPU)."""

    stop_message: ClassVar[str] = "stopped; --out keeps the finished videos, --resume runs the rest"


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(Options):
    """Find by experiment why a run failed: its roots, what follows from each, and what would prevent them.

    The run is streamed again with corrections and changes. diagnosis.json and diagnosis.csv are written
    into the run folder; the same command continues a stopped diagnosis.
    """

    run: Positional[Path]
    """Run folder of a model that can run here."""
    video: str = ""
    """Video to explain alone (default: all); the controls are then those of the videos explained so far."""
    time: float | None = None
    """With --video: print the failure nearest to this time, in seconds; with --evidence, explain the decision there."""
    evidence: bool = False
    """Find the pictures and texts on which the decision at --time, or at each root, rests. VIDEO.evidence.json is
    written into the run folder. With --time, nothing is diagnosed, so that no reference is needed."""
    experiments: Path | None = None
    """YAML file of your own changes: names mapped to goal, steps and settings; docs/why.md describes it."""
    max_cost: float = 10.0
    """Most cost in runs, of the diagnosis and again of the evidence. What is over it is left out: the most expensive
    experiments, and the roots with the fewest consequences."""
    checkpoint: str = ""
    """Checkpoint folder or hub id (default: that of the run); it must be the same model."""
    heads: Path | None = None
    """Heads file, if the run had one."""
    features: Path | None = None
    """Folder of frame embeddings, if the run had one."""
    videos: Path | None = None
    """Folder to search for videos that are not where the split names them."""
    devices: Annotated[str, arg(aliases=("--device",))] = "auto"
    """Devices separated by commas, cpu:2 for two processes, or a Ray cluster, as of `stepscope eval`."""

    stop_message: ClassVar[str] = (
        "stopped; {0.run}/diagnosis.json keeps the finished videos, the same command continues"
    )


@dataclass(frozen=True, kw_only=True)
class ImportRunOptions(ScoreOptions):
    """Import result files of other systems into a run folder and score it."""

    files: Positional[tuple[Path, ...]]
    """Results of ProAssist, VideoLLM-online, MMDuet, ProactiveVideoQA, MiniCPM-o-Demo, Streamo, JoyAI-VL, Em-Garde,
    Omni-DuplexEval, Qualcomm Interactive Cooking, QEVD, EgoProactive, OmniPro, SPOT-Bench or StreamingVLM, also WebVTT;
    the form is recognised by content."""
    split: Path | None = None
    """Manifest of the references; without it, the run has no references and no scores."""
    fps: float | None = None
    """Without --split: frames per second of the files (default: the rate that they name, else 2)."""
    out: Path
    """Run folder to write; it must be new or empty."""
    threshold: float | None = None
    """Threshold at which a signal decides to speak, for files that hold signals and no threshold, such as those of
    MMDuet."""
    signal: str = ""
    """With --threshold: the signal that decides, such as informative_score (default: the only one that decides)."""
    policy: SignalPolicy = "above"
    """With --threshold: how values become decisions; docs/cli.md describes the choices."""

    stop_message: ClassVar[str] = "stopped; {0.out} is not complete; the same command imports again"

    @property
    def rule(self) -> SignalRule | None:
        """The rule of the signal that decides; None without a threshold."""
        if self.threshold is None:
            if self.signal or self.policy != "above":
                raise ValueError("--signal and --policy need --threshold")
            return None
        return SignalRule(signal=self.signal, policy=self.policy, threshold=self.threshold)


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(Options):
    """The judge of contents."""

    judge: str = ""
    """OpenAI-compatible endpoint that grades replies, such as http://localhost:8000/v1 (default: cosine bands,
    offline). The key is read from $STEPSCOPE_API_KEY or $OPENAI_API_KEY; answers are kept in the first run folder."""
    judge_model: str = ""
    """Name of the model that grades."""


@dataclass(frozen=True, kw_only=True)
class RescoreOptions(JudgeOptions):
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
class LeaderboardOptions(Options):
    """Print the scores of runs of one split as a table.

    All runs are scored with the settings of the first one, over the videos that are finished in all of them.
    """

    runs: Positional[tuple[Path, ...]]
    """Run folders: own, recorded or imported."""
    metric: tuple[str, ...] = ()
    """Scores in the columns; see docs/metrics.md (default: those of eval/reports/leaderboard.py). A protocol, such as
    spot-pnr:k=1, stands for its main score; see docs/protocols.md."""
    sort: str = ""
    """Column that sorts the rows, best first (default: the order of the runs)."""
    format: TableFormat = "markdown"
    """markdown, csv or latex."""
    baselines: bool = False
    """Add rows of assistants without a model: always silent, always speaking, the reference 1 s late, and random at the
    rate of each run."""
    split: Path | None = None
    """Manifest of the references (default: the split of the runs)."""
    out: Path | None = None
    """File to write (default: print)."""


@dataclass(frozen=True, kw_only=True)
class ProtocolsOptions(JudgeOptions):
    """Print the scores of runs of one split under published protocols, side by side; without a run the definitions.

    All runs are scored with the text encoder of the first one, over the videos that are finished in all of them.
    """

    runs: Positional[tuple[Path, ...]] = ()
    """Run folders: own, recorded or imported."""
    protocol: tuple[str, ...] = ()
    """Protocols, with own parameters after a colon: omnipro spot-pnr:k=1 (default: all with the published ones)."""
    baselines: bool = False
    """Add rows of assistants without a model, as in the leaderboard."""
    turns: bool = False
    """Print the reference turns that are met under some protocols and missed under others."""
    latex: bool = False
    """Print LaTeX, with a footnote per protocol that states its rule, instead of Markdown."""
    split: Path | None = None
    """Manifest of the references (default: the split of the runs)."""
    out: Path | None = None
    """CSV file to write as well: each number with protocol, parameters, judge and text encoder."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """Print the moments of runs that match a search, such as 'wheel failure:missed cause:swap near:0.05'.

    A term is a word or "a phrase" of the message or the reference, or field:value; -term excludes. Fields are is
    (message, update, state, user, near), failure (a kind, any, root or consequence), class (of its root), cause, step,
    video and near, and as numbers time, delay, latency, prob, margin and root (delay>2).
    """

    query: Positional[str]
    """The terms; all must match."""
    runs: Positional[tuple[Path, ...]]
    """Scored run folders."""
    limit: int = 50
    """Greatest number of printed moments."""
    out: Path | None = None
    """CSV file to write as well, with all moments."""


@dataclass(frozen=True, kw_only=True)
class RunsOptions(Options):
    """Print the runs of a folder, the newest first: their notes, the settings that differ, and their own scores."""

    folder: Positional[Path]
    """Folder that holds the run folders."""
    search: str = ""
    """Terms that must all match: a word or "a phrase" of name, note, tags, group or settings, or tag:NAME, group:NAME,
    or a setting with its beginning, such as seed:3; -term excludes."""
    metric: tuple[str, ...] = ()
    """Scores in the columns; see docs/metrics.md (default: those of the leaderboard)."""
    archived: bool = False
    """Print archived runs as well."""
    csv: Path | None = None
    """CSV file to write as well."""


@dataclass(frozen=True, kw_only=True)
class NoteOptions(Options):
    """Change the notes of a run in notes.json of its folder, and print them; what is not given stays."""

    run: Positional[Path]
    """Run folder."""
    note: str | None = None
    """Text that replaces the note."""
    tag: tuple[str, ...] = ()
    """Tags to add."""
    untag: tuple[str, ...] = ()
    """Tags to remove."""
    group: str | None = None
    """Group that replaces the present one."""
    archive: bool = False
    """Leave the run out of lists; nothing is deleted."""
    unarchive: bool = False
    """List the run again."""


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
    protocol: tuple[str, ...] = ()
    """Compare the scores of these published protocols instead: omnipro spot-pnr:k=1; see docs/protocols.md."""
    latex: bool = False
    """With --protocol: print LaTeX, with a footnote per protocol that states its rule."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclass(frozen=True, kw_only=True)
class RecoverOptions(Options):
    """Complete the recording of a live session whose process was killed."""

    folder: Positional[Path]
    """The run folder of the session."""


@dataclass(frozen=True, kw_only=True)
class SchemaOptions(Options):
    """Print the JSON Schema of the files of a run folder, as in docs/run-folder.schema.json."""


@dataclass(frozen=True, kw_only=True)
class MetricsOptions(Options):
    """Print the definition of every score, as in docs/metrics.md."""


@dataclass(frozen=True, kw_only=True)
class LiveCommandOptions(TaskOptions):
    """Stream a live source in real time and record the session as a run folder; each line typed is a question."""

    source: Positional[str]
    """A URL, such as rtsp://camera.local/stream or http://host/video.mjpg, or a video file, played at its speed."""
    out: Path
    """Run folder to write, new or empty: video, outputs, and a split that refers to the video."""
    queue_frames: int = 4
    """Frames that may wait before the encoder, and before the model; the oldest ones without a question are dropped."""
    on_time_s: float = 1.0
    """Maximum lag of a frame that counts as decided in time, in seconds."""
    stall_s: float = 30.0
    """Maximum time without a picture, in seconds; a lost connection is tried again meanwhile."""

    stop_message: ClassVar[str] = "stopped"
