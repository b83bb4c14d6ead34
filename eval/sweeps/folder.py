"""Sweep folders: ``sweep.json``, ``sweep.csv`` and, of an exact sweep, the counts of each finished video.

``sweep.json`` holds the settings from the beginning and the scores at the end, ``sweep.csv`` a row per point. A video's
``<video>.sweep.json`` has its counts at every point, each kind of run once: where two points decide alike, they are the
same. All are written whole or not at all, so a sweep that was killed goes on with the videos that have no such file.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from engine.io import write_csv, write_json
from engine.json_records import Count, Finite, FiniteOrNan, read_record, short_repr
from eval.metrics.counts import Counts, Values
from eval.metrics.score import VideoCounts
from eval.runs.files import RunSettings
from eval.runs.folder import lock, output_path, tell_differences
from eval.sweeps.grid import SWEPT, Grid, GridPoint, GridScores

_KEPT: Final = ("num_videos", "turns", "speaking", "updating", "dst", "failures")
_LARGEST: Final = 1e15
C = TypeVar("C", bound=Counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptVideo:
    """What is known of a video that was run at every point, or failed."""

    video_id: str
    """Its name."""
    source: str
    """Digest of what it was made from; see ``eval.runs.folder.digest_sample``."""
    runs: tuple[VideoCounts, ...] = ()
    """The counts of every run that decides otherwise than those before."""
    points: tuple[int, ...] = ()
    """Per point of the grid, in the order of ``Grid.pairs``, its place in ``runs``."""
    passes: tuple[int, ...] = ()
    """Per point, the model passes that it has cost beyond what its neighbour's run could lend it."""
    remark: str = ""
    """What is odd about the video, such as damage; empty when all is well."""
    error: str = ""
    """Why it failed; empty when it is finished."""


class _Settings(RunSettings):
    """The kinds of what a sweep depends on: what a run does, and the thresholds of both axes."""

    speak: list[Finite] = Field(default_factory=list)
    update: list[Finite] = Field(default_factory=list)


class _Sweep(BaseModel):
    """The kinds of what ``sweep.json`` may say; all but the settings are there at the end."""

    model_config = ConfigDict(extra="allow")

    settings: _Settings
    split: str = ""
    is_exact: bool = True
    num_videos: Count = 0
    errors: dict[str, str] = {}
    points: list[dict[str, FiniteOrNan]] = []


class _SweptFile(BaseModel):
    """The kinds of a ``<video>.sweep.json``; see ``SweptVideo``."""

    model_config = ConfigDict(extra="forbid")

    video_id: str
    source: str
    runs: list[dict[str, Any]]
    points: tuple[Count, ...]
    passes: tuple[Count, ...]
    remark: str
    error: str


class SweepFolder:
    """A sweep folder that can be read; ``claim_sweep`` opens one for writing.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def content(self) -> Mapping[str, Any] | None:
        """Return ``sweep.json``; None where there is none. Raises ``ValueError`` when it cannot be read."""
        try:
            return read_record(_Sweep, self.path / "sweep.json").model_dump(exclude_unset=True)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{error}; restore the file, or sweep into a new folder") from error

    def has_results(self) -> bool:
        """Whether a video is finished or failed, or the scores are there."""
        return (self.path / "sweep.csv").exists() or any(self.path.glob("*.sweep.json"))

    def video(self, video_id: str, *, num_points: int) -> SweptVideo | None:
        """Return a video's counts at so many points; None where there are none.

        A file that cannot be read is that of a failed video.
        """
        path = self._video_path(video_id)
        try:
            found = read_record(_SweptFile, path)
            if found.video_id != video_id:
                raise ValueError(f"{path} is of the video {found.video_id}, not of {video_id}")
            if not found.error:
                _check_points(found, num_points)
            runs = tuple(_read_run(run, f"{path}: runs[{n}]") for n, run in enumerate(found.runs))
            return SweptVideo(**{**found.model_dump(), "runs": runs})
        except FileNotFoundError:
            return None
        except ValueError as error:
            return SweptVideo(video_id=video_id, source="", error=f"{error}; continue the sweep with --resume")

    def keep(self, video: SweptVideo) -> None:
        """Write one video."""
        content = {field.name: getattr(video, field.name) for field in fields(video)}
        runs = [{name: _plain(getattr(run, name)) for name in _KEPT} for run in video.runs]
        write_json(self._video_path(video.video_id), {**content, "runs": runs})

    def _video_path(self, video_id: str) -> Path:
        return output_path(self.path, video_id).with_suffix(".sweep.json")


@contextmanager
def claim_sweep(path: Path, settings: Mapping[str, Any], *, resume: bool = False) -> Iterator[SweepFolder]:
    """Open a folder for a sweep and write its settings; nobody else can while the block lasts.

    An empty folder, or a sweep without a finished video, is taken as it is; with ``resume``, so is a sweep whose
    settings agree. Raises ``ValueError`` for any other folder, and for a file.
    """
    if path.exists() and not path.is_dir():
        raise ValueError(f"--out {path} is a file; name a folder for the sweep")
    path.mkdir(parents=True, exist_ok=True)
    with lock(path):
        folder = SweepFolder(path)
        _check(folder, json.loads(json.dumps(settings)), resume=resume)
        for rest in path.glob(".*.part"):  # of a program that was killed while it wrote
            rest.unlink(missing_ok=True)
        write_json(path / "sweep.json", {"settings": settings})
        yield folder


def write_sweep(folder: Path, scores: GridScores, settings: Mapping[str, Any], **found: Any) -> None:
    """Write ``sweep.csv``, then ``sweep.json`` with settings, scores and what else was ``found``."""
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
        **found,
        "points": points,
    }
    write_json(folder / "sweep.json", content)


def read_sweep(folder: Path) -> GridScores:
    """Read the scores of a finished sweep. Raises ``ValueError`` where there are none."""
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
            scores={name: value for name, value in point.items() if name in SWEPT},
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


def _check(folder: SweepFolder, settings: Mapping[str, Any], *, resume: bool) -> None:
    content = folder.content()
    if content is None and any(not entry.name.endswith(".part") for entry in folder.path.iterdir()):
        raise ValueError(f"{folder.path} is not empty and holds no sweep; name a new folder")
    if content is None or not folder.has_results():
        return
    if not resume:
        raise ValueError(f"{folder.path} holds a sweep already; continue it with --resume, or name a new folder")
    found = content["settings"]
    other = [name for name in {**found, **settings} if found.get(name) != settings.get(name)]
    if other:
        told = tell_differences(other, found, settings)
        raise ValueError(f"{folder.path} holds a sweep with {told}; name a new folder")


def _plain(counts: Any) -> Any:
    if isinstance(counts, Counts):
        return {field.name: _plain(getattr(counts, field.name)) for field in fields(counts)}
    return counts.numbers.tolist() if isinstance(counts, Values) else counts


def _read_run(content: Mapping[str, Any], place: str) -> VideoCounts:
    """Return the counts of one run. Raises ``ValueError`` for anything else, and for counts of an older version."""
    if content.keys() != set(_KEPT):
        raise ValueError(f"{place} must have {', '.join(_KEPT)}")
    return _read_counts(VideoCounts(), content, place)


def _check_points(found: _SweptFile, num_points: int) -> None:
    if not len(found.points) == len(found.passes) == num_points:
        raise ValueError(f"its points and passes must have {num_points} entries each")
    if any(place >= len(found.runs) for place in found.points):
        raise ValueError(f"its points must be places in its {len(found.runs)} runs")


def _read_counts(empty: C, content: Any, place: str) -> C:
    """Return counts of the kind of ``empty``. Raises ``ValueError`` naming the place for anything else."""
    names = {field.name for field in fields(empty)}
    if not isinstance(content, dict) or not content.keys() <= names:
        raise ValueError(f"{place} must be an object with some of {', '.join(sorted(names))}")
    return replace(
        empty, **{name: _read_value(getattr(empty, name), content[name], f"{place}.{name}") for name in content}
    )


def _read_value(empty: Any, value: Any, place: str) -> Any:
    if isinstance(empty, Counts):
        return _read_counts(empty, value, place)
    numbers = value if isinstance(value, list) else [value]
    if not all(type(number) in (int, float) and abs(number) <= _LARGEST for number in numbers):
        raise ValueError(f"{place} must be a finite number, or a list of them; got {short_repr(value)}")
    if isinstance(value, list) != isinstance(empty, Values | tuple):
        raise ValueError(f"{place} must{'' if isinstance(empty, Values | tuple) else ' not'} be a list")
    if isinstance(empty, Values):
        return Values.of(numbers)
    if isinstance(empty, tuple) and len(numbers) != len(empty):
        raise ValueError(f"{place} must have {len(empty)} numbers; got {len(numbers)}")
    return tuple(numbers) if isinstance(empty, tuple) else value
