"""An SVG document in the making: elements with rounded numbers, portable colours, texts, clips and patterns."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import unescape
from typing import Any, Final
from xml.etree import ElementTree as ET

from app.figures.text import LINE, from_markup

_RGBA: Final = re.compile(r"rgba?\(\s*([^,]+),([^,]+),([^,)]+)(?:,([^)]+))?\)")
_TOKEN: Final = re.compile(r"(<br\s*/?>|</?[a-zA-Z][^<>]*>)", re.IGNORECASE)
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ANCHORS: Final = {"left": "start", "center": "middle", "right": "end"}


def paint(name: str, colour: str | None, opacity: float = 1.0) -> dict[str, Any]:
    """Return the attributes of a ``fill`` or ``stroke``, with the opacity apart, as SVG 1.1 reads it."""
    if not colour or colour == "transparent":
        return {name: "none"}
    if match := _RGBA.fullmatch(colour.strip()):
        red, green, blue = (round(float(part)) for part in match.groups()[:3])
        opacity *= float(match[4] or 1)
        colour = f"#{red:02x}{green:02x}{blue:02x}"
    if opacity <= 0:
        return {name: "none"}
    return {name: colour, **({f"{name}-opacity": opacity} if opacity < 1 else {})}


class Drawing:
    """Elements of one document; ``inside`` names the group that takes the next ones."""

    def __init__(self, width: float, height: float, *, title: str, font: Mapping[str, Any]) -> None:
        """Begin a document of a size in pixels; ``font`` has family, size and colour."""
        self.root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "version": "1.1"})
        self.root.set("viewBox", f"0 0 {_number(width)} {_number(height)}")
        if title:
            ET.SubElement(self.root, "title").text = _clean(title)
        self.definitions = ET.SubElement(self.root, "defs")
        self.group = self.root
        self.font = font
        self.root.set("font-family", str(font["family"]))
        self._ids = dict[tuple[Any, ...], str]()

    def add(self, tag: str, **attributes: Any) -> ET.Element:
        """Add an element to the current group; None leaves an attribute out."""
        element = ET.SubElement(self.group, tag, _attributes(attributes))
        element.tail = "\n"
        return element

    def begin_group(self, name: str, *, clip: tuple[float, float, float, float] | None = None) -> None:
        """Begin a group, which may be clipped to a rectangle x, y, width, height."""
        self.group = ET.SubElement(self.root, "g", {"class": name})
        self.group.text = self.group.tail = "\n"
        if clip is not None:
            self.group.set("clip-path", f"url(#{self._clip(clip)})")

    def polyline(self, points: Iterable[tuple[float, float]], **attributes: Any) -> None:
        """Add a line through points."""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self.add("polyline", points=path, fill="none", **attributes)

    def polygon(self, points: Iterable[tuple[float, float]], **attributes: Any) -> None:
        """Add a closed area."""
        self.add("polygon", points=" ".join(f"{_number(x)},{_number(y)}" for x, y in points), **attributes)

    def text(
        self,
        markup: str,
        x: float,
        y: float,
        *,
        align: str = "left",
        size: float | None = None,
        colour: str | None = None,
        angle: float = 0,
        baseline: float | None = None,
    ) -> None:
        """Add a text of Plotly's markup, whose lines are centred at ``y``.

        Args:
            markup: Text with ``<br>``, ``<b>``, ``<i>`` and character references; further tags have no effect.
            x: Left end, centre or right end, by ``align``.
            y: Height of the middle.
            align: ``left``, ``center`` or ``right``.
            size: Font size in pixels.
            colour: Colour of the letters.
            angle: Clockwise rotation about the point, in degrees.
            baseline: Height of the first line's baseline instead of ``y``.
        """
        size = size or float(self.font["size"])
        num_lines = from_markup(markup).count("\n") + 1
        top = y + 0.35 * size - (num_lines - 1) * LINE * size / 2 if baseline is None else baseline
        element = self.add(
            "text",
            **{"x": x, "y": top, "font-size": size, "text-anchor": _ANCHORS[align]},
            **paint("fill", colour or str(self.font["color"])),
            transform=f"rotate({_number(angle)} {_number(x)} {_number(y)})" if angle else None,
        )
        _write_markup(element, markup, x, LINE * size)

    def hatch(self, colour: str, background: str | None, *, shape: str, size: float, solidity: float) -> str:
        r"""Return the paint of a pattern of Plotly: lines ``/``, ``\\``, ``-``, ``|``, ``x``, ``+`` or dots ``.``."""
        key = ("hatch", colour, background, shape, size, solidity)
        if key not in self._ids:
            self._ids[key] = f"hatch{len(self._ids)}"
            box = {"id": self._ids[key], "width": size, "height": size, "patternUnits": "userSpaceOnUse"}
            pattern = ET.SubElement(self.definitions, "pattern", _attributes(box))
            if background:
                area = {"width": size, "height": size, **paint("fill", background)}
                ET.SubElement(pattern, "rect", _attributes(area))
            if shape == ".":
                dot = {"cx": size / 2, "cy": size / 2, "r": size * solidity**0.5 / 2, **paint("fill", colour)}
                ET.SubElement(pattern, "circle", _attributes(dot))
            else:
                line = {"d": _hatch_path(shape, size), "fill": "none", "stroke-width": size * solidity}
                ET.SubElement(pattern, "path", _attributes({**line, **paint("stroke", colour)}))
        return f"url(#{self._ids[key]})"

    def gradient(self, stops: Sequence[tuple[float, str]]) -> str:
        """Return the paint of a gradient from the bottom to the top."""
        key = ("gradient", *stops)
        if key not in self._ids:
            self._ids[key] = f"gradient{len(self._ids)}"
            place = {"id": self._ids[key], "x1": 0, "x2": 0, "y1": 1, "y2": 0}
            made = ET.SubElement(self.definitions, "linearGradient", _attributes(place))
            for offset, colour in stops:
                stop = {"offset": offset, **{f"stop-{k}": v for k, v in _stop(colour).items()}}
                ET.SubElement(made, "stop", _attributes(stop))
        return f"url(#{self._ids[key]})"

    def to_text(self, *, width: str, height: str) -> str:
        """Return the document as XML; its size on paper is ``width`` times ``height``, with units."""
        self.root.set("width", width)
        self.root.set("height", height)
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(self.root, encoding="unicode") + "\n"

    def _clip(self, box: tuple[float, float, float, float]) -> str:
        key = ("clip", *box)
        if key not in self._ids:
            self._ids[key] = f"clip{len(self._ids)}"
            path = ET.SubElement(self.definitions, "clipPath", {"id": self._ids[key]})
            ET.SubElement(path, "rect", _attributes(dict(zip(("x", "y", "width", "height"), box, strict=True))))
        return self._ids[key]


def _write_markup(element: ET.Element, markup: str, x: float, line: float) -> None:
    """Write the tokens of a markup into a text element: a ``tspan`` for each style and line."""
    bold = italic = 0
    breaks = False
    for token in _TOKEN.split(_clean(markup)):
        tag = token.lower().strip("</> ").split(" ")[0] if _TOKEN.fullmatch(token) else ""
        if tag.startswith("br"):
            breaks = True
        elif tag:
            step = -1 if token.startswith("</") else 1
            bold, italic = bold + step * (tag == "b"), italic + step * (tag == "i")
        elif token:
            style = {"font-weight": "bold" if bold > 0 else None, "font-style": "italic" if italic > 0 else None}
            place = {"x": x, "dy": line} if breaks else {}
            ET.SubElement(element, "tspan", _attributes({**place, **style})).text = unescape(token)
            breaks = False


def _hatch_path(shape: str, size: float) -> str:
    s, h, q = _number(size), _number(size / 2), _number(size / 4)
    back = f"M-{q},{q}L{q},-{q}M0,{s}L{s},0M{_number(size * 0.75)},{_number(size * 1.25)}"
    rising = f"{back}L{_number(size * 1.25)},{_number(size * 0.75)}"
    falling = f"M-{q},{_number(size * 0.75)}L{q},{_number(size * 1.25)}M0,0L{s},{s}"
    falling += f"M{_number(size * 0.75)},-{q}L{_number(size * 1.25)},{q}"
    level, upright = f"M0,{h}L{s},{h}", f"M{h},0L{h},{s}"
    paths = {"/": rising, "\\": falling, "x": rising + falling, "-": level, "|": upright, "+": level + upright}
    return paths.get(shape, rising)


def _stop(colour: str) -> dict[str, Any]:
    found = paint("fill", colour)
    return {"color": found["fill"], "opacity": found.get("fill-opacity")}


def _attributes(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {
        name.replace("_", "-"): _number(value) if isinstance(value, int | float) else _clean(str(value))
        for name, value in attributes.items()
        if value is not None
    }


def _number(value: float) -> str:
    """Return a number with at most two decimals, without zeros at the end."""
    return f"{round(value, 2) + 0.0:.8g}"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
