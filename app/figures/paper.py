"""Formats of figures, and their widths on paper and on the screen."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

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
    """Parse ``180mm``, ``8.5cm``, ``3.3in``, ``240pt`` or ``1000`` (pixels). Raises ``ValueError`` for the rest."""
    match = _WIDTH.fullmatch(text)
    width = Width(number=float(match[1].replace(",", ".")), unit=match[2] or "px") if match else None
    if width is None or width.pixels < 1:
        raise ValueError(f"a width is a number with px, mm, cm, in or pt, such as 180mm; got {text!r}")
    return width


def check_width(width_px: int) -> None:
    """Raise ``ValueError`` if a figure cannot have this width."""
    if not MIN_WIDTH_PX <= width_px <= MAX_WIDTH_PX:
        raise ValueError(f"a figure is {MIN_WIDTH_PX} to {MAX_WIDTH_PX} pixels (96 in an inch) wide; got {width_px}")


def read_format(path: Path, given: str | None = None) -> FigureFormat:
    """Return the format that is given, or that of a file's ending. Raises ``ValueError`` for an unknown one."""
    name = (given or path.suffix.removeprefix(".")).lower()
    for known in FORMATS:
        if name == known:
            return known
    ending = f"{path.name} ends in no format" if given is None else f"{given} is no format"
    raise ValueError(f"{ending} of a figure; choose one of {', '.join(FORMATS)}")
