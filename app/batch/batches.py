"""What all windows share of the batch tab: the line of jobs, the splits, and the run folders."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.batch.jobs import Jobs
from eval.comparison import Comparison, compare_runs
from eval.matching import Encode
from eval.runs import RunFolder
from eval.samples import Split
from eval.worker import Work

FEATURES = ".features"
SWEEPS = ".sweeps"


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What all windows share of the batch tab; only the jobs change."""

    jobs: Jobs
    """The line of runs."""
    splits: Mapping[str, Split]
    """What can be run, by name."""
    runs: Path
    """Folder of the run folders; it is made when the first run begins."""
    work: Work
    """The page's checkpoint and settings."""
    takes_paths: bool
    """Whether other checkpoints may be named: on a page that only this machine sees."""

    def names(self) -> list[str]:
        """Return the names of the runs, the newest first; this server's own, which may have no folder, at the top."""
        folders = [path for path in self.runs.glob("*") if (path / "run.json").is_file()] if self.runs.is_dir() else []
        kept = sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)
        own = [job.name for job in reversed(self.jobs.all())]
        return list(dict.fromkeys([*own, *(path.name for path in kept)]))

    def split_of(self, settings: Mapping[str, Any]) -> Split | None:
        """Return the split of a run among those that the page knows."""
        return next((s for s in self.splits.values() if str(s.path.resolve()) == settings.get("split")), None)

    def compare(self, name: str, other: str, *, encode: Encode) -> Comparison:
        """Compare two runs of one split. Raises ``ValueError`` saying why they cannot be."""
        if not {name, other} <= set(self.names()):
            raise ValueError("there is no such run; choose one from the list")
        of = [self.split_of(self.settings_of(run)) for run in (name, other)]
        if of[0] is None or of[0] is not of[1]:
            raise ValueError(f"{name} and {other} are not runs of one split that this page has")
        return compare_runs(self.runs / name, self.runs / other, of[0], self.jobs.scoring, encode=encode)

    def settings_of(self, name: str | None) -> Mapping[str, Any]:
        """Return what ``run.json`` of a run says; nothing for an unknown one."""
        if name is None or name not in self.names():
            return {}
        return RunFolder(self.runs / name).settings() or {}
