"""The runs, the reviews and the model for tools, and who calls them.

Each access to a run passes ``Workspace.find_run``: a name is one of the list that the caller may see, never a path.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import JobQueue
from stepscope.app.core.run import Run
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import sample_clip
from stepscope.app.exports.options import STORE
from stepscope.app.review_store.actions import AGENT, MAX_REVIEWER_CHARS
from stepscope.app.review_store.database import check_store_location
from stepscope.app.review_store.store import ReviewStore, open_store, read_marks
from stepscope.engine.cli.options import BUNDLED_RUN
from stepscope.engine.imports import import_uncollected
from stepscope.engine.model.files.bundled import ASSETS
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Split, build_task
from stepscope.eval.matching.turns import DEFAULT_ENCODER, import_encoder
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.worker_messages import WorkerConfig

if TYPE_CHECKING:
    from stepscope.engine.model.checkpoint import Checkpoint
    from stepscope.engine.replay import Recording

MAX_FRAMES: Final = 1200
"""Longest video that a tool runs again, in frames."""
_WAIT_S: Final = 60.0
_MAX_AGENT_CHARS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client that calls the tools, and its user."""

    agent: str = "agent"
    """Name that the client gives itself."""
    user: str = ""
    """The signed-in user; empty for the person at this machine, and for nobody."""
    may_write: bool = True
    address: str = "http://127.0.0.1:7860/"
    """Address of the page, before the query of a link."""

    @property
    def reviewer(self) -> str:
        """The name in the history, which cannot be that of a person."""
        agent = "".join(char for char in self.agent if char.isprintable()).strip()[:_MAX_AGENT_CHARS] or "agent"
        return f"{AGENT}{agent}{f' ({self.user})' if self.user else ''}"[:MAX_REVIEWER_CHARS]


@dataclass(kw_only=True, eq=False)
class Workspace:
    """The runs, the reviews and the model, which all callers share."""

    batches: BatchContext
    store: ReviewStore
    reads_splits: bool = False
    """Whether the split that a run names is read: all runs are of the person at this machine."""
    find_checkpoint: "Callable[[str], Checkpoint | None]" = lambda _: None
    """Returns the loaded model with a digest."""
    model_problem: str = ""
    """Why no model can be run; empty if one can."""
    _turn: Lock = field(default_factory=Lock)
    _kept: "tuple[object, Recording] | None" = None
    """The last recording, by its video and outputs."""

    def list_names(self) -> list[str]:
        """Return the names of the caller's runs, the newest first; a run with links out of its folder is not listed."""
        return [name for name in self.batches.visible_runs() if not self._find_link(name)]

    def find_run(self, name: str) -> RunFolder:
        """Return the folder of a run of ``list_names``. Raises ``ValueError`` for another name."""
        if name not in self.batches.visible_runs():
            raise ValueError(f"there is no run {name[:80]!r}; list_runs names them")
        if link := self._find_link(name):
            raise ValueError(f"{link[:80]!r} of the run {name[:80]!r} is a link out of its folder; tools follow none")
        return RunFolder(self.batches.folder(name))

    def _find_link(self, name: str) -> str:
        """Return the name of a link out of a run's folder, or of the folder if it is one; empty without any."""
        folder = self.batches.folder(name)
        if folder == self.batches.bundled or not folder.is_dir():
            return ""
        if (root := folder.resolve()) != self.batches.runs.resolve() / name:
            return name
        with os.scandir(folder) as entries:
            links = [entry.name for entry in entries if entry.is_symlink()]
        return next((link for link in links if not (folder / link).resolve().is_relative_to(root)), "")

    def find_split(self, name: str) -> Split:
        """Return the split of a run. Raises as ``find_run`` and ``BatchContext.need_split``."""
        folder = self.find_run(name)
        if self.reads_splits and self.batches.find_split(name) is None:
            path = folder.split_path()
            self.batches.splits[str(path)] = read_split(path)
        return self.batches.need_split(name)

    def find_sample(self, name: str, video_id: str) -> Sample:
        """Return a video of a run. Raises ``ValueError`` if there is none with this id."""
        sample = self.find_split(name).find(video_id)
        if sample is None:
            raise ValueError(f"the run {name} has no video {video_id[:80]!r}; read_run names them")
        return sample

    def read_run(self, name: str, video_id: str) -> tuple[Run, Sample]:
        """Return a video of a run with its outputs, diagnosis and evidence. Raises ``ValueError`` without outputs."""
        sample, settings = self.find_sample(name, video_id), self.batches.settings_of(name)
        clip = sample_clip(sample, sample.video_path or Path(), is_bundled=False)
        scoring = self.batches.scoring_of(settings)
        run = read_saved_run(self.find_run(name), clip, settings=settings, scoring=scoring, encoder={})
        return replace(run, name=name), sample

    @contextmanager
    def record(self, run: Run, sample: Sample) -> "Iterator[Recording]":
        """Yield the recording of a saved run, streamed again; one caller at a time has the model.

        Raises ``ValueError`` for a long video, if nothing can be run again, or while others have the model.
        """
        if self.model_problem:
            raise ValueError(self.model_problem)
        if sample.num_frames > MAX_FRAMES:
            shown = f"{sample.video_id} has {sample.num_frames} frames, more than {MAX_FRAMES}"
            raise ValueError(f"{shown}; use `stepscope explain`")
        if not self._turn.acquire(timeout=_WAIT_S):
            raise ValueError("others have the model; try again later")
        try:
            key = run.name, sample, run.outputs
            if self._kept is None or self._kept[0] != key:
                self._kept = None  # its memory is free for the new one
                self._kept = key, self._stream(run.name, sample)
            yield self._kept[1]
        finally:
            self._turn.release()

    def _stream(self, name: str, sample: Sample) -> "Recording":
        plan, batch, worker, features, replay = (  # which need torch
            import_uncollected(f"stepscope.{module}")
            for module in (
                "eval.diagnosis.plan",
                "eval.runs.batch",
                "eval.runs.pools.worker",
                "eval.runs.streaming.sample_features",
                "engine.replay",
            )
        )
        run = self.find_run(name)
        is_bundled = run.path == self.batches.bundled  # its settings name the checkpoint from the checkout
        given = WorkerConfig(checkpoint=str(ASSETS / "checkpoint")) if is_bundled else None
        work, settings = plan.find_model(run.path, self.find_split(name), given)
        checkpoint = self.find_checkpoint(str(settings["model_digest"]))
        if checkpoint is None:
            checkpoint = worker.load_checkpoint(work, batch.parse_devices("auto")[0])
        frames = features.SampleFeatures(checkpoint=checkpoint, folder=work.features).embed(sample)
        config = replace(work.config, fps=sample.fps)
        recording: Recording = replay.Recording(
            checkpoint, frames, task=build_task(sample), config=config, known=run.outputs(sample)
        )
        list(recording.run())
        return recording


def import_server() -> Any:
    """Return the module of the MCP server. Raises ``ValueError`` if its package is not installed."""
    try:
        return import_module("stepscope.app.agents.server")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise ValueError("MCP needs the package mcp, which is not installed: pip install '.[mcp]'") from None


@contextmanager
def open_workspace(runs: Path, reviews: str = "") -> Iterator[Workspace]:
    """Yield the workspace of the person at this machine: a folder of runs, and the bundled run.

    ``reviews`` is a file or an SQLAlchemy URL, by default ``reviews.sqlite`` in the folder. Raises as ``open_store``.
    """
    load = cache(import_encoder)

    def encode(texts: list[str]) -> NDArray[Any]:
        return load(DEFAULT_ENCODER).encode(texts)

    with open_store(check_store_location(reviews) if reviews else runs / STORE.name) as store:
        batches = BatchContext(
            jobs=JobQueue(encode=encode, scoring=ScoreSettings(text_encoder=DEFAULT_ENCODER)),
            splits={},
            runs=runs.resolve(),
            bundled=BUNDLED_RUN,
            work=WorkerConfig(checkpoint=""),
            takes_paths=True,
            marks=partial(read_marks, store, is_blind=False),
        )
        yield Workspace(batches=batches, store=store, reads_splits=True)
