"""The sweeps that belong to a run: which there are, how one is run, and where its tables are.

An exact sweep belongs to every run that differs from it in thresholds and devices alone.
"""

import hashlib
import json
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, replace
from html import escape
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import gradio as gr
import numpy as np

from app.batch.context import FEATURES, SWEEPS, Batches
from app.formatting import sentence
from app.player.downloads import file_name
from engine.config import StreamConfig
from eval.data.samples import Split
from eval.reports.scoring import ScoreSettings
from eval.runs.batch import describe, find_places
from eval.runs.folder import IDENTITY, RunFolder, tell_differences
from eval.runs.traces import read_provenance
from eval.runs.worker import Work
from eval.sweeps.exact import sweep_settings
from eval.sweeps.folder import SweepFolder, read_sweep, write_sweep
from eval.sweeps.grid import Grid, GridScores
from eval.sweeps.preview import preview, read_traces

SIZES: Final = (5, 9, 19)
"""Thresholds an axis."""
_OF_RUN: Final = tuple(name for name in IDENTITY if name not in ("device", "config", "live", "kept_features"))
_SCORING: Final = tuple(asdict(ScoreSettings(text_encoder="")))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSweep:
    """The scores of a grid that belong to a run."""

    scores: GridScores
    """At each point, exact or as a preview."""
    settings: Mapping[str, Any]
    """What the scores depend on."""
    run: str
    """The run."""
    exact_sizes: tuple[int, ...]
    """Thresholds an axis of which there is an exact sweep of this run."""
    problems: tuple[str, ...] = ()
    """Per sweep of the split that cannot be read, a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSweep:
    """What is to be run at each point."""

    split: Split
    """The videos."""
    work: Work
    """Checkpoint and settings of the run."""
    grid: Grid
    """The points."""
    scoring: ScoreSettings
    """How the run is scored."""
    device: str
    """Where."""
    folder: Path
    """Where it is kept: that of an earlier sweep of the same settings, which goes on, or a new one."""


def make_grid(size: int) -> Grid:
    """Return ``size`` thresholds from 0.05 to 0.95 on each axis."""
    axis = tuple(np.linspace(0.05, 0.95, size).round(3).tolist())
    return Grid(speak=axis, update=axis)


def find_sweep(batches: Batches, name: str | None, size: int) -> FoundSweep:
    """Return the exact sweep of a run where it is finished, else a preview from the run's traces.

    Raises ``ValueError`` saying why there is neither.
    """
    name, split, settings = _chosen(batches, name)
    exact, problems = _find_exact(batches, settings)
    if size in exact:
        scores, found = exact[size]
    else:
        scores = preview(read_traces(batches.runs / name, split), make_grid(size))
        found = {"split": settings["split"], "run": name}
    return FoundSweep(scores=scores, settings=found, run=name, exact_sizes=tuple(exact), problems=problems)


def download_sweep(batches: Batches, name: str | None, size: int, table: str) -> Generator[Any]:
    """Write ``sweep.csv`` or ``sweep.json`` of the points that are shown; None with a warning where there are none.

    The file is deleted after the page has its own copy.
    """
    with TemporaryDirectory(prefix="stepscope-export-") as place:
        try:
            found, folder = find_sweep(batches, name, size), Path(place)
            source = asdict(read_provenance(RunFolder(batches.runs / found.run)))
            write_sweep(folder, found.scores, found.settings, provenance=source)
            kind = "exact" if found.scores.is_exact else "preview"
            yield str((folder / table).rename(folder / file_name(found.run, f"{kind}-{size}", table)))
        except (ValueError, OSError) as error:
            gr.Warning(escape(sentence(error)))
            yield None


def find_exact_sizes(batches: Batches, name: str | None) -> tuple[int, ...]:
    """Return the thresholds an axis of which there is a finished exact sweep of a run, ascending."""
    try:
        settings = batches.settings_of(name)
    except ValueError:
        return ()
    return tuple(_find_exact(batches, settings)[0]) if settings else ()


def plan_sweep(batches: Batches, name: str | None, size: int, devices: str) -> PlannedSweep:
    """Return what is to be run at each point of a grid for a run.

    Raises ``ValueError`` where the page may not run it, or would run another model; and as ``describe``.
    """
    name, split, settings = _chosen(batches, name)
    checkpoint = str(settings.get("checkpoint", ""))
    if not checkpoint:
        raise ValueError(f"{name} was imported: there is no model that could run other points")
    if checkpoint != batches.work.checkpoint and not batches.takes_paths:
        raise ValueError("this page runs its own checkpoint only")
    heads = batches.work.heads if checkpoint == batches.work.checkpoint else None
    config = _config(settings) or batches.work.config
    work = replace(
        batches.work, checkpoint=checkpoint, heads=heads, config=config, live=False, features=batches.runs / FEATURES
    )
    device, grid, scoring = _one(devices), make_grid(size), batches.scoring_of(settings)
    described = describe(split, work, find_places(device))
    if changed := [key for key in _OF_RUN if described.get(key) != settings.get(key)]:
        told = tell_differences(changed, settings, described)
        raise ValueError(f"{name} was made with {told}; start it again under another name first")
    wanted = sweep_settings(described, grid, scoring)
    new = batches.runs / SWEEPS / f"{split.path.stem}-{_digest(wanted)}-{size}"
    folder = _find_same(batches, wanted) or unused_folder(new)
    return PlannedSweep(split=split, work=work, grid=grid, scoring=scoring, device=device, folder=folder)


def _chosen(batches: Batches, name: str | None) -> tuple[str, Split, Mapping[str, Any]]:
    settings = batches.settings_of(name)
    split = batches.split_of(settings)
    if name is None or split is None:
        raise ValueError("choose a run of a split that this page has")
    return name, split, settings


def unused_folder(folder: Path) -> Path:
    """Return the folder if nothing is in it, else the first of ``<folder>-2``, ``-3`` and so on with nothing in it.

    What is there under its name is a sweep that cannot be read, and so cannot be continued.
    """
    folders = chain([folder], (folder.with_name(f"{folder.name}-{number}") for number in count(2)))
    return next(path for path in folders if not path.exists() or (path.is_dir() and not any(path.iterdir())))


def _find_exact(
    batches: Batches, settings: Mapping[str, Any]
) -> tuple[Mapping[int, tuple[GridScores, Mapping[str, Any]]], tuple[str, ...]]:
    """Return scores and settings of the exact sweeps that belong to a run of these settings, by thresholds an axis.

    With them come the ``problems`` of ``FoundSweep``.
    """
    exact: dict[int, tuple[GridScores, Mapping[str, Any]]] = {}
    problems = []
    wanted = {key: settings.get(key) for key in _OF_RUN} | asdict(batches.scoring_of(settings))
    for path in _sweep_folders(batches):
        try:
            content = _read_content(path)
            found = content["settings"]
            size = _size(found)
            is_of_run = {key: found.get(key) for key in wanted} == wanted and _streamed(found) == _streamed(settings)
            if size is not None and is_of_run and content.get("is_exact") and content.get("points"):
                exact.setdefault(size, (read_sweep(path), found))
        except ValueError as error:
            if path.name.startswith(f"{Path(settings.get('split', '')).stem}-"):
                problems.append(f"The sweep {path.name} is left out: {str(error).replace(f'{path}/', '')}.")
    return {size: exact[size] for size in SIZES if size in exact}, tuple(problems)


def _size(settings: Mapping[str, Any]) -> int | None:
    """Return which of ``SIZES`` the grid of a sweep has; None for another grid."""
    axes = settings.get("speak"), settings.get("update")
    return next((size for size in SIZES if axes == (list(make_grid(size).speak), list(make_grid(size).update))), None)


def _find_same(batches: Batches, wanted: Mapping[str, Any]) -> Path | None:
    """Return the folder of a sweep of just these settings, finished or not."""
    plain = json.loads(json.dumps(wanted))
    for path in _sweep_folders(batches):
        try:
            if _read_content(path)["settings"] == plain:
                return path
        except ValueError:
            continue
    return None


def _sweep_folders(batches: Batches) -> list[Path]:
    return sorted(path.parent for path in (batches.runs / SWEEPS).glob("*/sweep.json"))


def _read_content(folder: Path) -> Mapping[str, Any]:
    content = SweepFolder(folder).content()
    if content is None:
        raise ValueError(f"{folder}/sweep.json is missing")
    return content


def _config(settings: Mapping[str, Any]) -> StreamConfig | None:
    """Return how a run was streamed; None where it does not say so in a way that this version knows."""
    try:
        return StreamConfig(**settings.get("config", {}))
    except (TypeError, ValueError):
        return None


def _streamed(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what matters of how a run or a sweep was streamed: all but thresholds, rate, and what feeds it faster."""
    config = _config({"config": {"speak_threshold": 0.5, "update_threshold": 0.5, **settings.get("config", {})}})
    if config is None:
        return dict(settings.get("config", {}))
    plain = replace(config, speak_threshold=0.5, update_threshold=0.5).frame_by_frame()
    return asdict(plain)


def _digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def _one(devices: str) -> str:
    """Return the one device of a sweep: on the CPU a single thread, which is fastest for small models."""
    place = find_places(devices)[0].device
    return "cpu:1" if place == "cpu" else place
