"""A training session: steps, and at intervals validation, the result folder and a saved state to continue from.

The folder has the best checkpoint so far, and in ``training/`` the state (``state.safetensors``), the validations
(``log.csv``) and the curves of ``engine.training.curves``. The files of the checkpoint are replaced together, others
one by one. A killed session loses at most the steps since the last interval, and repeats them exactly.
"""

import json
import math
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Generic

from safetensors.torch import load_file

from stepscope.engine.io.files import atomic_write, discard_staged, load_json, write_csv
from stepscope.engine.model.files.checkpoint_files import open_tensors, write_tensors
from stepscope.engine.training.config import Schedule
from stepscope.engine.training.curves import (
    LOG_FILE,
    PROGRESS_FILE,
    WORK_FOLDER,
    LossCurve,
    TrainingProgress,
    mean,
    write_curves,
)
from stepscope.engine.training.processes import ALONE, Processes
from stepscope.engine.training.trainer import B, DivergedError, StepLosses, Trainer

_STATE: Final = "state.safetensors"
_KEY: Final = "stepscope_training"


@dataclass(slots=True, kw_only=True)
class SessionLog:
    """The curves of a session, and its best validation."""

    rows: list[dict[str, float]] = field(default_factory=list)
    """Per validation: ``step``, mean losses since the last one, and the scores."""
    best_step: int | None = None
    best_score: float = -math.inf
    num_stale: int = 0
    """Validations since the best one."""
    sums: dict[str, list[float]]
    """Losses since the last validation, by name."""
    curve: LossCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """A validation of a session."""

    step: int
    score: float
    is_best: bool


def prepare_folder(out: Path, *, needed_bytes: int, resume: bool) -> None:
    """Create a result folder and check that it is writable, before training starts.

    Raises ``ValueError`` for a folder with other content, or a session without ``resume``, and ``OSError`` for one that
    cannot be written or has too little space. A session that was killed before its first saved state begins again.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; name a folder")
    has_state = (out / WORK_FOLDER / _STATE).is_file()
    found = out.iterdir() if out.exists() else ()
    content = [entry for entry in found if entry.name != WORK_FOLDER and not entry.name.startswith(".")]  # locks, parts
    is_begun = has_state or (bool(content) and (out / WORK_FOLDER / PROGRESS_FILE).is_file())
    if is_begun and not resume:
        raise ValueError(f"--out {out} holds a training run already; continue it with --resume, or name a new folder")
    if content and not is_begun:
        raise ValueError(f"--out {out} is not empty; name a new folder, so that two checkpoints do not mix")
    try:
        (out / WORK_FOLDER).mkdir(parents=True, exist_ok=True)
        with atomic_write(out / WORK_FOLDER / "probe") as file:
            file.write("writable")
        (out / WORK_FOLDER / "probe").unlink()
    except OSError as error:
        raise OSError(f"--out {out} cannot be written: {error.strerror or error}; name another folder") from error
    free = shutil.disk_usage(out).free
    if free < needed_bytes and not has_state:
        raise OSError(f"--out {out} needs about {needed_bytes / 1e9:.1f} GB, but its disk has {free / 1e9:.1f} GB left")


class Session(Generic[B]):
    """Trains up to the last step of a trainer.

    Args:
        trainer: The trainer, new; a saved state is loaded into it.
        folder: The result folder, from ``prepare_folder``.
        settings: Settings that must be equal to continue, as plain values.
        schedule: When to validate and stop.
        validate: Returns the validation score (higher is better) and other scores by name; None without data.
        export: Writes the checkpoint of the current weights to the result folder.
        check_stop: Raises an exception to stop; the state is saved first.
        processes: The processes that train together; the main one writes the files.

    Raises:
        ValueError: The folder has a state of different settings.
    """

    def __init__(
        self,
        trainer: Trainer[B],
        *,
        folder: Path,
        settings: Mapping[str, Any],
        schedule: Schedule,
        validate: Callable[[], tuple[float, Mapping[str, float]]] | None,
        export: Callable[[], None],
        check_stop: Callable[[], None] = lambda: None,
        processes: Processes = ALONE,
    ) -> None:
        self._processes = processes
        names = trainer.objective.loss_names
        self.log = SessionLog(sums={name: [] for name in names}, curve=LossCurve(names=names))
        self._trainer, self._schedule, self._folder = trainer, schedule, folder
        self._settings = json.loads(json.dumps(dict(settings)))
        self._validate, self._export, self._check_stop = validate, export, check_stop
        self._path = folder / WORK_FOLDER / _STATE
        if processes.is_main:
            discard_staged(folder)
        if self._path.is_file():
            self._load()

    def run(self, make_batches: Callable[[int], Iterator[B]]) -> Generator[StepLosses | Validated]:
        """Train; yield the losses of each step, and each validation. ``make_batches`` takes the first step.

        Raises ``DivergedError``, which names the last saved step, and the exceptions of ``check_stop``.
        """
        trainer = self._trainer
        batches = make_batches(trainer.num_steps_done)
        while True:
            if self._is_due():
                yield self._finish_interval()
            if self._is_over():
                return
            try:
                self._processes.agree(self._check_stop)
            except BaseException:
                self._save()
                raise
            try:
                losses = trainer.step(next(batches))
            except DivergedError as error:
                kept = f"{self._folder} keeps the checkpoint of step {self.log.best_step}"
                problem = f"{error}; {kept if self.log.best_step else 'no checkpoint was written'}"
                self._write_curves(problem)
                raise DivergedError(problem) from error
            self._record(losses)
            yield losses

    def _record(self, losses: StepLosses) -> None:
        """Add the losses of the last step to the log."""
        trainer = self._trainer
        for name, value in losses.parts.items():
            self.log.sums[name].append(value)
        if self.log.curve.add(losses.parts, step=trainer.num_steps_done, num_steps=trainer.config.num_steps):
            self._write_curves()

    def _write_log(self) -> None:
        if self._processes.is_main:
            with self._writing():
                write_csv(self._path.with_name(LOG_FILE), self.log.rows)
        self._write_curves()

    def _write_curves(self, problem: str = "") -> None:
        log, trainer = self.log, self._trainer
        progress = TrainingProgress(
            step=trainer.num_steps_done,
            num_steps=trainer.config.num_steps,
            best_step=log.best_step,
            best_score=log.best_score if math.isfinite(log.best_score) else None,
            problem=problem,
            is_over=bool(problem) or self._is_over(),
        )
        if self._processes.is_main:
            with self._writing():
                write_curves(self._path.parent, progress, log.curve)

    def _is_due(self) -> bool:
        """Whether the current step ends an interval that has not been validated."""
        step, rows = self._trainer.num_steps_done, self.log.rows
        is_end = step % self._schedule.interval == 0 or step == self._trainer.config.num_steps
        return is_end and not (rows and rows[-1]["step"] == step)

    def _is_over(self) -> bool:
        is_stale = 0 < self._schedule.patience <= self.log.num_stale
        return is_stale or self._trainer.num_steps_done >= self._trainer.config.num_steps

    def _finish_interval(self) -> Validated:
        """Validate, write the checkpoint if it is the best, and save the state."""
        log, step = self.log, self._trainer.num_steps_done
        score, scores = math.nan, dict[str, float]()
        self._trainer.model.eval()
        if self._validate is not None:
            try:
                score, others = self._validate()
            except BaseException:  # a stop; the interval is validated again on continuing
                self._save()
                raise
            scores = dict(others)
        is_best = step > 0 and (self._validate is None or log.best_step is None or score > log.best_score)
        means = {f"{name}_loss": mean(values) for name, values in log.sums.items()}
        log.rows.append({"step": step, **means, "score": score, **scores})
        log.sums = {name: [] for name in log.sums}
        log.num_stale = 0 if is_best or not step else log.num_stale + 1
        if is_best:
            # No score exceeds nan, so the first one would stay the best.
            log.best_step, log.best_score = step, -math.inf if math.isnan(score) else score
            if self._processes.is_main:
                with self._writing():
                    self._export()
        if step:
            self._save()
        else:
            self._write_log()
        return Validated(step=step, score=score, is_best=is_best)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Name the folder in the error of a file that cannot be written, as on a full disk."""
        try:
            yield
        except OSError as error:
            saved = "--resume continues its last saved step" if self._path.is_file() else "no state was saved"
            raise OSError(f"{self._folder} cannot be written: {error.strerror or error}; {saved}") from error

    def _save(self) -> None:
        if not self._processes.is_main:
            return
        tensors, values = self._trainer.state()
        content = {"settings": self._settings, "trainer": values, "log": asdict(self.log)}
        with self._writing():
            write_tensors(self._path, tensors, {_KEY: json.dumps(content)})
        self._write_log()

    def _load(self) -> None:
        with open_tensors(self._path) as file:
            content = load_json((file.metadata() or {}).get(_KEY, "null"))
        if not isinstance(content, dict):
            raise ValueError(f"{self._path} is not the state of a training run; train into a new folder")
        found = content["settings"]
        changed = [name for name in {**found, **self._settings} if found.get(name) != self._settings.get(name)]
        if changed:
            changes = ", ".join(f"{name} {found.get(name)} (now {self._settings.get(name)})" for name in changed)
            raise ValueError(f"{self._folder} was trained with {changes}; continue with equal settings")
        self._trainer.load_state(load_file(self._path), content["trainer"])
        log = content["log"]
        self.log = SessionLog(**{**log, "curve": LossCurve(**log["curve"])})
