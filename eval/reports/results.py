"""The tables of a run folder, as far as they can be read; ``eval.reports.scoring`` writes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepscope.engine.io.files import replace_surrogates_in
from stepscope.eval.reports.table_files import Row, read_charts, read_metrics, read_video_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The scores of a run folder; empty fields before the run is scored."""

    rows: Sequence[Row] = ()
    """One row per video."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Contents of ``metrics.json``."""
    charts: Mapping[str, Any] = field(default_factory=dict)
    """Contents of ``charts.json``."""
    problems: tuple[str, ...] = ()
    """One sentence per unreadable file; its field is empty."""


def read_results(folder: Path) -> Results:
    """Read the tables of a run folder; missing and unreadable ones are empty. All texts can be encoded as UTF-8."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    readers: Mapping[str, Callable[[Path], Any]] = {
        "rows": read_video_rows,
        "metrics": read_metrics,
        "charts": read_charts,
    }
    for name, read in readers.items():
        try:
            found[name] = replace_surrogates_in(read(folder))
        except FileNotFoundError:
            continue
        except ValueError as error:
            problems.append(str(error).replace(f"{folder}/", ""))
    return Results(**found, problems=tuple(problems))
