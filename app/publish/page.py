"""The files of a published player that are the same for every run: markup, modules, style sheets and plotly.js."""

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Final

import yaml

from stepscope.app.style.colours import css_variables

_STATIC: Final = Path(__file__).parent / "static"
_PLAYER: Final = Path(__file__).parents[1] / "web" / "static"
_PLOTLY: Final = files("plotly") / "package_data" / "plotly.min.js"
_STYLES: Final = ("stage.css", "player.css")
_README: Final = """---
{front_matter}---

A finished run in the read-only player of StepScope. Any web server can serve this folder, for example:

```sh
python -m http.server
```
"""


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
    with _PLOTLY.open("rb") as source, (folder / "plotly.min.js").open("wb") as target:
        shutil.copyfileobj(source, target)
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
