"""The state of the batch tab that all windows share: the job queue, the splits and the run folders."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.batch.job_queue import JobQueue
from app.formatting import shorten_ids
from engine.io import replace_surrogates
from engine.records import FrameOutput
from eval.data.samples import Sample, Split
from eval.matching.turns import Encode
from eval.metrics.failures import JudgedVideo
from eval.metrics.score import analyze_video
from eval.reports.compare_runs import Comparison, compare_runs
from eval.reports.scoring import ScoreSettings, read_score_settings
from eval.runs.folder import RunFolder
from eval.runs.worker import WorkerConfig

FEATURES_FOLDER = ".features"
SWEEPS_FOLDER = ".sweeps"
SPLITS_FOLDER = ".splits"


@dataclass(frozen=True, kw_only=True)
class BatchContext:
    """State of the batch tab that all windows share. Only ``jobs`` and ``splits`` are mutable."""

    jobs: JobQueue
    """Queue of the runs."""
    splits: MutableMapping[str, Split]
    """Splits that can be run, by name; users may add splits."""
    runs: Path
    """Parent of the run folders; created when the first run starts."""
    work: WorkerConfig
    """Checkpoint and settings of the page."""
    takes_paths: bool
    """Whether users may enter paths of checkpoints and splits: on a page that is served to this machine only."""
    private: tuple[Path, ...] = ()
    """Files that must never be served: the review store and the passwords."""
    marks: Callable[[], Mapping[str, frozenset[str]]] = dict
    """Returns the verdicts and tags of the reviewers, by video; empty in blind mode."""

    def run_names(self) -> list[str]:
        """Return the names of the runs: those of the job queue, which may lack a folder, then by age, newest first.

        Folders whose names are not valid UTF-8 are skipped, since a browser cannot send them.
        """
        found = self.runs.glob("*") if self.runs.is_dir() else ()
        folders = [
            path for path in found if replace_surrogates(path.name) == path.name and (path / "run.json").is_file()
        ]
        kept = sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)
        own = [job.name for job in reversed(self.jobs.all())]
        return list(dict.fromkeys([*own, *(path.name for path in kept)]))

    def split_of(self, settings: Mapping[str, Any]) -> Split | None:
        """Return the split of a run's settings; None if the page does not have it."""
        return next((s for s in self.splits.values() if str(s.path.resolve()) == settings.get("split")), None)

    def compare(self, name: str, other: str, *, encode: Encode) -> Comparison:
        """Compare two runs of one split, scored with the settings of the first.

        Raises ``ValueError`` if a run does not exist, or the runs are of different splits.
        """
        if not {name, other} <= set(self.run_names()):
            raise ValueError("there is no such run; choose one from the list")
        split, other_split = (self.split_of(self.settings_of(run)) for run in (name, other))
        if split is None or split is not other_split:
            raise ValueError(f"{name} and {other} are not runs of the same split of this page")
        scoring = self.scoring_of(self.settings_of(name))
        return compare_runs(self.runs / name, self.runs / other, split, scoring, encode=encode)

    def video_names(self, name: str | None) -> Mapping[str, str]:
        """Return the short names of a run's videos in tables, by id; empty if the page lacks the split."""
        try:
            split = self.split_of(self.settings_of(name))
        except ValueError:  # run.json cannot be read, so the split is unknown
            split = None
        return shorten_ids(entry.video_id for entry in split.entries) if split is not None else {}

    def find_video(self, name: str | None, short_name: str) -> str:
        """Return the id of the video with a short name in the tables of a run."""
        return next((video_id for video_id, short in self.video_names(name).items() if short == short_name), short_name)

    def make_judge(self, name: str | None) -> Callable[[Sample, Sequence[FrameOutput]], JudgedVideo]:
        """Return a function that analyses the outputs of a run with the settings of its scoring."""
        scoring = self.scoring_of(self.settings_of(name))

        def judge(sample: Sample, outputs: Sequence[FrameOutput]) -> JudgedVideo:
            return analyze_video(
                sample, outputs, encode=self.jobs.encode, dataset=scoring.dataset, zero_cost=scoring.zero_cost
            ).judged

        return judge

    def scoring_of(self, settings: Mapping[str, Any]) -> ScoreSettings:
        """Return the scoring settings of a run, with the text encoder of the page. Raises ``ValueError`` if invalid."""
        return read_score_settings(settings, default=self.jobs.scoring)

    def settings_of(self, name: str | None) -> Mapping[str, Any]:
        """Return the contents of a run's ``run.json``; empty for an unknown run. Raises ``ValueError`` if invalid."""
        if name is None or name not in self.run_names():
            return {}
        return RunFolder(self.runs / name).settings() or {}
