"""Figures of a video of a run: the modules of the page draw them, in a Chromium of this machine."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from stepscope.app.figures.browser import evaluate, print_svg
from stepscope.app.figures.paper import Width
from stepscope.app.style.colours import Theme, css_variables
from stepscope.app.web.plotly_script import PLOTLY_PATH

TimelineFormat = Literal["svg", "png", "pdf", "csv"]
_STATIC: Final = Path(__file__).parent / "static"
_SCRIPT: Final = """
const style = document.head.appendChild(document.createElement("style")), asked = {asked};
style.textContent = asked.css;
const {{ encodeFile }} = await import(new URL("export/files.js", location));
const packed = await (await fetch("run.json")).json();
return encodeFile("plotly.js", packed, asked.look, asked.format);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFile:
    """A drawn range of a video."""

    content: bytes
    width_px: float
    """0 for data."""
    height_px: float
    """0 for data."""


def draw_timeline(
    packed: str, *, start_s: float, end_s: float, width: Width, theme: Theme, file_format: TimelineFormat
) -> TimelineFile:
    """Return a range of a run, packed by ``pack_run``, as a file. Raises ``EngineError`` if it cannot be drawn."""
    look = {"width": f"{width.number:g}{width.unit}", "theme": theme, "start": start_s, "end": end_s}
    drawn_format = "svg" if file_format == "pdf" else file_format
    asked = {"css": css_variables(), "look": look, "format": drawn_format}
    modules: dict[str, bytes | Path] = {path.relative_to(_STATIC).as_posix(): path for path in _STATIC.rglob("*.js")}
    files = modules | {"plotly.js": Path(str(PLOTLY_PATH)), "run.json": packed.encode()}
    answer = evaluate(files, _SCRIPT.format(asked=json.dumps(asked)))
    content = base64.b64decode(answer["content"])
    if file_format == "pdf":
        content = print_svg(content.decode())
    return TimelineFile(content=content, width_px=answer["width"], height_px=answer["height"])
