"""The queue of background batch runs, which are run one at a time.

A job is independent of windows: closing the page does not end it, and every window can show it. Finished videos are in
its run folder at once, so a killed server loses nothing: starting the same run again continues it.
"""

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stepscope.app.formatting import as_sentence, name_files
from stepscope.engine.errors import EngineError
from stepscope.engine.imports import import_uncollected
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.score import VideoAnalysis
from stepscope.eval.metrics.text import TextScorer
from stepscope.eval.reports.scoring import ScoreSettings, make_analyzer, make_video_row, score_run, write_tables
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.imports.import_results import import_into
from stepscope.eval.runs.imports.system_output import SignalRule
from stepscope.eval.runs.output_folder import FolderRefusedError, lock_folder
from stepscope.eval.runs.worker_messages import Progress, WorkerConfig

if TYPE_CHECKING:
    from stepscope.eval.runs.batch import FinishedVideo

JobState = Literal["waiting", "running", "scoring", "done", "failed", "refused", "cancelled"]
Row = dict[str, str | float]


@dataclass(kw_only=True, eq=False)
class Job:
    """One batch run, the import of one, or the scoring of a recorded one.

    Only the thread of the queue writes its fields, except ``cancelled``.
    """

    folder: Path
    split: Split
    work: WorkerConfig | None = None
    """Checkpoint and settings; None for an import or a recorded run."""
    devices: str = ""
    """See ``eval.runs.batch.parse_devices``; empty for an import."""
    results: tuple[Path, ...] = ()
    """Result files of another system that are imported; empty for a run of the model."""
    rule: SignalRule | None = None
    """The rule by which a signal of those files decides; None for that of the files."""
    is_recorded: bool = False
    """Whether the folder has all outputs, which are only scored."""
    remarks: Mapping[str, str] = field(default_factory=dict)
    """Remarks on the scores of videos, by id."""
    scoring: ScoreSettings
    state: JobState = "waiting"
    """The last four values are final. A ``refused`` job has not changed its folder."""
    progress: Progress | None = None
    """Progress in frames; None until the first worker process has started."""
    rows: dict[str, Row] = field(default_factory=dict)
    """Scores of the finished videos, by video. Text scores follow at the end, since they need all videos."""
    analyses: dict[str, VideoAnalysis] = field(default_factory=dict)
    """Analyses of the finished videos, by video, until all videos are scored."""
    elapsed_s: float = 0.0
    """Seconds from its start, without the queue, to its end; 0 before."""
    problem: str = ""
    """Error of a failed job, or missing text scores of a finished one; empty without problems."""
    cancelled: bool = False
    """Whether ``JobQueue.cancel`` was called; the job ends after its current video."""

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return self.folder.name

    @property
    def is_over(self) -> bool:
        """Whether the state is final."""
        return self.state in ("done", "failed", "refused", "cancelled")


class JobQueue:
    """A queue of jobs with one worker thread.

    ``scoring`` has the settings of new runs, with the text encoder ``encode``; ``encoder`` its name, version and
    digest, with the keys of ``metrics.json``.
    """

    def __init__(
        self,
        *,
        encode: Encode,
        scoring: ScoreSettings,
        make_scorer: Callable[[], AbstractContextManager[TextScorer]] = TextScorer,
        encoder: Mapping[str, str] | None = None,
    ) -> None:
        self.scoring = scoring
        self._encoder = encoder or {}
        self.encode, self.make_scorer = encode, make_scorer
        self._jobs: list[Job] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def submit(self, job: Job) -> None:
        """Append a job to the queue. Raises ``ValueError`` if its folder has an active job."""
        with self._changed:
            if any(other.folder == job.folder and not other.is_over for other in self._jobs):
                raise ValueError(f"{job.name} is already running or queued; wait for it or cancel it")
            self._jobs = [other for other in self._jobs if other.folder != job.folder]
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_all, name="batch", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def cancel(self, name: str) -> None:
        """Cancel a job; finished videos are kept. A waiting job leaves the queue at once."""
        with self._changed:
            job = self.find(name)
            if job is None or job.is_over:
                return
            job.cancelled = True
            if job.state == "waiting":
                job.state = "cancelled"

    def find(self, name: str) -> Job | None:
        """Return the job with the name of a run folder, active or not; None if this server has none."""
        return next((job for job in self._jobs if job.name == name), None)

    def all(self) -> list[Job]:
        """Return all jobs, including finished ones, in the order of their submission."""
        return list(self._jobs)

    def active_jobs(self) -> list[Job]:
        """Return the waiting and running jobs, in the order of the queue."""
        return [job for job in self._jobs if not job.is_over]

    def _run_all(self) -> None:
        while True:
            with self._changed:
                while not (waiting := [job for job in self._jobs if job.state == "waiting"]):
                    self._changed.wait()
                job = waiting[0]
                job.state = "running"
            began_s = time.monotonic()
            try:
                self._run(job, began_s)
            except (EngineError, ValueError, OSError) as error:
                job.problem = name_files(as_sentence(error), [job.folder]).removesuffix(".")
                job.state = "refused" if isinstance(error, FolderRefusedError) else "failed"
            except Exception as error:  # a bug must not stop the queue; the page shows it
                warnings.warn(f"the batch run {job.name} ended: {error!r}", stacklevel=1)
                job.problem = f"{type(error).__name__}: {error}"
                job.state = "failed"
            job.analyses.clear()

    def _run(self, job: Job, began_s: float) -> None:
        problems: Mapping[str, str] = {}
        if job.is_recorded:
            job.state = "scoring"
        elif job.work is None:
            problems = import_into(job.folder, job.results, job.split, asdict(job.scoring), rule=job.rule)
        elif not self._stream(job, job.work):
            job.state = "cancelled"
            return
        job.state = "scoring"
        with ExitStack() as stack:
            if job.is_recorded:
                stack.enter_context(lock_folder(job.folder))  # the program that records it may still run
            scorer = stack.enter_context(self.make_scorer())
            scored = score_run(
                job.folder, job.split, job.scoring, encode=self.encode, scorer=scorer, analyses=job.analyses
            )
            rows = [{**row, "warning": job.remarks.get(str(row["video_id"]), row["warning"])} for row in scored.rows]
            scored = replace(scored, rows=tuple(rows), warnings={**scored.warnings, **job.remarks})
            write_tables(job.folder, scored, {**(RunFolder(job.folder).settings() or {}), **self._encoder})
        job.rows = {str(row["video_id"]): dict(row) for row in scored.rows}
        texts = [f"text scores are missing: {scored.text_problem}"] if scored.text_problem else []
        job.elapsed_s = time.monotonic() - began_s
        job.problem = name_files("; ".join([*problems.values(), *texts]), [*job.results, job.split.path])
        job.state = "done"

    def _stream(self, job: Job, work: WorkerConfig) -> bool:
        """Run the model over the videos of a job; return whether it was not cancelled."""
        samples = {sample.video_id: sample for sample in job.split.samples}
        batch = import_uncollected("stepscope.eval.runs.batch")  # the rest of the queue works without torch
        events = batch.run_batch(
            job.split, work, out=job.folder, devices=job.devices, resume=True, scoring=asdict(job.scoring)
        )
        with closing(events):
            for event in events:
                if isinstance(event, Progress):
                    job.progress = event
                else:
                    self._score(job, event, samples[event.record.video_id])
                if job.cancelled:
                    return False
        return True

    def _score(self, job: Job, event: "FinishedVideo", sample: Sample) -> None:
        record, counts = event.record, None
        error = record.error
        if not error:
            try:
                analysis = make_analyzer(RunFolder(job.folder), job.scoring, encode=self.encode)(sample)
                job.analyses[sample.video_id] = analysis
                counts = analysis.counts
            except ValueError as problem:
                error = str(problem)
        job.rows[sample.video_id] = make_video_row(sample.video_id, counts, error=error, warning=record.warning)
