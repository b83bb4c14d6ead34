"""Labels of one frame for the vision pre-training: hands, parts, and a grid of patches.

Positions are normalised image coordinates, x and y in [0, 1], with the camera applied. Nouns are numbered from 1 in the
order of ``assets.scenes.recipes.NOUNS``; 0 is none. ``G`` is the grid size: patch [row, column] of the squeezed square.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from stepscope.assets.scenes.recipes import NOUNS
from stepscope.assets.scenes.scene import Scene, hand_at, part_at
from stepscope.assets.scenes.script import Place
from stepscope.assets.scenes.shapes import WORLD_WIDTH

PART_STATES: Final = ("none", "tray", "held", "loose", "placed")
"""Classes of ``FrameLabels.patch_state``."""
HAND_STATES: Final = ("none", "open", "closed")
"""Classes of ``FrameLabels.patch_hand``."""
_HEIGHTS: Final = ("tray", "placed", "loose", "held")
"""States in drawing order, from bottom to top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameLabels:
    """Ground truth of one frame. Hand 0 is the right hand, hand 1 the left hand."""

    hand_present: npt.NDArray[np.float32]
    """[2], 1 if the scene has the hand."""
    hand_xy: npt.NDArray[np.float32]
    """[2, 2], x and y of the grip in [0, 1]; 0 for an absent hand."""
    hand_closed: npt.NDArray[np.float32]
    """[2], 1 if closed."""
    hand_noun: npt.NDArray[np.int64]
    """[2], number of the noun held, 0 for none."""
    is_loose: bool
    """Whether a dropped part is on the bench."""
    num_placed: int
    placed: npt.NDArray[np.float32]
    """[len(NOUNS)], 1 for nouns in place."""
    patch_noun: npt.NDArray[np.uint8]
    """[G, G], number of the noun whose centre is in the patch; of several, the one drawn on top."""
    patch_state: npt.NDArray[np.uint8]
    """[G, G], index in ``PART_STATES`` of that part."""
    patch_hand: npt.NDArray[np.uint8]
    """[G, G], index in ``HAND_STATES`` of the hand whose grip is in the patch."""


def frame_labels(scene: Scene, time_s: float, *, grid: int = 8) -> FrameLabels:
    """Return the labels of the frame at ``time_s`` over ``grid`` x ``grid`` patches."""
    poses = [(NOUNS.index(part.noun), part_at(scene, part, time_s)) for part in scene.parts]
    hands = [hand_at(scene, hand, time_s) for hand in (0, 1)]
    placed, hand_noun = np.zeros(len(NOUNS), np.float32), np.zeros(2, np.int64)
    patch_noun, patch_state, patch_hand = np.zeros((3, grid, grid), np.uint8)
    for noun, pose in sorted(poses, key=lambda entry: _HEIGHTS.index(entry[1].state)):
        placed[noun] = pose.state == "placed"
        if pose.hand is not None:
            hand_noun[pose.hand] = noun + 1
        patch = _find_patch(scene, pose.at, grid)
        if patch is not None:
            patch_noun[patch], patch_state[patch] = noun + 1, PART_STATES.index(pose.state)
    hand_xy = np.zeros((2, 2), np.float32)
    for number, hand in enumerate(hands):
        if hand is not None:
            hand_xy[number] = _on_picture(scene, hand.at)
            if (patch := _find_patch(scene, hand.at, grid)) is not None:
                patch_hand[patch] = HAND_STATES.index("closed" if hand.is_closed else "open")
    return FrameLabels(
        hand_present=np.array([hand is not None for hand in hands], np.float32),
        hand_xy=hand_xy,
        hand_closed=np.array([hand is not None and hand.is_closed for hand in hands], np.float32),
        hand_noun=hand_noun,
        is_loose=any(pose.state == "loose" for _, pose in poses),
        num_placed=int(placed.sum()),
        placed=placed,
        patch_noun=patch_noun,
        patch_state=patch_state,
        patch_hand=patch_hand,
    )


def _on_picture(scene: Scene, at: Place) -> npt.NDArray[np.float64]:
    """Return the normalised image coordinates of a world point, consistent with ``shapes.Canvas``."""
    look = scene.look
    x = 0.5 + (at.x * look.zoom + look.shift.x) / WORLD_WIDTH
    y = 0.5 + (at.y - 0.5) * look.zoom + look.shift.y
    return np.array((x, y))


def _find_patch(scene: Scene, at: Place, grid: int) -> tuple[int, int] | None:
    """Return the (row, column) of a patch; None outside the image.

    With ``grid`` 8, the image point x 0.3, y 0.9 is in row 7, column 2.
    """
    column, row = map(int, np.floor(_on_picture(scene, at) * grid))
    return (row, column) if 0 <= row < grid and 0 <= column < grid else None
