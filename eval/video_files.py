"""Finds the video files of records that name none, in a folder, by the names that the record gives its video."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SUFFIXES: Final = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm"})
"""Endings of files that are taken for videos."""


class VideoFolder:
    """The video files of a folder and of all folders in it, by name without ending."""

    def __init__(self, path: Path) -> None:
        """List the files. Raises ``ValueError`` when ``path`` is no folder."""
        if not path.is_dir():
            raise ValueError(f"{path} is no folder; name the folder of the videos")
        self._path = path
        self._found: defaultdict[str, list[Path]] = defaultdict(list)
        for file in sorted(path.rglob("*")):
            if file.suffix.lower() in SUFFIXES and file.is_file():
                self._found[file.stem].append(file)

    def find(self, names: Iterable[str]) -> Path:
        """Return the file of the first name that has one. Raises ``ValueError`` where none or several have it."""
        tried = list(dict.fromkeys(names))
        for name in tried:
            files = self._found.get(name, [])
            if len(files) == 1:
                return files[0]
            if files:
                listed = " and ".join(str(file.relative_to(self._path)) for file in files[:2])
                raise ValueError(
                    f"{len(files)} videos in {self._path} are called {name}, such as {listed}; rename or remove all "
                    "but one, or name the file in video_path"
                )
        raise ValueError(
            f"no video in {self._path} is called {' or '.join(tried)} (ending in {', '.join(sorted(SUFFIXES))}); "
            "rename it, or name the file in video_path"
        )
