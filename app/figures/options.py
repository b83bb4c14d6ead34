"""The options of the command ``figure``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from stepscope.app.figures.paper import FigureFormat
from stepscope.app.style.colours import Theme
from stepscope.engine.cli.program import Options


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
