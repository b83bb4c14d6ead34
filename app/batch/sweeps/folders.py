"""Find and plan the threshold sweeps of a run, and write their tables.

An exact sweep belongs to every run that differs from it only in thresholds and devices.
"""

import hashlib
import json
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from stepscope.app.controls.widgets import send_file
from stepscope.app.core.batch_context import FEATURES_FOLDER, SWEEPS_FOLDER, BatchContext, unused_folder
from stepscope.app.core.run import file_name
from stepscope.app.figures.charts.sweep_curves import SweepData, preview_choice
from stepscope.engine.config import StreamConfig
from stepscope.engine.model.files.bundled import BUNDLED_CHECKPOINTS
from stepscope.eval.data.samples import Split
from stepscope.eval.metrics.counts import Interval
from stepscope.eval.reports.scoring import ScoreSettings, make_analyzer
from stepscope.eval.runs.batch import build_run_settings, parse_devices
from stepscope.eval.runs.folder import IDENTITY, RunFolder
from stepscope.eval.runs.output_folder import describe_changes, find_changed_settings, with_defaults
from stepscope.eval.runs.provenance import read_provenance
from stepscope.eval.runs.worker_messages import WorkerConfig
from stepscope.eval.sweeps.best_point import BestPoint, PresentPoint, compute_gain, find_present, score_present
from stepscope.eval.sweeps.exact import build_sweep_settings, read_swept_videos
from stepscope.eval.sweeps.folder import SweepFolder, read_sweep, write_sweep
from stepscope.eval.sweeps.grid import GRID_SIZES, Grid, GridScores, make_axis, make_grid
from stepscope.eval.sweeps.preview import Choice, describe_choice, read_traces

_RUN_IDENTITY: Final = tuple(name for name in IDENTITY if name in ("split", "model_digest", "heads_digest"))
_SEPARATOR: Final = "\n"
"""Between the names of two signals in a value of ``FoundSweep.choices``."""
_NOT_COMPARED: Final = ("speak_threshold", "update_threshold", "prefill_frames", "lookahead", "draft_tokens")
"""Settings of a stream in which an exact sweep may differ from a run: thresholds, and those that only affect speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSweep:
    """The scores of a grid for a run."""

    data: SweepData
    """Scores at each point, exact or as a preview, and the points to mark."""
    settings: Mapping[str, Any]
    run: str
    split: Split
    exact_sizes: tuple[int, ...]
    """Thresholds per axis of the exact sweeps of this run, ascending."""
    problems: tuple[str, ...] = ()
    """One sentence per unreadable sweep of the split."""
    choices: tuple[tuple[str, str], ...] = ()
    """Signals that can be swept, as label and value; empty if there are only the two probabilities."""
    signals: str = ""
    """The value of ``choices`` that is shown."""
    folder: Path | None = None
    """The folder of the exact sweep; None for a preview."""

    @property
    def scores(self) -> GridScores:
        """Scores at each point."""
        return self.data.scores


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSweep:
    """The arguments of an exact sweep."""

    split: Split
    work: WorkerConfig
    grid: Grid
    scoring: ScoreSettings
    device: str
    folder: Path
    """The folder of an earlier sweep with the same settings, which is continued, or a new folder."""


def find_sweep(batches: BatchContext, name: str | None, size: int, signals: str = "") -> FoundSweep:
    """Return the exact sweep of a run if it is finished, else a preview from the run's traces.

    ``signals`` is one of ``FoundSweep.choices``; for any other value the first is taken. Raises ``ValueError`` with the
    reason if there is neither an exact sweep nor a preview.
    """
    name, split, settings = name or "", batches.need_split(name), batches.settings_of(name)
    exact, problems = _find_exact(batches, settings)
    if size in exact:
        sweep = exact[size]
        return FoundSweep(
            data=SweepData(scores=sweep.scores, present=_score_run(batches, name, split, sweep.scores)),
            settings=sweep.settings,
            run=name,
            split=split,
            exact_sizes=tuple(exact),
            problems=problems,
            folder=sweep.folder,
        )
    traces = read_traces(batches.folder(name), split)
    choices = tuple((describe_choice(choice), _choice_value(choice)) for choice in traces.choices())
    shown = signals if signals in (value for _, value in choices) else choices[0][1]
    data = preview_choice(traces, shown.split(_SEPARATOR), size=size)
    if not data.scores.grid.specs:
        grids = [sweep.scores for sweep in exact.values()]
        points = {place: point for one in grids for place, point in zip(one.grid.pairs(), one.points, strict=True)}
        data = replace(data, exact_points=points)
    return FoundSweep(
        data=data,
        settings={"split": settings["split"], "run": name},
        run=name,
        split=split,
        exact_sizes=tuple(exact),
        problems=problems,
        choices=choices if len(choices) > 1 else (),
        signals=shown,
    )


def _choice_value(choice: Choice) -> str:
    return _SEPARATOR.join(signal.name for signal in choice if signal is not None)


def _score_run(batches: BatchContext, name: str, split: Split, scores: GridScores) -> PresentPoint | None:
    """Return a run as a point of its exact sweep, also off the grid.

    None if its settings have no thresholds, or if it lacks a video of the sweep.
    """
    settings = batches.settings_of(name)
    config = _config(settings) if settings.get("config") else None
    if config is None:
        return None
    thresholds = config.speak_threshold, config.update_threshold
    if (found := find_present(scores, thresholds)) is not None:
        return found
    try:
        run, scoring = RunFolder(batches.folder(name)), batches.scoring_of(settings)
        samples = [sample for sample in split.samples if sample.video_id not in scores.errors]
        return score_present(thresholds, samples, make_analyzer(run, scoring, encode=batches.jobs.encode))
    except ValueError:
        return None


def find_gain(found: FoundSweep, best: BestPoint) -> Interval | None:
    """Return the interval of the gain over the thresholds of the run; None for a preview, or without a gain."""
    if found.folder is None or best.is_present:
        return None
    return compute_gain(best, read_swept_videos(found.folder, found.split, num_points=len(best.grid)))


def download_sweep(
    batches: BatchContext, table: str, name: str | None, size: int, signals: str | None = None
) -> Generator[Any]:
    """Write ``sweep.csv`` or ``sweep.json`` of the shown points, and yield its path; see ``send_file``."""

    def write(folder: Path) -> Path:
        found = find_sweep(batches, name, size, signals or "")
        source = asdict(read_provenance(RunFolder(batches.folder(found.run))))
        write_sweep(folder, found.scores, found.settings, provenance=source)
        kind = "exact" if found.scores.is_exact else "preview"
        return (folder / table).rename(folder / file_name(found.run, f"{kind}-{size}", table))

    yield from send_file(write)


def find_exact_sizes(batches: BatchContext, name: str | None) -> tuple[int, ...]:
    """Return the thresholds per axis of the finished exact sweeps of a run, ascending."""
    try:
        settings = batches.settings_of(name)
    except ValueError:
        return ()
    return tuple(_find_exact(batches, settings)[0]) if settings else ()


def check_has_model(batches: BatchContext, name: str, settings: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if the page has no model to run the points of a run with."""
    checkpoint = str(settings.get("checkpoint", ""))
    if settings.get("recorded"):
        raise ValueError(f"{name} was recorded from another program: it has no model to run the points with")
    if not checkpoint or settings.get("imported"):
        raise ValueError(f"{name} was imported: it has no model to run the points with")
    if checkpoint not in (batches.work.checkpoint, *BUNDLED_CHECKPOINTS) and not batches.takes_paths:
        raise ValueError("this page runs its own checkpoint and the bundled ones only")


def plan_sweep(batches: BatchContext, name: str | None, size: int, devices: str) -> PlannedSweep:
    """Return the plan of an exact sweep for a run.

    Raises ``ValueError`` if the page may not run the checkpoint or it has changed, and as ``build_run_settings``.
    """
    name, split, settings = name or "", batches.need_split(name), batches.settings_of(name)
    checkpoint = str(settings.get("checkpoint", ""))
    check_has_model(batches, name, settings)
    heads = batches.work.heads if checkpoint == batches.work.checkpoint else None
    config = _config(settings) or batches.work.config
    work = replace(
        batches.work,
        checkpoint=checkpoint,
        heads=heads,
        config=config,
        live=False,
        features=batches.runs / FEATURES_FOLDER,
    )
    described = build_run_settings(split, work, parse_devices(_first_device(devices)))
    if changed := find_changed_settings(settings, described, _RUN_IDENTITY):
        differences = describe_changes(changed, settings, described)
        raise ValueError(f"{name} was made with {differences}; start it again under a new name first")
    return place_sweep(batches, split, work, size=size, devices=devices, scoring=batches.scoring_of(settings))


def place_sweep(
    batches: BatchContext, split: Split, work: WorkerConfig, *, size: int, devices: str, scoring: ScoreSettings
) -> PlannedSweep:
    """Return the plan of an exact sweep of a split, in its folder. Raises as ``build_run_settings``."""
    device, grid = _first_device(devices), make_grid(size, work.config.policy)
    described = build_run_settings(split, work, parse_devices(device))
    wanted = build_sweep_settings(described, grid, scoring)
    digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:8]
    new = batches.runs / SWEEPS_FOLDER / f"{split.path.stem}-{digest}-{size}"
    folder = _find_same(batches, wanted) or unused_folder(new)
    return PlannedSweep(split=split, work=work, grid=grid, scoring=scoring, device=device, folder=folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExactSweep:
    scores: GridScores
    settings: Mapping[str, Any]
    folder: Path


def _find_exact(
    batches: BatchContext, settings: Mapping[str, Any]
) -> tuple[Mapping[int, _ExactSweep], tuple[str, ...]]:
    """Return the exact sweeps of a run by thresholds per axis, and ``FoundSweep.problems``."""
    exact: dict[int, _ExactSweep] = {}
    problems = []
    wanted = {key: settings.get(key) for key in _RUN_IDENTITY} | asdict(batches.scoring_of(settings))
    for path in _sweep_folders(batches):
        try:
            content = _read_content(path)
            found = content["settings"]
            size = _size(found)
            is_of_run = not find_changed_settings(found, wanted, wanted) and _streamed(found) == _streamed(settings)
            if size is not None and is_of_run and content.get("is_exact") and content.get("points"):
                exact.setdefault(size, _ExactSweep(scores=read_sweep(path), settings=found, folder=path))
        except ValueError as error:
            if path.name.startswith(f"{Path(settings.get('split', '')).stem}-"):
                problems.append(f"The sweep {path.name} is skipped: {str(error).replace(f'{path}/', '')}.")
    return {size: exact[size] for size in GRID_SIZES if size in exact}, tuple(problems)


def _size(settings: Mapping[str, Any]) -> int | None:
    speak, update = settings.get("speak"), settings.get("update")
    sizes = (size for size in GRID_SIZES if speak == list(make_axis(size)) and update in ([], speak))
    return next(sizes, None)


def _find_same(batches: BatchContext, wanted: Mapping[str, Any]) -> Path | None:
    for path in _sweep_folders(batches):
        try:
            if not find_changed_settings(_read_content(path)["settings"], wanted, SweepFolder.identity):
                return path
        except ValueError:
            continue
    return None


def _sweep_folders(batches: BatchContext) -> list[Path]:
    return sorted(path.parent for path in (batches.runs / SWEEPS_FOLDER).glob("*/sweep.json"))


def _read_content(folder: Path) -> Mapping[str, Any]:
    content = SweepFolder(folder).content()
    if content is None:
        raise ValueError(f"{folder}/sweep.json is missing")
    return content


def _config(settings: Mapping[str, Any]) -> StreamConfig | None:
    """Return the stream settings of a run; None if they are missing or not supported by this version."""
    try:
        return StreamConfig(**settings.get("config", {}))
    except (TypeError, ValueError):
        return None


def _streamed(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in with_defaults(settings)["config"].items() if name not in _NOT_COMPARED}


def _first_device(devices: str) -> str:
    """Return the device of a sweep, the first one; on a CPU with one thread, which is fastest for small models."""
    place = parse_devices(devices)[0].device
    return "cpu:1" if place == "cpu" else place
