"""What all windows share of the batch tab: the line of jobs, the splits, and the run folders."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app.batch.job_queue import Jobs
from app.formatting import shorten_ids
from engine.io import replace_surrogates
from engine.records import FrameOutput
from eval.data.samples import Sample, Split
from eval.matching.turns import Encode
from eval.metrics.failures import JudgedVideo, judge_video
from eval.reports.compare_runs import Comparison, compare_runs
from eval.reports.scoring import ScoreSettings, read_scoring
from eval.runs.folder import RunFolder
from eval.runs.worker import Work

FEATURES = ".features"
SWEEPS = ".sweeps"
OWN_SPLITS = ".splits"


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What all windows share of the batch tab; only jobs and splits change."""

    jobs: Jobs
    """The line of runs."""
    splits: MutableMapping[str, Split]
    """Splits that can be run, by name; windows add others."""
    runs: Path
    """Folder of the run folders; it is made when the first run begins."""
    work: Work
    """The page's checkpoint and settings."""
    takes_paths: bool
    """Whether other checkpoints may be named: on a page that only this machine sees."""
    private: tuple[Path, ...] = ()
    """Files that are handed out under no name: the store of reviews and the passwords."""

    marks: Callable[[], Mapping[str, frozenset[str]]] = dict
    """Returns the verdicts and tags of reviewers, by video, as far as they may be seen here."""

    def names(self) -> list[str]:
        """Return the names of the runs, the newest first; this server's own, which may have no folder, at the top.

        A folder whose name UTF-8 cannot hold is left out: no browser could name it.
        """
        found = self.runs.glob("*") if self.runs.is_dir() else ()
        folders = [
            path for path in found if replace_surrogates(path.name) == path.name and (path / "run.json").is_file()
        ]
        kept = sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)
        own = [job.name for job in reversed(self.jobs.all())]
        return list(dict.fromkeys([*own, *(path.name for path in kept)]))

    def split_of(self, settings: Mapping[str, Any]) -> Split | None:
        """Return the split of a run among those that the page knows."""
        return next((s for s in self.splits.values() if str(s.path.resolve()) == settings.get("split")), None)

    def compare(self, name: str, other: str, *, encode: Encode) -> Comparison:
        """Compare two runs of one split, both scored as the first is. Raises ``ValueError`` where they cannot be."""
        if not {name, other} <= set(self.names()):
            raise ValueError("there is no such run; choose one from the list")
        of = [self.split_of(self.settings_of(run)) for run in (name, other)]
        if of[0] is None or of[0] is not of[1]:
            raise ValueError(f"{name} and {other} are not runs of one split that this page has")
        scoring = self.scoring_of(self.settings_of(name))
        return compare_runs(self.runs / name, self.runs / other, of[0], scoring, encode=encode)

    def video_names(self, name: str | None) -> Mapping[str, str]:
        """Return what tables call the videos of a run, by id; nothing for a run of no split that the page has."""
        try:
            split = self.split_of(self.settings_of(name))
        except ValueError:  # run.json cannot be read, so its split is not known
            split = None
        return shorten_ids(entry.video_id for entry in split.entries) if split is not None else {}

    def find_video(self, name: str | None, called: str) -> str:
        """Return the id of a video of a run that tables call so."""
        return next((video_id for video_id, short in self.video_names(name).items() if short == called), called)

    def judge_of(self, name: str | None) -> Callable[[Sample, Sequence[FrameOutput]], JudgedVideo]:
        """Return what judges the outputs of a run, by the settings that it was scored with."""
        scoring = self.scoring_of(self.settings_of(name))
        return partial(judge_video, encode=self.jobs.encode, dataset=scoring.dataset, zero_cost=scoring.zero_cost)

    def scoring_of(self, settings: Mapping[str, Any]) -> ScoreSettings:
        """Return how a run is scored; texts are compared by the page's encoder. Raises ``ValueError`` if not known."""
        return read_scoring(settings, default=self.jobs.scoring)

    def settings_of(self, name: str | None) -> Mapping[str, Any]:
        """Return what ``run.json`` of a run says; nothing for an unknown one."""
        if name is None or name not in self.names():
            return {}
        return RunFolder(self.runs / name).settings() or {}
