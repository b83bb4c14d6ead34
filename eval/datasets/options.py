"""The options of the command ``annotations``."""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from stepscope.engine.cli.program import Options
from stepscope.eval.datasets.recipes import Repeats, Wrong


@dataclass(frozen=True, kw_only=True)
class AnnotationsOptions(Options):
    """Make a split from annotated segments of videos: the steps of each video and the updates of their states."""

    files: Positional[tuple[Path, ...]]
    """Files of annotations, or folders of them; docs/datasets.md lists the forms."""
    out: Path
    """Manifest to write."""
    videos: Path | None = None
    """Folder to search recursively for the videos; one that is missing keeps its row without a file."""
    dataset: str = ""
    """Data set of the files by name (default: recognised by keys or header)."""
    mapping: Path | None = None
    """YAML file with mappings of your own, of the form that docs/datasets.md describes."""
    columns: tuple[str, ...] = ()
    """Columns of a table of your own, such as video=clip start=from end=to label=what."""
    unit: str = ""
    """Unit of the times: s, ms, clock, ticks, frames@30 or timecode@25 (default: that of the data set)."""
    fps: float = 2.0
    """Frames per second of the samples."""
    level: int = 1
    """Level of a hierarchy, or tier of a document, whose segments are the steps; 1 is the coarsest."""
    repeats: Repeats = "auto"
    """What repeated segments of a step become: a step each (occurrence), one step to the last end (merge), or one step
    of the first segment (first); auto fills a recipe in its order, and is occurrence without one."""
    wrong: Wrong = "done"
    """Whether a step that was done wrongly is completed, or stays open until a correct segment."""
    task_graphs: Path | None = None
    """Folder with the task graph of each recipe, whose file has the name of the goal."""
    subset: str = ""
    """Only the videos of this subset, published list or bundle."""
    draw_missing: Path | None = None
    """Folder to draw a stand-in for each missing video in: the name of the step on a card."""
