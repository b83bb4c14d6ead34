"""The results as JSON and as Markdown."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu.parts import Result
from benchmarks.gpu.settings import Figure


def write(folder: Path, results: Sequence[Result], about: dict[str, Any]) -> None:
    """Write ``gpu.json`` and ``gpu.md``."""
    content = {**about, "parts": [asdict(result) for result in results]}
    (folder / "gpu.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (folder / "gpu.md").write_text(to_markdown(results, about), encoding="utf-8")


def to_markdown(results: Sequence[Result], about: dict[str, Any]) -> str:
    """Return a table of the parts, and one of the figures of each part that has some."""
    lines = ["# Benchmark of a GPU", "", ", ".join(f"{name}: {value}" for name, value in about.items()), ""]
    lines += ["| part | state | seconds | reason |", "|---|---|---|---|"]
    lines += [f"| {r.name} | {r.state} | {r.seconds:.1f} | {_cell(r.reason)} |" for r in results]
    for result in results:
        if result.figures:
            lines += ["", f"## {result.name}", "", "| figure | value | goal | note |", "|---|---|---|---|"]
            lines += [f"| {_cell(f.name)} | {format_value(f)} | {f.goal} | {_cell(f.note)} |" for f in result.figures]
    return "\n".join(lines) + "\n"


def format_value(figure: Figure) -> str:
    """Return the value of a figure with its unit, such as ``3.21 s``."""
    if isinstance(figure.value, str):
        return _cell(figure.value)
    digits = 0 if figure.value.is_integer() or figure.value >= 1000 else 2
    return f"{figure.value:,.{digits}f} {figure.unit}".strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
