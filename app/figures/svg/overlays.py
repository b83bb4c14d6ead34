"""Shapes, annotations and the title of a figure."""

import math
from collections.abc import Mapping
from typing import Any

from app.figures.svg.axes import Area, Axis, title_text
from app.figures.svg.drawing import Drawing, paint
from app.figures.svg.source import Values
from app.figures.svg.traces import line_look
from app.figures.text import LINE, from_markup, text_width


def place_on(value: Any, ref: str, axes: Mapping[str, Axis], area: Area, *, is_x: bool) -> float:
    """Return the pixels of a value on an axis, of a share of its domain (``y2 domain``), or of the area (``paper``)."""
    name, _, is_domain = ref.partition(" ")
    axis = axes.get(name)
    if axis is not None and not is_domain:
        return axis.place(value)
    if axis is not None:
        return axis.start + float(value) * (axis.end - axis.start)
    return area.left + float(value) * area.width if is_x else area.top + (1 - float(value)) * area.height


def draw_shapes(drawing: Drawing, layout: Values, axes: Mapping[str, Axis], area: Area, *, layer: str) -> None:
    """Draw the lines, rectangles and circles of a layer, ``below`` or ``above`` the traces."""
    for shape in layout.get("shapes") or ():
        if str(shape.get("layer") or "above") != layer or shape.get("visible") is False:
            continue
        x0, x1 = (place_on(shape[k], str(shape.get("xref") or "x"), axes, area, is_x=True) for k in ("x0", "x1"))
        y0, y1 = (place_on(shape[k], str(shape.get("yref") or "y"), axes, area, is_x=False) for k in ("y0", "y1"))
        if math.isnan(x0 + x1 + y0 + y1):
            continue
        opacity = float(shape.get("opacity", 1))
        look = line_look(shape.get("line") or {}, str(drawing.font["color"]), opacity)
        fill = paint("fill", shape.get("fillcolor"), opacity)
        if shape.get("type") == "line":
            drawing.add("line", x1=x0, x2=x1, y1=y0, y2=y1, **look)
        elif shape.get("type") == "circle":
            middle, radius = ((x0 + x1) / 2, (y0 + y1) / 2), (abs(x1 - x0) / 2, abs(y1 - y0) / 2)
            drawing.add("ellipse", cx=middle[0], cy=middle[1], rx=radius[0], ry=radius[1], **fill, **look)
        else:
            box = {"x": min(x0, x1), "y": min(y0, y1), "width": abs(x1 - x0), "height": abs(y1 - y0)}
            drawing.add("rect", **box, **fill, **look)


def draw_annotations(drawing: Drawing, layout: Values, axes: Mapping[str, Axis], area: Area) -> None:
    """Draw the annotations, with their boxes and arrows."""
    for note in layout.get("annotations") or ():
        text = str(note.get("text") or "")
        if not text or note.get("visible") is False:
            continue
        x = place_on(note.get("x", 0), str(note.get("xref") or "x"), axes, area, is_x=True)
        y = place_on(note.get("y", 0), str(note.get("yref") or "y"), axes, area, is_x=False)
        if math.isnan(x + y):
            continue
        x, y = x + float(note.get("xshift", 0)), y - float(note.get("yshift", 0))
        font = note.get("font") or {}
        size = float(font.get("size") or drawing.font["size"])
        if note.get("showarrow", True):
            tip = x, y
            x, y = x + float(note.get("ax", 0)), y + float(note.get("ay", -30))
            stroke = paint("stroke", str(note.get("arrowcolor") or font.get("color") or drawing.font["color"]))
            drawing.add("line", x1=x, x2=tip[0], y1=y, y2=tip[1], stroke_width=note.get("arrowwidth", 1), **stroke)
        lines = from_markup(text).split("\n")
        width, height = max(text_width(line, size) for line in lines), LINE * size * len(lines)
        left = x - width * _share(note.get("xanchor", "auto"), note, is_x=True)
        top = y - height * _share(note.get("yanchor", "auto"), note, is_x=False)
        if note.get("bgcolor"):
            box = {"x": left - 2, "y": top - 1, "width": width + 4, "height": height + 2}
            drawing.add("rect", **box, **paint("fill", note["bgcolor"], float(note.get("opacity", 1))))
        align = {0.0: "left", 0.5: "center", 1.0: "right"}[_share(note.get("xanchor", "auto"), note, is_x=True)]
        angle = float(note.get("textangle") or 0)
        drawing.text(text, x, top + height / 2, align=align, size=size, colour=font.get("color"), angle=angle)


def _share(anchor: str, note: Values, *, is_x: bool) -> float:
    """Return the share of the text that lies left of, or above, the point that anchors it."""
    known = {"left": 0.0, "center": 0.5, "right": 1.0, "top": 0.0, "middle": 0.5, "bottom": 1.0}
    if anchor in known:
        return known[anchor]
    if note.get("showarrow", True) or str(note.get("xref" if is_x else "yref") or "x") != "paper":
        return 0.5
    share = float(note.get("x" if is_x else "y", 0.5))
    share = share if is_x else 1 - share
    return 0.0 if share < 1 / 3 else 1.0 if share > 2 / 3 else 0.5


def title_height(layout: Values, font_size: float) -> float:
    """Return the height of the title in pixels; 0 without one."""
    title = title_text(layout)
    if not title:
        return 0.0
    height = LINE * _title_size(layout, font_size) * (from_markup(title).count("\n") + 1) + 6
    subtitle = _subtitle(layout)
    return height + (LINE * _title_size(subtitle, font_size) if title_text(subtitle) else 0.0)


def _subtitle(layout: Values) -> Values:
    """Return the subtitle as a title of its own."""
    title = layout.get("title")
    subtitle = title.get("subtitle") if isinstance(title, Mapping) else None
    return {"title": subtitle or {}}


def draw_title(drawing: Drawing, layout: Values, area: Area, width: float) -> None:
    """Draw the title at the top of the figure."""
    markup = title_text(layout)
    if not markup:
        return
    title = layout["title"] if isinstance(layout["title"], Mapping) else {}
    x, top = float(title.get("x", 0.05)), 6.0
    place = area.left + x * area.width if title.get("xref") == "paper" else x * width
    anchor = str(title.get("xanchor") or "auto")
    align = anchor if anchor != "auto" else "left" if x < 1 / 3 else "right" if x > 2 / 3 else "center"
    for part, look in ((markup, layout), (title_text(_subtitle(layout)), _subtitle(layout))):
        size = _title_size(look, float(drawing.font["size"]))
        height = LINE * size * (from_markup(part).count("\n") + 1)
        if part:
            colour = (look["title"].get("font") or {}).get("color") if isinstance(look["title"], Mapping) else None
            drawing.text(part, place, top + height / 2, align=align, size=size, colour=colour)
        top += height


def _title_size(layout: Values, font_size: float) -> float:
    title = layout.get("title")
    font = title.get("font") if isinstance(title, Mapping) else None
    return float((font or {}).get("size") or 1.4 * font_size)
