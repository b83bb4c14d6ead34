"""A Plotly figure as plain values: traces and layout with the values of the template, and arrays as lists."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

Values = dict[str, Any]

_COLORWAY: Final = ("#636efa", "#ef553b", "#00cc96", "#ab63fa", "#ffa15a", "#19d3f3")
SUPPORTED: Final = ("scatter", "bar", "histogram", "heatmap", "box")
"""Types of traces that are drawn."""


def read_figure(figure: go.Figure) -> tuple[list[Values], Values]:
    """Return the visible traces and the layout. Raises ``ValueError`` for a type of trace that is not supported."""
    content = to_plain(figure.to_plotly_json())
    template = content["layout"].get("template") or {}
    layout = merge(template.get("layout", {}), content["layout"])
    for name in [name for name in layout if name[1:5] == "axis"]:
        layout[name] = merge(template.get("layout", {}).get(name[:5], {}), layout[name])
    colorway = layout.get("colorway") or _COLORWAY
    traces = []
    for number, trace in enumerate(content["data"]):
        kind = trace.get("type", "scatter")
        if kind not in SUPPORTED:
            raise ValueError(f"a trace of type {kind} cannot be written as SVG; {', '.join(SUPPORTED)} can")
        defaults = (template.get("data", {}).get(kind) or [{}])[0]
        if trace.get("visible", True) is True:
            own = merge(merge(defaults, trace), {"type": kind})
            traces.append({"default_colour": colorway[number % len(colorway)], "number": number, **own})
    return traces, layout


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Values:
    """Return a deep copy of two mappings; values of ``above`` win, unless they are None."""
    merged = {name: merge(value, {}) if isinstance(value, Mapping) else value for name, value in below.items()}
    for name, value in above.items():
        if isinstance(value, Mapping):
            known = merged.get(name)
            merged[name] = merge(known if isinstance(known, Mapping) else {}, value)
        elif value is not None:
            merged[name] = value
    return merged


def to_plain(value: Any) -> Any:
    """Return a value of a figure with each array as a list, also one in base64."""
    if isinstance(value, Mapping):
        if "bdata" in value and "dtype" in value:
            array = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
            shape = [int(size) for size in str(value.get("shape", "-1")).split(",")]
            return array.reshape(shape).tolist()
        return {name: to_plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return to_plain(value.tolist())
    if hasattr(value, "to_numpy"):
        return to_plain(value.to_numpy())
    if isinstance(value, np.generic):
        return value.item()
    return [to_plain(item) for item in value] if isinstance(value, list | tuple) else value


def at(value: Any, number: int, default: Any = None) -> Any:
    """Return the entry of a list at a position, or the value itself if it holds for all."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value[number] if number < len(value) and value[number] is not None else default
    return default if value is None else value
