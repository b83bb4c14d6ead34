"""Sweep folders: ``sweep.json``, ``sweep.csv`` and, of an exact sweep, the counts of each finished video.

``sweep.json`` holds the settings from the beginning and the scores at the end, ``sweep.csv`` a row per point. A video's
``<video>.sweep.json`` has its counts at every point, each kind of run once: where two points decide alike, they are the
same. All are written whole or not at all, so a sweep that was killed goes on with the videos that have no such file.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from eval.counts import Counts, Values
from eval.grid import Grid, GridPoint, GridScores
from eval.metrics import VideoCounts
from eval.runs import lock, output_path, tell_differences
from eval.table import write_csv, write_json

_KEPT: Final = ("num_videos", "turns", "speaking", "updating", "dst")
C = TypeVar("C", bound=Counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptVideo:
    """What is known of a video that was run at every point, or failed."""

    video_id: str
    """Its name."""
    source: str
    """Digest of what it was made from; see ``eval.runs.digest_sample``."""
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


class SweepFolder:
    """A sweep folder that can be read; ``claim_sweep`` opens one for writing.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def content(self) -> Mapping[str, Any] | None:
        """Return ``sweep.json``; None where there is none. Raises ``ValueError`` when it cannot be read."""
        path = self.path / "sweep.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{path} cannot be read: {error}; remove it") from error
        if not isinstance(content, dict) or not isinstance(content.get("settings"), dict):
            raise ValueError(f"{path} holds no sweep; remove it")
        return content

    def has_results(self) -> bool:
        """Whether a video is finished or failed, or the scores are there."""
        return (self.path / "sweep.csv").exists() or any(self.path.glob("*.sweep.json"))

    def video(self, video_id: str) -> SweptVideo | None:
        """Return a video's counts; None where there are none that can be read."""
        try:
            content = json.loads(self._video_path(video_id).read_text(encoding="utf-8"))
            runs = tuple(_read_counts(VideoCounts(), run) for run in content.pop("runs"))
            points, passes = (tuple(content.pop(name)) for name in ("points", "passes"))
            return SweptVideo(**content, runs=runs, points=points, passes=passes)
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return None  # what cannot be read is no record: the video is run again

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
    points = tuple(
        GridPoint(
            speak_threshold=point.pop("speak_threshold"),
            update_threshold=point.pop("update_threshold"),
            scores={name: math.nan if value is None else value for name, value in point.items()},
        )
        for point in content["points"]
    )
    return GridScores(
        split=content["split"],
        is_exact=content["is_exact"],
        grid=Grid(
            speak=tuple(sorted({point.speak_threshold for point in points})),
            update=tuple(sorted({point.update_threshold for point in points})),
        ),
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


def _read_counts(empty: C, content: Mapping[str, Any]) -> C:
    """Return counts of the kind of ``empty``. Raises ``ValueError`` or ``TypeError`` for anything else."""
    found = {name: _read_value(getattr(empty, name), value) for name, value in content.items()}
    return type(empty)(**found)


def _read_value(empty: Any, value: Any) -> Any:
    if isinstance(empty, Counts):
        return _read_counts(empty, value)
    if isinstance(empty, Values):
        return Values.of(value)
    return tuple(value) if isinstance(empty, Sequence) else value
