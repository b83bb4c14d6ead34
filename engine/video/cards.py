"""Draws stand-ins for videos that are missing: the name of the step on a card, with the time."""

import textwrap
from collections.abc import Callable
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from zlib import crc32

import cv2
import numpy as np

from stepscope.engine.dialogue import format_clock
from stepscope.engine.video.writer import open_encoder

_HEIGHT, _WIDTH = 180, 320
_LINE_CHARS = 26
_MAX_LINES = 5


def write_cards(path: Path, text_at: Callable[[float], str], *, fps: float, num_frames: int) -> None:
    """Write a video whose card at each frame has the text ``text_at`` its time; each text has its own colour."""
    cards = groupby(range(num_frames), key=lambda frame: (text_at(frame / fps), format_clock(frame // fps)))
    rate = Fraction(fps).limit_denominator(1001)
    with open_encoder(path, height=_HEIGHT, width=_WIDTH, fps=rate, crf=30, preset="veryfast") as encoder:
        for (text, clock), frames in cards:
            first, *rest = frames
            last = rest[-1] if rest else first
            encoder.write(_draw_card(text, clock), time_s=first / rate, until_s=(last + 1) / rate)


def _draw_card(text: str, clock: str) -> np.ndarray:
    shade = crc32(text.encode(errors="replace"))
    card = np.full((_HEIGHT, _WIDTH, 3), [40 + (shade >> shift) % 100 for shift in (0, 8, 16)], np.uint8)
    plain = text.encode("ascii", "replace").decode()  # the font has no other characters
    for number, line in enumerate(textwrap.wrap(plain, _LINE_CHARS)[:_MAX_LINES]):
        _write(card, line, 40 + 24 * number, scale=0.6)
    _write(card, clock, _HEIGHT - 12, scale=0.5)
    return card


def _write(card: np.ndarray, text: str, bottom: int, *, scale: float) -> None:
    cv2.putText(card, text, (12, bottom), cv2.FONT_HERSHEY_SIMPLEX, scale, (255, 255, 255), 1, cv2.LINE_AA)
