"""The published folder, written whole beside its place, and its files that are the same for every run."""

import re
import shutil
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml
from pydantic import BaseModel

from stepscope.app.figures.charts.layout import PLOTLY_PATH
from stepscope.app.style.colours import css_variables
from stepscope.engine.io.files import write_json
from stepscope.engine.io.json_records import read_record
from stepscope.eval.runs.output_folder import lock_folder

MAX_SLUG_LENGTH: Final = 48


def file_stem(number: int, video_id: str) -> str:
    """Return a file name without an ending for any id: a unique number, then the plain letters and digits of the id.

    Example: number 3 and ``../Böat #1`` give ``0003-boat-1``. No two names are equal ignoring case.
    """
    plain = unicodedata.normalize("NFKD", video_id).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower())[:MAX_SLUG_LENGTH].strip("-")
    return f"{number:04d}-{slug}" if slug else f"{number:04d}"


MARKER: Final = "publish.json"
"""File that marks a published folder and lists its files; of an earlier version the entries of the folder alone."""


class _Marker(BaseModel):
    entries: list[str]


@contextmanager
def replace_folder(out: Path) -> Iterator[Path]:
    """Yield a new folder that takes the place of ``out`` when the block ends without an exception.

    Otherwise ``out`` stays as it was; after a kill between the two renames the next call brings it back. Raises
    ``ValueError``, before the block begins, if ``out`` exists and holds anything that was not published, and after it
    for a file that was put in meanwhile.
    """
    out = out.resolve()
    with _open_staging(out) as staging:
        new, old = staging / "new", staging / "old"
        shutil.rmtree(old, ignore_errors=True)  # of a publish that was killed after both renames
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        yield new
        write_json(new / MARKER, {"entries": sorted([MARKER, *_list_files(new)])})
        if out.exists():
            out.rename(old)
            _check_published(old, out)  # after the renaming, so that no file can be added any more
        new.rename(out)
        shutil.rmtree(old, ignore_errors=True)


def check_replaceable(out: Path) -> None:
    """Raise ``ValueError`` if a path exists and is not an empty folder or one that holds only published files.

    The earlier folder of a publish that was killed is brought back first.
    """
    with _open_staging(out):
        pass


@contextmanager
def _open_staging(out: Path) -> Iterator[Path]:
    """Yield the locked folder beside ``out`` where the new one is written, and the earlier one lies for a moment.

    Raises ``ValueError`` as ``check_replaceable``.
    """
    staging = out.parent / f".publish.{out.name}"
    old = staging / "old"
    staging.mkdir(parents=True, exist_ok=True)
    with lock_folder(staging):
        try:
            _bring_back(old, out)
            _check_published(out, out)
            yield staging
        finally:
            _bring_back(old, out)
            shutil.rmtree(staging if not old.exists() else staging / "new", ignore_errors=True)


def _bring_back(old: Path, out: Path) -> None:
    if old.exists() and not out.exists():
        old.rename(out)


def _list_files(folder: Path) -> list[str]:
    """Return the paths in a folder; that of a folder ends with a slash, which entries of earlier versions lack."""
    paths = folder.rglob("*")
    return [path.relative_to(folder).as_posix() + "/" * (path.is_dir() and not path.is_symlink()) for path in paths]


def _check_published(folder: Path, out: Path) -> None:
    """Raise ``ValueError``, which names ``out``, unless a folder is missing, empty or only holds published files."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{out} is a file; choose another --out")
    if not any(folder.iterdir()):
        return
    try:
        published = set(read_record(_Marker, folder / MARKER).entries)
    except (FileNotFoundError, ValueError):
        raise ValueError(f"{out} exists and was not written by stepscope publish; choose another --out") from None
    foreign = (name for name in sorted(_list_files(folder)) if not published & {name, name.partition("/")[0]})
    if name := next(foreign, "").rstrip("/"):
        raise ValueError(f"{out} holds {name!r}, which stepscope publish did not write; move it away")


_STATIC: Final = Path(__file__).parent / "static"
_PLAYER: Final = Path(__file__).parents[1] / "player" / "static"
_STYLES: Final = ("stage.css", "player.css")
_README: Final = """---
{front_matter}---

A finished run in the read-only player of StepScope. Any web server can serve this folder, for example:

```sh
python -m http.server
```
"""


def hide_digests(folder: Path, names: Mapping[str, str]) -> None:
    """Write the names of uploads for their ids in all texts of a folder, also where a chart has cut an id.

    The digest of an id opens the upload on the page where it was made. Keys of events keep it: they are hashes.
    """
    digests = {f" {video_id[-32:]}": name[len(video_id) - 33 :] for video_id, name in names.items()}
    for path in folder.rglob("*") if names else ():
        if path.suffix in (".json", ".jsonl", ".csv", ".md") and not path.is_symlink():
            content = path.read_bytes()
            for digest, number in digests.items():
                content = re.sub(rf"{digest[:12]}[0-9a-f]*".encode(), number.encode(), content)
            path.write_bytes(content)


def write_page(folder: Path, *, title: str) -> None:
    """Write the page into a folder: ``index.html``, its modules and styles, and the front matter of a static Space."""
    (folder / "page").mkdir()
    for path in sorted(_STATIC.glob("*.*")):
        if path.name != "index.html":
            shutil.copyfile(path, folder / "page" / path.name)
    (folder / "page" / "colours.css").write_text(css_variables(), encoding="utf-8")
    modules = sorted(path.relative_to(_PLAYER) for path in _PLAYER.rglob("*.js"))
    for name in (*modules, *map(Path, _STYLES)):
        (folder / "player" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_PLAYER / name, folder / "player" / name)
    shutil.copyfile(PLOTLY_PATH, folder / "plotly.min.js")
    (folder / "index.html").write_text(_make_index(modules), encoding="utf-8")
    (folder / "README.md").write_text(_make_readme(title), encoding="utf-8")


def _make_index(modules: list[Path]) -> str:
    """Return ``index.html`` with the player's markup and the addresses of its modules, which then load at once."""
    preloads = "\n".join(f'<link rel="modulepreload" href="player/{name.as_posix()}">' for name in modules)
    index = (_STATIC / "index.html").read_text(encoding="utf-8")
    markup = (_PLAYER / "player.html").read_text(encoding="utf-8")
    return index.replace("<!-- preloads -->", preloads).replace("<!-- player -->", markup)


def _make_readme(title: str) -> str:
    """Return the README with the front matter of a static Space; YAML quotes the title."""
    front_matter = {
        "title": title,
        "emoji": "🔎",
        "colorFrom": "blue",
        "colorTo": "gray",
        "sdk": "static",
        "app_file": "index.html",
        "pinned": False,
        "header": "mini",
        "short_description": "A streaming video assistant, second by second",
        "tags": ["stepscope", "streaming-video", "evaluation"],
    }
    return _README.format(front_matter=yaml.safe_dump(front_matter, sort_keys=False, allow_unicode=True))
