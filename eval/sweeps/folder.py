"""Sweep folders: ``sweep.json``, ``sweep.csv`` and, of an exact sweep, the counts of each finished video.

``sweep.json`` holds the settings from the start and the scores at the end; ``sweep.csv`` has a row per point. A video's
``<video>.sweep.json`` holds the counts of each distinct run, and per point the index of its run. A resumed sweep runs
the videos without such a file, and those whose file lacks a count of this version. See ``eval.runs.output_folder``.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from engine.io import write_csv, write_json
from engine.json_records import Count, Finite, FiniteOrNan, read_record, short_repr
from eval.metrics.counts import Counts, Values
from eval.metrics.score import VideoCounts
from eval.runs.files import RunSettings
from eval.runs.folder import output_path
from eval.runs.output_folder import OutputFolder, open_folder
from eval.sweeps.grid import SWEEP_METRICS, Grid, GridPoint, GridScores

_KEPT: Final = [field.name for field in fields(VideoCounts) if field.name not in ("texts", "live", "system")]
_MAX_NUMBER: Final = 1e15
C = TypeVar("C", bound=Counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptVideo:
    """A video that was run at every point, or failed."""

    video_id: str
    source: str
    """Digest of its sample; see ``eval.runs.folder.digest_sample``."""
    runs: tuple[VideoCounts, ...] = ()
    """Counts of the R distinct runs, in the order in which they first occurred."""
    points: tuple[int, ...] = ()
    """Per point of the grid, in the order of ``Grid.pairs``, the index of its run, in [0, R).

    ``(0, 0, 1)``: the first two points lead to equal decisions, the third to different ones.
    """
    passes: tuple[int, ...] = ()
    """Per point, the model passes beyond those reused from the previous point."""
    warning: str = ""
    """A problem with the video, such as damage; ``remark`` in files of older versions."""
    error: str = ""
    """Why it failed; empty if it is finished."""


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
    points: list[dict[str, FiniteOrNan]] = []


class _SweptFile(BaseModel):
    """Schema of ``<video>.sweep.json``; see ``SweptVideo``."""

    model_config = ConfigDict(extra="forbid")

    video_id: str
    source: str
    runs: list[dict[str, Any]]
    points: tuple[Count, ...]
    passes: tuple[Count, ...]
    warning: str = Field(validation_alias=AliasChoices("warning", "remark"))
    error: str


class SweepFolder(OutputFolder):
    """A sweep folder to read; ``open_sweep_folder`` opens one for writing."""

    kind = "sweep"
    identity = None

    def content(self) -> Mapping[str, Any] | None:
        """Return ``sweep.json``, or None if it does not exist. Raises ``ValueError`` if it is invalid."""
        try:
            return read_record(_Sweep, self.path / "sweep.json").model_dump(exclude_unset=True)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{error}; restore the file, or sweep into a new folder") from error

    def settings(self) -> Mapping[str, Any] | None:
        """Return the settings in ``sweep.json``, or None if it does not exist. Raises as ``content``."""
        content = self.content()
        return None if content is None else content["settings"]

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write a ``sweep.json`` with the settings alone."""
        write_json(self.path / "sweep.json", {"settings": settings})

    def has_results(self) -> bool:
        """Return whether a video is finished or failed, or the scores exist."""
        return (self.path / "sweep.csv").exists() or any(self.path.glob("*.sweep.json"))

    def video(self, video_id: str, *, num_points: int) -> SweptVideo | None:
        """Return a video's counts at ``num_points`` points, or None if its file does not exist.

        An invalid file counts as that of a failed video.
        """
        path = self._video_path(video_id)
        try:
            found = self._read_video(_SweptFile, path, video_id)
            if not found.error:
                _check_points(found, num_points)
            runs = tuple(_read_run(run, f"{path}: runs[{n}]") for n, run in enumerate(found.runs))
            return SweptVideo(**{**found.model_dump(), "runs": runs})
        except FileNotFoundError:
            return None
        except ValueError as error:
            return SweptVideo(video_id=video_id, source="", error=f"{error}; continue the sweep with --resume")

    def save_video(self, video: SweptVideo) -> None:
        """Write one video."""
        content = {field.name: getattr(video, field.name) for field in fields(video)}
        runs = [{name: _plain(getattr(run, name)) for name in _KEPT} for run in video.runs]
        write_json(self._video_path(video.video_id), {**content, "runs": runs})

    def _video_path(self, video_id: str) -> Path:
        return output_path(self.path, video_id).with_suffix(".sweep.json")


def open_sweep_folder(
    path: Path, settings: Mapping[str, Any], *, resume: bool = False
) -> AbstractContextManager[SweepFolder]:
    """Lock a folder for a sweep and write its settings; see ``open_folder``."""
    return open_folder(SweepFolder(path), settings, resume=resume)


def write_sweep(folder: Path, scores: GridScores, settings: Mapping[str, Any], **more: Any) -> None:
    """Write ``sweep.csv``, then ``sweep.json`` with the settings, the scores and ``more`` fields."""
    points = [
        {"speak_threshold": point.speak_threshold, "update_threshold": point.update_threshold, **point.scores}
        for point in scores.points
    ]
    write_csv(folder / "sweep.csv", points)
    content = {
        "settings": settings,
        "split": scores.split,
        "is_exact": scores.is_exact,
        "num_videos": scores.num_videos,
        "errors": scores.errors,
        **more,
        "points": points,
    }
    write_json(folder / "sweep.json", content)


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
    for name in ("split", "is_exact", "num_videos", "errors"):
        if name not in content:
            raise ValueError(f"{name} is missing")
    for name in ("speak_threshold", "update_threshold"):
        if any(name not in point for point in content["points"]):
            raise ValueError(f"a point has no {name}")
    points = tuple(
        GridPoint(
            speak_threshold=point["speak_threshold"],
            update_threshold=point["update_threshold"],
            scores={name: value for name, value in point.items() if name in SWEEP_METRICS},
        )
        for point in content["points"]
    )
    grid = Grid(
        speak=tuple(sorted({point.speak_threshold for point in points})),
        update=tuple(sorted({point.update_threshold for point in points})),
    )
    if [(point.speak_threshold, point.update_threshold) for point in points] != list(grid.pairs()):
        raise ValueError("its points are not those of a grid, in order")
    if not points[0].scores or any(point.scores.keys() != points[0].scores.keys() for point in points):
        raise ValueError("its points have different scores, or none")
    return GridScores(
        split=content["split"],
        is_exact=content["is_exact"],
        grid=grid,
        points=points,
        num_videos=content["num_videos"],
        errors=content["errors"],
    )


def _plain(counts: Any) -> Any:
    if isinstance(counts, Counts):
        return {field.name: _plain(getattr(counts, field.name)) for field in fields(counts)}
    return counts.numbers.tolist() if isinstance(counts, Values) else counts


def _read_run(content: Mapping[str, Any], place: str) -> VideoCounts:
    """Return the counts of one run. Raises ``ValueError`` for invalid counts, and for those of an older version."""
    return _read_counts(VideoCounts(), content, place, names=_KEPT)


def _check_points(found: _SweptFile, num_points: int) -> None:
    if not len(found.points) == len(found.passes) == num_points:
        raise ValueError(f"its points and passes must have {num_points} entries each")
    if any(place >= len(found.runs) for place in found.points):
        raise ValueError(f"its points must be indices of its {len(found.runs)} runs")


def _read_counts(empty: C, content: Any, place: str, *, names: Sequence[str] = ()) -> C:
    """Return counts of the type of ``empty``, with the fields ``names``, by default all.

    Raises ``ValueError`` with ``place`` if they are invalid or incomplete: a missing count is not 0.
    """
    names = names or [field.name for field in fields(empty)]
    if not isinstance(content, dict) or content.keys() != set(names):
        raise ValueError(f"{place} must have {', '.join(names)}")
    return replace(
        empty, **{name: _read_value(getattr(empty, name), content[name], f"{place}.{name}") for name in content}
    )


def _read_value(empty: Any, value: Any, place: str) -> Any:
    if isinstance(empty, Counts):
        return _read_counts(empty, value, place)
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
