"""The state of the batch tab that all windows share: the job queue, the splits and the run folders."""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import pandas as pd

from stepscope.app.core.job_queue import JobQueue
from stepscope.app.core.places import RecentSessions
from stepscope.app.core.saved import BUNDLED_NAME
from stepscope.app.core.videos import draw_thumbnail
from stepscope.app.formatting import shorten_ids
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.io.hub_cache import name_file
from stepscope.engine.records import FrameOutput
from stepscope.eval.annotations.corrected_samples import CorrectedSample, apply_corrections
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.matched_video import JudgedVideo
from stepscope.eval.metrics.score import analyze_video
from stepscope.eval.reports.compare_runs import Comparison, compare_runs
from stepscope.eval.reports.entries import find_finished
from stepscope.eval.reports.scoring import ScoreSettings, make_video_row, read_score_settings
from stepscope.eval.reports.search import DIAGNOSED, DIAGNOSED_TERM, Marks, search_folders
from stepscope.eval.reports.table_files import Row, read_metrics
from stepscope.eval.runs.folder import OWN_SPLIT, RunFolder, explain_unscored, has_states
from stepscope.eval.runs.imports.recorded_sound import find_answer
from stepscope.eval.runs.notes import read_notes
from stepscope.eval.runs.worker_messages import WorkerConfig

FEATURES_FOLDER = ".features"
SWEEPS_FOLDER = ".sweeps"
SPLITS_FOLDER = ".splits"


@dataclass(frozen=True, kw_only=True)
class BatchContext:
    """State of the batch tab that all windows share. Only ``jobs`` and ``splits`` are mutable."""

    jobs: JobQueue
    splits: MutableMapping[str, Split]
    """Splits that can be run, by name; users may add splits."""
    runs: Path
    """Parent of the run folders; created when the first run starts."""
    bundled: Path | None = None
    """Folder of the run that comes with the program; None if the page lacks its split. It is never written."""
    work: WorkerConfig
    """Checkpoint and settings of the page."""
    takes_paths: bool
    """Whether users may enter paths, devices and addresses: on a page that is served to this machine only."""
    private: tuple[Path, ...] = ()
    """Files that must never be served: the review store and the passwords."""
    marks: Callable[[], Marks] = dict
    """Returns the verdicts and tags of the reviewers, by event; empty in blind mode."""
    is_blind: bool = False
    """Whether reviews are blind: reasons cannot be searched."""
    recent: RecentSessions = field(default_factory=RecentSessions)
    """Knows which splits lists show to a visitor."""
    correct: Callable[[Sample], CorrectedSample] = field(default=partial(apply_corrections, corrections=()))
    """Returns a sample with the corrections of the reviewers; in blind mode without any."""

    def run_names(self) -> list[str]:
        """Return the names of the runs: those of the job queue, which may lack a folder, then by age, newest first.

        The bundled run is the last. Folders whose names are not valid UTF-8 are skipped: a browser cannot send them.
        """
        found = self.runs.glob("*/run.json") if self.runs.is_dir() else ()
        files = [path for path in found if replace_surrogates(path.parent.name) == path.parent.name and path.is_file()]
        # the time of the folder itself would change with each note
        kept = [path.parent for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)]
        own = [job.name for job in reversed(self.jobs.all())]
        bundled = [BUNDLED_NAME] if self.bundled is not None else []
        return list(dict.fromkeys([*own, *(path.name for path in kept), *bundled]))

    def listed_runs(self, shown: str | None = None) -> list[str]:
        """Return the runs that lists offer, as ``run_names``: those that are not archived, and the shown one."""
        return [name for name in self.visible_runs() if name == shown or not _is_archived(self.folder(name))]

    def visible_runs(self) -> list[str]:
        """Return the runs whose splits lists show to the visitor, as ``run_names``, and those with a damaged file."""
        return [name for name in self.run_names() if not self.recent.has_visitors or self._is_visible(name)]

    def _is_visible(self, name: str) -> bool:
        with suppress(ValueError, OSError):
            return self.recent.is_split_listed(Path(str(self.settings_of(name).get("split") or OWN_SPLIT)))
        return True

    def listed_splits(self) -> dict[str, Split]:
        """Return the splits that lists show to the visitor, by name."""
        return {name: split for name, split in self.splits.items() if self.recent.is_split_listed(split.path)}

    def folder(self, name: str) -> Path:
        """Return the folder of a run by its name; a run of the user goes before the bundled one of the same name."""
        own = self.runs / name
        is_bundled = self.bundled is not None and name == BUNDLED_NAME and not own.exists()
        return self.bundled if is_bundled and self.bundled is not None else own

    def need_run(self, name: str) -> RunFolder:
        """Return the folder of a run. Raises ``ValueError`` if there is none of this name."""
        if name not in self.run_names():
            raise ValueError(f"there is no run {name!r}; choose one from the list")
        return RunFolder(self.folder(name))

    def split_of(self, settings: Mapping[str, Any]) -> Split | None:
        """Return the split of a run's settings, or that in the folder of a run that has its own; None without one.

        Runs that were recorded, also while the page is up, have their own. Raises ``ValueError`` if it cannot be read.
        """
        path = settings.get("split")
        known = next((split for split in self.splits.values() if name_file(split.path) == path), None)
        if known is not None or not isinstance(path, str):
            return known
        own = Path(path)
        is_own = own.name == OWN_SPLIT and own.parent.parent == self.runs.resolve() and own.is_file()
        return _read_own_split(own, own.stat().st_mtime_ns) if is_own else None

    def find_split(self, name: str | None) -> Split | None:
        """Return the split of a run; None if the page lacks it, or ``run.json`` cannot be read.

        A run that is queued, or has just begun, has no ``run.json`` yet.
        """
        job = self.jobs.find(name or "")
        with suppress(ValueError, OSError):
            return self.split_of(self.settings_of(name)) or (None if job is None else job.split)
        return None

    def find_sample(self, name: str, video_id: str) -> Sample | None:
        """Return a video of the split of a run; None if the page lacks it."""
        split = self.find_split(name)
        return None if split is None else split.find(video_id)

    def list_finished(self, *names: str) -> Set[str]:
        """Return the ids of the videos that all of these runs, of one split, have finished."""
        split, known = self.find_split(names[0]), set(self.run_names())
        if split is None or not known.issuperset(names):
            return set()
        return set.intersection(*(find_finished(RunFolder(self.folder(name)), split) for name in names))

    def is_streaming(self, *names: str) -> bool:
        """Whether the jobs of these runs have not all ended."""
        return any(job is not None and not job.is_over for job in map(self.jobs.find, names))

    def need_split(self, name: str | None) -> Split:
        """Return the split of a run. Raises ``ValueError`` with the remedy if the page lacks it."""
        if not name:
            raise ValueError("choose a run")
        settings = self.settings_of(name)
        split = self.split_of(settings)
        if split is None:
            self.need_run(name)
            file = Path(str(settings.get("split") or "its split")).name
            raise ValueError(f"the page lacks {file}, the split of {name}; add it with --split or Another split")
        return split

    def search(self, names: Iterable[str], query: str) -> pd.DataFrame:
        """Search the moments of runs; in blind mode no reason. Raises ``ValueError`` if none is scored, or as below."""
        if self.is_blind and DIAGNOSED_TERM.search(query):
            raise ValueError("reviews are blind here: a reason is shown after your verdict, and cannot be searched")
        lacking = {name: self.explain_no_moments(name) for name in names}
        folders = {name: self.folder(name) for name, why in lacking.items() if not why}
        if not folders:
            raise ValueError(f"moments are searched {next(iter(lacking.values()), 'once a run is scored')}")
        found = search_folders(folders, query, marks=self.marks())
        return found.assign(**dict.fromkeys(DIAGNOSED, "")) if self.is_blind else found

    def explain_no_moments(self, name: str) -> str:
        """Return when a run will have a table of moments, such as "once it has ended"; empty if it has one."""
        if (self.folder(name) / "moments.csv").is_file():
            return ""
        if (job := self.jobs.find(name)) is not None and not job.is_over:
            return "once the run has ended"
        return (
            "once all videos of the run are finished: continue it"
            if self.is_unfinished(name)
            else "once the run is scored: score it"
        )

    def need_common_split(self, *names: str) -> Split:
        """Return the split of runs. Raises ``ValueError`` if a run does not exist, or they are of different splits."""
        split, *others = [self.need_split(name) for name in names if self.need_run(name)]
        if any(other is not split for other in others):
            raise ValueError("the runs are of different splits; choose runs of one split")
        return split

    def find_answer(self, name: str, video_id: str, number: int) -> Path | None:
        """Return the recorded sound of an answer of a run; None without it."""
        try:
            return find_answer(RunFolder(self.folder(name)), video_id, number) if name in self.run_names() else None
        except ValueError:  # an invalid run.json
            return None

    def recorded_rows(self, name: str) -> list[Row]:
        """Return the videos of a recorded run, or of a live session, as rows without scores; empty for any other."""
        run = RunFolder(self.folder(name))
        split = self.split_of(self.settings_of(name)) if self.is_recorded(name) else None
        found = [(entry, run.record(entry.video_id)) for entry in split.entries] if split is not None else []
        return [
            make_video_row(
                record.video_id,
                error=record.error,
                warning="" if record.error else explain_unscored(entry, record) or "no scores yet",
            )
            for entry, record in found
            if record is not None
        ]

    def is_recorded(self, name: str) -> bool:
        """Return whether a run was recorded by another program or a live session, and is not a job of the page."""
        settings, own_split = self.settings_of(name), self.folder(name).resolve() / OWN_SPLIT
        return bool(settings.get("recorded")) or (bool(settings) and settings.get("split") == str(own_split))

    def is_unfinished(self, name: str) -> bool:
        """Return whether a start with the settings of a run would continue it; False for an invalid ``run.json``."""
        with suppress(ValueError):
            is_made_here = bool(self.settings_of(name).get("checkpoint")) and not self.is_recorded(name)
            return is_made_here and not self.is_streaming(name) and not _is_scored(self.folder(name))
        return False

    def newest_run(self) -> str | None:
        """Return the run to open: that of an active job, else the newest with scores, else the newest."""
        names, active = self.listed_runs(), [job.name for job in self.jobs.active_jobs()]
        if found := [name for name in active if name in names]:
            return found[0]
        return next((name for name in names if _is_scored(self.folder(name))), names[0] if names else None)

    def compare(self, name: str, other: str, *, encode: Encode) -> Comparison:
        """Compare two runs of one split, scored with the settings of the first.

        Raises ``ValueError`` if a run does not exist, or the runs are of different splits.
        """
        split, (a, b) = self.need_common_split(name, other), map(self.folder, (name, other))
        scoring = self.scoring_of(self.settings_of(name))
        return compare_runs(a, b, split, scoring, encode=encode)

    def comparable_runs(self, name: str) -> list[str]:
        """Return the names of the other runs of a run's split, as ``run_names``; all while its split is unknown."""
        names, split = [other for other in self.listed_runs() if other != name], self.find_split(name)
        return names if split is None else [other for other in names if self.find_split(other) is split]

    def video_names(self, name: str | None) -> Mapping[str, str]:
        """Return the short names of a run's videos in tables, by id; empty if the page lacks the split."""
        split = self.find_split(name)
        return shorten_ids(entry.video_id for entry in split.entries) if split is not None else {}

    def find_video(self, name: str | None, short_name: str) -> str:
        """Return the id of the video with a short name in the tables of a run."""
        return next((video_id for video_id, short in self.video_names(name).items() if short == short_name), short_name)

    def find_picture(self, name: str, video_id: str, time_s: float) -> bytes | None:
        """Return a small JPEG of a video of a run at a time; None without it."""
        sample = self.find_sample(name, video_id) if name in self.run_names() else None
        return None if sample is None else draw_thumbnail(sample, time_s)

    def make_judge(self, name: str | None) -> Callable[[Sample, Sequence[FrameOutput]], JudgedVideo]:
        """Return a function that analyses the outputs of a run with the settings of its scoring."""
        settings = self.settings_of(name)
        scoring, is_stateful = self.scoring_of(settings), has_states(settings)

        def judge(sample: Sample, outputs: Sequence[FrameOutput]) -> JudgedVideo:
            return analyze_video(
                sample,
                outputs,
                encode=self.jobs.encode,
                dataset=scoring.dataset,
                zero_cost=scoring.zero_cost,
                has_states=is_stateful,
            ).judged

        return judge

    def scoring_of(self, settings: Mapping[str, Any]) -> ScoreSettings:
        """Return the scoring settings of a run, with the text encoder of the page. Raises ``ValueError`` if invalid."""
        return read_score_settings(settings, default=self.jobs.scoring)

    def settings_of(self, name: str | None) -> Mapping[str, Any]:
        """Return the contents of a run's ``run.json``; empty for an unknown run. Raises ``ValueError`` if invalid."""
        if not name or name == ".." or Path(name).name != name:  # a path is no name of a run
            return {}
        return RunFolder(self.folder(name)).settings() or {}


def unused_folder(folder: Path) -> Path:
    """Return the folder if it is empty or missing, else the first such of ``<folder>-2``, ``-3`` and so on.

    A folder with contents is another session, or an unreadable sweep, which cannot be continued.
    """
    folders = chain([folder], (folder.with_name(f"{folder.name}-{number}") for number in count(2)))
    return next(path for path in folders if not path.exists() or (path.is_dir() and not any(path.iterdir())))


def _is_archived(folder: Path) -> bool:
    try:
        return read_notes(folder).archived
    except (ValueError, OSError):
        return False


def _is_scored(folder: Path) -> bool:
    try:
        return bool(read_metrics(folder).get("num_videos"))
    except (ValueError, OSError):
        return False


@lru_cache(maxsize=64)
def _read_own_split(path: Path, changed_ns: int) -> Split:
    """Read the split in the folder of a run, again for a new time of change ``changed_ns``."""
    return read_split(path)
