"""The options of the exports' commands."""

from dataclasses import dataclass, field
from os import environ
from pathlib import Path
from typing import ClassVar, Final

from tyro.conf import Positional, UseAppendAction

from stepscope.app.exports.corrected_split import PathBase
from stepscope.app.exports.formats import FormatName
from stepscope.engine.cli.program import Options
from stepscope.eval.data.writers import FileFormat, OptionalField

STORE: Final = Path("runs") / "reviews.sqlite"


@dataclass(frozen=True, kw_only=True)
class StoreOptions(Options):
    """The review store."""

    reviews: str | None = None
    """Review store: a file or an SQLAlchemy URL (default: runs/reviews.sqlite)."""

    stop_message: ClassVar[str] = "stopped"


@dataclass(frozen=True, kw_only=True)
class PreferOptions(StoreOptions):
    """The review store, and the reviewers who win conflicts."""

    prefer: UseAppendAction[tuple[str, ...]] = ()
    """Reviewer whose corrections win conflicts; the best first."""


@dataclass(frozen=True, kw_only=True)
class WriteOptions(PreferOptions):
    """Write predictions, references, states, verdicts and corrections of a run."""

    run: Positional[Path]
    """Run folder of a split, or the file of a split for its references alone."""
    format: FormatName
    """Format to write."""
    out: Path
    """Folder to write into."""
    split: Path | None = None
    """File of the references (default: the split of the run)."""
    split_name: str | None = None
    """Name of the split in a dataset folder (default: that of the file)."""


@dataclass(frozen=True, kw_only=True)
class TracesOptions(Options):
    """Write one CSV row per frame of a run, and the run's provenance as JSON."""

    run: Positional[Path]
    """Run folder of a split."""
    out: Path
    """Folder to write into."""
    split: Path | None = None
    """File of the references (default: the split of the run)."""
    video: UseAppendAction[tuple[str, ...]] = ()
    """Only the video with this id."""


@dataclass(frozen=True, kw_only=True)
class SplitOptions(PreferOptions):
    """Write a split with corrected references."""

    split: Positional[Path]
    """File of the references."""
    out: Path
    """File to write."""
    format: FileFormat = "manifest"
    """Format to write."""
    omit: UseAppendAction[tuple[OptionalField, ...]] = ()
    """Detail to omit."""
    relative_to: PathBase = "out"
    """Base of a manifest's video paths: the written file, or the source split, as in the page's export."""


@dataclass(frozen=True, kw_only=True)
class ImportOptions(StoreOptions):
    """Store the changes of edited ELAN documents as corrections."""

    files: Positional[tuple[Path, ...]]
    """ELAN documents, .eaf."""
    split: Path
    """File of the references."""
    reviewer: str
    """Reviewer of the corrections."""
    allow_deletions: bool = False
    """Delete the turns of missing tiers; by default such a document is refused."""


@dataclass(frozen=True, kw_only=True)
class AgreementOptions(StoreOptions):
    """Print the agreement of the reviewers, then the events with differing verdicts."""


@dataclass(frozen=True, kw_only=True)
class PruneOptions(StoreOptions):
    """List the actions of a reviewer, of a video or since a time; set them aside, or apply them again."""

    reviewer: str | None = None
    """Only the actions under this name."""
    video: str | None = None
    """Only the actions on this video."""
    since: str | None = None
    """Only the actions from this time on, such as 2026-05-01T14:00, in local time without an offset."""
    restore: bool = False
    """Apply actions again that were set aside."""
    apply: bool = False
    """Change the store; by default the actions are only counted."""


@dataclass(frozen=True, kw_only=True)
class AssignOptions(StoreOptions):
    """Assign videos to reviewers, and print what each of them has done; without --to only print it."""

    run: Positional[Path]
    """Run folder of a split, or the file of a split to review its references alone."""
    to: str | None = None
    """Reviewers, with commas between them."""
    overlap: float = 0.0
    """Percentage of the videos that two reviewers get, rounded up to whole videos."""
    slice: str | None = None
    """Only the videos of this slice of the page."""
    by: str = field(default_factory=lambda: environ.get("USER") or "unknown")
    """Name of the person who assigns the videos (default: the user of this machine)."""
    seed: int = 0
    """Selects the videos of the overlap, and who gets which of equal videos."""
