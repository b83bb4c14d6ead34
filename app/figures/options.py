"""The options of the command ``figure``: formats of figures, and their widths on paper and on the screen."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

from tyro.conf import Positional, arg

from stepscope.app.style.colours import Theme
from stepscope.engine.cli.program import Options

FigureFormat = Literal["svg", "png", "pdf", "json", "csv"]
FORMATS: Final[tuple[FigureFormat, ...]] = get_args(FigureFormat)
PIXELS_PER_INCH: Final = 96
MIN_WIDTH_PX, MAX_WIDTH_PX = 240, 6000
_UNITS: Final = {"px": 96.0, "mm": 25.4, "cm": 2.54, "in": 1.0, "pt": 72.0}
"""Units by the number in an inch; ``pt`` are those of PDF and CSS."""
_WIDTH: Final = re.compile(r"\s*(\d+(?:[.,]\d+)?)\s*(?:(px|mm|cm|in|pt)\s*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """A width with its unit."""

    number: float
    unit: str

    @property
    def pixels(self) -> int:
        """The width in pixels of CSS, 96 in an inch."""
        return round(self.number * PIXELS_PER_INCH / _UNITS[self.unit])

    def css(self, pixels: float) -> str:
        """Return a length of the same figure, given in its pixels, in the unit of the width."""
        return f"{pixels / self.pixels * self.number:.4g}{self.unit}" if self.unit != "px" else f"{pixels:g}px"


def parse_width(text: str) -> Width:
    """Parse ``180mm``, ``8.5cm``, ``3.3in``, ``240pt`` or ``1000`` (pixels).

    Raises ``ValueError`` for other texts, and for widths that a figure cannot have.
    """
    match = _WIDTH.fullmatch(text)
    if match is None:
        raise ValueError(f"a width is a number with px, mm, cm, in or pt, such as 180mm; got {text!r}")
    width = Width(number=float(match[1].replace(",", ".")), unit=match[2] or "px")
    if not MIN_WIDTH_PX <= width.pixels <= MAX_WIDTH_PX:
        limits = f"{MIN_WIDTH_PX} to {MAX_WIDTH_PX} pixels (96 in an inch)"
        raise ValueError(f"a figure is {limits} wide; got {width.pixels}")
    return width


def read_format(path: Path, given: str | None = None) -> FigureFormat:
    """Return the format that is given, or that of a file's ending. Raises ``ValueError`` for an unknown one."""
    name = (given or path.suffix.removeprefix(".")).lower()
    for known in FORMATS:
        if name == known:
            return known
    ending = f"{path.name} ends in no format" if given is None else f"{given} is no format"
    raise ValueError(f"{ending} of a figure; choose one of {', '.join(FORMATS)}")


@dataclass(frozen=True, kw_only=True)
class FigureOptions(Options):
    """Draw a figure for a paper: a video of a run, or a chart of a run, of a threshold sweep, or of two runs."""

    run: Positional[Path]
    """Run folder of a split, or a sweep folder."""
    video: str | None = None
    """Id of the video."""
    chart: str | None = None
    """Name of a chart, instead of a video; a wrong name lists all."""
    against: Path | None = None
    """Run folder B: its lanes are below those of the video, or its scores beside those of score_distributions."""
    metric: tuple[str, ...] = ()
    """Score of heat_map, curves and score_distributions; both scores of the chart videos."""
    signal: tuple[str, ...] = ()
    """Signals of the charts of a sweep of a run: one that speaks and one that updates, as in stepscope sweep."""
    start_s: Annotated[float | None, arg(name="from")] = None
    """Begin of the range in seconds (default: that of the video)."""
    end_s: Annotated[float | None, arg(name="to")] = None
    """End of the range in seconds (default: that of the video)."""
    out: Path
    """File to write; its ending is the format: svg, png, pdf, csv, or json (Plotly) of a chart."""
    format: FigureFormat | None = None
    """Format, if the ending of --out differs."""
    width: str = "1000px"
    """Width with its unit: px, mm, cm, in or pt, such as 180mm."""
    theme: Theme = "light"
    """Colours on a light or on a dark background."""
    split: Path | None = None
    """File of the references (default: the split of the run)."""
