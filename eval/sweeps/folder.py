"""Sweep folders: ``sweep.json``, ``sweep.csv`` and, of an exact sweep, the counts of each finished video.

``sweep.json`` holds the settings from the start and the scores at the end; ``sweep.csv`` has a row per point. A video's
``<video>.sweep.json`` holds the counts of each distinct run, and per point the index of its run. A resumed sweep runs
the videos without such a file, and those whose file lacks a count of this version. See ``eval.runs.output_folder``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from stepscope.engine.decisions.policies import find_policy
from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.io.files import Cell, replace_files, write_csv, write_json
from stepscope.engine.io.json_records import Count, Finite, FiniteOrNan, short_repr
from stepscope.eval.metrics.counts import Counts
from stepscope.eval.metrics.score import VideoCounts
from stepscope.eval.metrics.values import Values
from stepscope.eval.reports.scoring import describe_scoring
from stepscope.eval.runs.folder import output_path
from stepscope.eval.runs.output_folder import Outcome, OutputFolder, RunSettings
from stepscope.eval.sweeps.grid import SWEEP_METRICS, Grid, GridScores

_KEPT: Final = [field.name for field in fields(VideoCounts) if field.name not in ("texts", "live", "system", "roots")]
_THRESHOLDS: Final = ("speak_threshold", "update_threshold")
_OF_SPLIT: Final = ("split", "is_exact", "num_videos", "errors")
"""The fields of ``GridScores`` that are fields of ``sweep.json``, too."""
_MAX_NUMBER: Final = 1e15


def _read_runs(content: Any) -> tuple[VideoCounts, ...]:
    """Return the counts of runs. Raises ``ValueError`` for invalid counts."""
    if not isinstance(content, list):
        raise ValueError("runs must be a list")
    return tuple(_read_value(VideoCounts(), run, f"runs[{n}]", names=_KEPT) for n, run in enumerate(content))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptVideo(Outcome):
    """A video that was run at every point, or failed."""

    runs: Annotated[tuple[VideoCounts, ...], PlainValidator(_read_runs)] = ()
    """Counts of the R distinct runs, in the order in which they first occurred."""
    points: tuple[Count, ...] = ()
    """Per point of the grid, in the order of ``Grid.pairs``, the index of its run, in [0, R).

    ``(0, 0, 1)``: the first two points lead to equal decisions, the third to different ones.
    """
    passes: tuple[Count, ...] = ()
    """Per point, the model passes beyond those reused from the previous point; a shared pass counts for each video."""


class _Settings(RunSettings):
    """Schema of a sweep's settings: those of a run, and the thresholds of both axes."""

    speak: list[Finite] = Field(default_factory=list)
    update: list[Finite] = Field(default_factory=list)


class _Sweep(BaseModel):
    """Schema of ``sweep.json``; only the settings are present before the end."""

    model_config = ConfigDict(extra="allow")

    settings: _Settings
    split: str = ""
    is_exact: bool = True
    num_videos: Count = 0
    errors: dict[str, str] = {}
    signals: dict[Literal["speak", "update"], SignalSpec] = {}
    points: list[dict[str, FiniteOrNan]] = []


class SweepFolder(OutputFolder):
    """A sweep folder to read; ``open`` opens one for writing."""

    kind = "sweep"
    identity = None
    result_files = ("sweep.csv", "*.sweep.json")
    redo = "continue the sweep with --resume"

    def content(self) -> Mapping[str, Any] | None:
        """Return ``sweep.json``, or None if it does not exist. Raises ``ValueError`` if it is invalid."""
        return self._read_settings(_Sweep, "sweep.json")

    def settings(self) -> Mapping[str, Any] | None:
        """Return the settings in ``sweep.json``, or None if it does not exist. Raises as ``content``."""
        content = self.content()
        return content and content["settings"]

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write a ``sweep.json`` with the settings alone."""
        write_json(self.path / "sweep.json", {"settings": settings})

    def video(self, video_id: str, *, num_points: int) -> SweptVideo | None:
        """Return a video's counts at ``num_points`` points, or None if its file does not exist.

        An invalid file counts as that of a failed video.
        """
        found = self._read_video(SweptVideo, self._video_path(video_id), video_id)
        if found is None or found.error:
            return found
        problem = ""
        if not len(found.points) == len(found.passes) == num_points:
            problem = f"its points and passes must have {num_points} entries each"
        elif any(place >= len(found.runs) for place in found.points):
            problem = f"its points must be indices of its {len(found.runs)} runs"
        return replace(found, error=f"{problem}; {self.redo}") if problem else found

    def save_video(self, video: SweptVideo) -> None:
        """Write one video. Raises ``FolderRefusedError`` if the file is of another video."""
        self._check_owner(SweptVideo, self._video_path(video.video_id), video.video_id)
        content = {field.name: getattr(video, field.name) for field in fields(video)}
        runs = [{name: _plain(getattr(run, name)) for name in _KEPT} for run in video.runs]
        write_json(self._video_path(video.video_id), {**content, "runs": runs})

    def _video_path(self, video_id: str) -> Path:
        return output_path(self.path, video_id).with_suffix(".sweep.json")


def write_sweep(folder: Path, scores: GridScores, settings: Mapping[str, Any], **more: Any) -> None:
    """Write ``sweep.csv`` and ``sweep.json`` together, the latter with settings, scores and ``more`` fields."""
    points = [
        {**dict(zip(_THRESHOLDS, pair, strict=True)), **of_point}
        for pair, of_point in zip(scores.grid.pairs(), scores.points, strict=True)
    ]
    signals = {decides: asdict(spec) for decides, spec in scores.grid.specs.items()}
    names: dict[str, Cell] = {f"{decides}_signal": spec["name"] for decides, spec in signals.items()}
    of_split = {name: getattr(scores, name) for name in _OF_SPLIT} | ({"signals": signals} if signals else {})
    of_split["decision_policy"] = scores.grid.policy.name
    with replace_files(folder) as new:
        write_csv(new / "sweep.csv", [{**names, **point, "scoring": scores.basis} for point in points])
        write_json(new / "sweep.json", {"settings": settings, **of_split, **more, "points": points})


def read_sweep(folder: Path) -> GridScores:
    """Read the scores of a finished sweep. Raises ``ValueError`` if the folder holds none."""
    content = SweepFolder(folder).content()
    if content is None or "points" not in content:
        raise ValueError(f"{folder} holds no finished sweep; run it, or continue it with --resume")
    try:
        return _grid_scores(content)
    except ValueError as error:
        raise ValueError(f"{folder / 'sweep.json'} cannot be read: {error}; sweep into a new folder") from error


def _grid_scores(content: Mapping[str, Any]) -> GridScores:
    for name in (*_OF_SPLIT, "decision_policy"):
        if name not in content:
            raise ValueError(f"{name} is missing")
    for name in _THRESHOLDS:
        if any(name not in point for point in content["points"]):
            raise ValueError(f"a point has no {name}")
    pairs = [tuple(point[name] for name in _THRESHOLDS) for point in content["points"]]
    speak, update = (tuple(sorted({pair[axis] for pair in pairs if not math.isnan(pair[axis])})) for axis in (0, 1))
    specs = {f"{decides}_spec": SignalSpec(**spec) for decides, spec in content.get("signals", {}).items()}
    grid = Grid(speak=speak, update=update, policy=find_policy(content["decision_policy"]), **specs)
    if not np.array_equal(pairs, list(grid.pairs()), equal_nan=True):
        raise ValueError("its points are not those of a grid, in order")
    points = [{name: point[name] for name in point if name in SWEEP_METRICS} for point in content["points"]]
    if not points[0] or any(point.keys() != points[0].keys() for point in points):
        raise ValueError("its points have different scores, or none")
    found = {name: content[name] for name in _OF_SPLIT}
    if found["is_exact"]:
        found["scoring"] = describe_scoring(content["settings"])
    return GridScores(grid=grid, points=tuple(points), **found)


def _plain(counts: Any) -> Any:
    if isinstance(counts, Counts):
        return {field.name: _plain(getattr(counts, field.name)) for field in fields(counts)}
    return counts.numbers.tolist() if isinstance(counts, Values) else counts


def _read_value(empty: Any, value: Any, place: str, *, names: Sequence[str] = ()) -> Any:
    """Return a value of the type of ``empty``; counts with the fields ``names``, by default all.

    Raises ``ValueError`` with ``place`` if it is invalid or incomplete: a missing count is not 0.
    """
    if isinstance(empty, Counts):
        names = names or [field.name for field in fields(empty)]
        if not isinstance(value, dict) or value.keys() != set(names):
            raise ValueError(f"{place} must have {', '.join(names)}")
        read = {name: _read_value(getattr(empty, name), value[name], f"{place}.{name}") for name in names}
        return replace(empty, **read)
    numbers = value if isinstance(value, list) else [value]
    if not all(type(number) in (int, float) and abs(number) <= _MAX_NUMBER for number in numbers):
        raise ValueError(f"{place} must be a finite number, or a list of them; got {short_repr(value)}")
    if isinstance(value, list) != isinstance(empty, Values | tuple):
        raise ValueError(f"{place} must{'' if isinstance(empty, Values | tuple) else ' not'} be a list")
    if isinstance(empty, Values):
        return Values.of(numbers)
    if isinstance(empty, tuple) and len(numbers) != len(empty):
        raise ValueError(f"{place} must have {len(empty)} numbers; got {len(numbers)}")
    return tuple(numbers) if isinstance(empty, tuple) else value
