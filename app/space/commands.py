"""The command ``stepscope space``: writes the folder of a Space."""

import shutil
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import stepscope
from stepscope.app.space.options import SpaceOptions

FILES: Final = Path(__file__).parent / "files"
"""``README.md`` with the front matter, ``requirements.txt`` and ``space.py``, which the Hub expects at the root."""
SOURCES: Final = Path(__file__).parents[2]
PACKAGES: Final = ("app", "assets", "engine", "eval")
"""Of ``stepscope``; in a checkout they lie beside it."""


def write_space(options: SpaceOptions) -> None:
    """Write the folder. Raises ``ValueError`` if it is not empty."""
    out = options.out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} exists and is not an empty folder; name a new folder")
    shutil.copytree(FILES, out, ignore=_skip, dirs_exist_ok=True)
    for module in ("__init__.py", "__main__.py"):
        (out / "stepscope").mkdir(exist_ok=True)
        shutil.copy(Path(stepscope.__file__).with_name(module), out / "stepscope")
    for package in PACKAGES:
        shutil.copytree(SOURCES / package, out / "stepscope" / package, ignore=_skip)
    _write_metadata(out)


def _write_metadata(out: Path) -> None:
    """Write the metadata of the package, which Python finds beside ``space.py``: exports record its version."""
    installed = distribution("stepscope")
    folder = out / f"stepscope-{installed.version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        installed.read_text("METADATA") or installed.read_text("PKG-INFO") or "", encoding="utf-8"
    )


_skip = shutil.ignore_patterns("__pycache__", "*.pyc")


def space(options: SpaceOptions) -> None:
    """Write the folder of a Space and print the command that pushes it."""
    write_space(options)
    print(f"written: {options.out}")
    print(f"push it: hf upload NAME/stepscope {options.out} . --repo-type space")
