"""Draw one frame of a scene: workbench, mat, tray, parts, hands, light and noise.

The 4:3 world is mapped to an image of any size and aspect ratio, so a small square frame is a squeezed large one. The
pixels depend only on the scene, the time, the size and the version of OpenCV.
"""

import math
from functools import lru_cache
from typing import Final

import cv2
import numpy as np

from stepscope.assets.scenes.scene import HandPose, Look, Part, PartPose, Scene, hand_at, part_at
from stepscope.assets.scenes.script import Place
from stepscope.assets.scenes.shapes import (
    Canvas,
    Image,
    Points,
    box,
    corners,
    darken,
    draw_part,
    draw_silhouette,
    lay_canvas,
    lighten,
    oval,
)

_LYING_SHADOW: Final = (0.008, 0.014)
_FADE_S: Final = 0.4
"""Duration of the fade at the start and end of a spell of bad light or noise."""
_RAISED_SHADOW: Final = (0.02, 0.045)
_SUPERSAMPLE: Final = 2
"""Factor by which the drawing is larger than the frame before downsampling."""


def draw_frame(scene: Scene, time_s: float, *, height: int, width: int) -> Image:
    """Return the frame at ``time_s`` as RGB, uint8 ``[height, width, 3]``."""
    size = (height * _SUPERSAMPLE, width * _SUPERSAMPLE)
    image = _draw_bench(scene.look, *size).copy()
    canvas = lay_canvas(image, zoom=scene.look.zoom, shift=scene.look.shift)
    poses = [(part, part_at(scene, part, time_s)) for part in scene.parts]
    lying = sorted((entry for entry in poses if entry[1].hand is None), key=_depth)
    hands = [(hand, grip) for hand in (0, 1) if (grip := hand_at(scene, hand, time_s)) is not None]
    held = {pose.hand: (part, pose) for part, pose in poses if pose.hand is not None}
    _cast_shadow(canvas, scene.look, lying, [], _LYING_SHADOW)
    for part, pose in lying:
        draw_part(canvas, part.noun, colour=part.colour, at=pose.at, scale=part.scale)
    _cast_shadow(canvas, scene.look, list(held.values()), hands, _RAISED_SHADOW)
    for hand, grip in hands:
        _draw_hand(canvas, scene.look, hand, grip, held.get(hand))
    image = np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    return _expose(scene, time_s, image)


def _depth(entry: tuple[Part, PartPose]) -> tuple[int, int]:
    part, pose = entry
    return ("tray", "placed", "loose").index(pose.state), part.step or 0


@lru_cache(maxsize=8)
def _draw_bench(look: Look, height: int, width: int) -> Image:
    """Draw the static background: bench with grain, mat and tray."""
    image = np.empty((height, width, 3), np.uint8)
    image[:] = look.bench
    canvas = lay_canvas(image, zoom=look.zoom, shift=look.shift)
    for row in range(-1, 8):
        y = 0.15 * row
        canvas.fill(box(0.9, 0.074, 0, y, round_by=0.001), darken(look.bench, 0.98 if row % 2 else 1.0))
        canvas.stroke(corners(-0.9, y + 0.075, 0.9, y + 0.075), darken(look.bench, 0.9), 0.004)
    edge = lighten(look.mat, 0.25)
    canvas.fill(box(0.386, 0.336, 0, 0.362, round_by=0.04), darken(look.bench, 0.8))
    canvas.fill(box(0.38, 0.33, 0, 0.355, round_by=0.035), look.mat)
    canvas.stroke(box(0.36, 0.31, 0, 0.355, round_by=0.03), edge, 0.005, is_closed=True)
    tray = darken(look.bench, 0.7)
    canvas.fill(box(0.63, 0.142, 0, 0.855, round_by=0.04), darken(tray, 0.75))
    canvas.fill(box(0.622, 0.134, 0, 0.852, round_by=0.035), tray)
    canvas.fill(box(0.605, 0.12, 0, 0.855, round_by=0.03), lighten(look.bench, 0.12))
    return image


def _cast_shadow(
    canvas: Canvas,
    look: Look,
    parts: list[tuple[Part, PartPose]],
    hands: list[tuple[int, HandPose]],
    offset: tuple[float, float],
) -> None:
    """Draw soft shadows of parts and hands."""
    if not parts and not hands:
        return
    height, width = canvas.image.shape[:2]
    mask = np.zeros((height // 2, width // 2), np.uint8)
    shadow = lay_canvas(mask, zoom=look.zoom, shift=look.shift)
    for part, pose in parts:
        at = Place(x=pose.at.x + offset[0], y=pose.at.y + offset[1])
        draw_silhouette(shadow, part.noun, at=at, scale=part.scale)
    for hand, grip in hands:
        x, y = grip.at.x + offset[0], grip.at.y + offset[1]
        shadow.stroke(_arm_line(hand, Place(x=x, y=y)), (255,), 0.09)
        shadow.fill(oval(0.06, 0.06, x, y + 0.05), (255,))
    reach = max(1, round(offset[1] * height / 4)) * 2 + 1
    soft = cv2.resize(cv2.blur(mask, (reach, reach)), (width, height), interpolation=cv2.INTER_LINEAR)
    keep = cv2.LUT(soft, (255 - 0.34 * np.arange(256)).astype(np.uint8))
    cv2.multiply(canvas.image, cv2.cvtColor(keep, cv2.COLOR_GRAY2RGB), dst=canvas.image, scale=1 / 255)


def _side(hand: int) -> float:
    return 1.0 if hand == 0 else -1.0


def _arm_line(hand: int, at: Place) -> Points:
    side = _side(hand)
    return corners(at.x + 0.04 * side, at.y + 0.08, side * 0.95, at.y * 0.4 + 0.47)


def _draw_hand(canvas: Canvas, look: Look, hand: int, pose: HandPose, held: tuple[Part, PartPose] | None) -> None:
    """Draw sleeve, palm and fingers; a held part is drawn between the palm and the finger tips."""
    side, x, y = _side(hand), pose.at.x, pose.at.y
    outline = darken(look.skin, 0.55)
    wrist, elbow = _arm_line(hand, pose.at)
    cuff = wrist + (elbow - wrist) * min(1.0, 0.07 / float(np.hypot(*(elbow - wrist)) + 1e-6))
    canvas.stroke(np.stack((wrist, cuff)), outline, 0.078)
    canvas.stroke(np.stack((wrist, cuff)), look.skin, 0.066)
    canvas.stroke(np.stack((cuff, elbow)), darken(look.sleeve, 0.5), 0.112)
    canvas.stroke(np.stack((cuff, elbow)), look.sleeve, 0.098)
    canvas.stroke(np.stack((cuff, cuff + (elbow - cuff) * 0.02)), lighten(look.sleeve, 0.35), 0.098)
    palm = oval(0.056, 0.05, x + 0.015 * side, y + 0.062)
    fingers = _curled(side, x, y) if pose.is_closed else _spread(side, x, y)
    canvas.stroke(palm, outline, 0.012, is_closed=True)
    if pose.is_closed:
        canvas.fill(palm, look.skin)
        if held is not None:
            part, part_pose = held
            draw_part(canvas, part.noun, colour=part.colour, at=part_pose.at, scale=part.scale)
    for colour, size in ((outline, 0.038), (look.skin, 0.026)):
        for finger in fingers:
            canvas.stroke(finger, colour, size)
    if not pose.is_closed:
        canvas.fill(palm, look.skin)


def _spread(side: float, x: float, y: float) -> list[Points]:
    """Return the lines of four open fingers and the thumb."""
    root_y = y + 0.055
    return [
        corners(x + 0.02 * side, root_y, x + length * (math.sin(angle) * side), root_y - length * math.cos(angle))
        for angle, length in ((-0.75, 0.1), (-0.25, 0.12), (0.2, 0.118), (0.62, 0.1), (-1.45, 0.085))
    ]


def _curled(side: float, x: float, y: float) -> list[Points]:
    """Return the lines of finger tips over the lower edge of the held part, and of the thumb at its side."""
    fingers = [corners(x + dx * side, y + 0.07, x + dx * side, y + 0.045) for dx in (0.042, 0.014, -0.014)]
    return [*fingers, corners(x - 0.035 * side, y + 0.075, x - 0.055 * side, y + 0.04)]


def _expose(scene: Scene, time_s: float, image: Image) -> Image:
    """Apply the brightness and noise at ``time_s``."""
    look, dim, grain = scene.look, 0.0, scene.look.noise
    for spell in scene.spells:
        edge_s = min(time_s - spell.start_s, spell.end_s - time_s, _FADE_S)
        strength = spell.strength * max(0.0, edge_s / _FADE_S)
        dim = max(dim, strength) if spell.cause == "light" else dim
        grain = max(grain, 22 * strength) if spell.cause == "noise" else grain
    flicker = 1 + 0.015 * math.sin(2 * math.pi * look.flicker_hz * time_s) + 0.1 * dim * math.sin(21 * time_s)
    gain = look.gain * flicker * (1 - 0.6 * dim)
    rng = np.random.default_rng([scene.seed, round(time_s * 1000)])
    noise = rng.standard_normal(image.shape[:2], dtype=np.float32) * np.float32(grain)
    lit = cv2.addWeighted(image, gain, cv2.merge((noise, noise, noise)), 1.0, 0.0, dtype=cv2.CV_8U)
    return np.asarray(lit, dtype=np.uint8)
