"""How each type of model takes a frame: its size, its patches, and the text that its processor writes around it.

**Source**: the image processors and the processors of transformers 5.23, which need torchvision or the whole
conversation, and so are not called.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.preprocessing import Framing

FRAME_PIXELS: Final = 224 * 224
"""Pixels of a frame for a model that takes images of any size."""
_FAKE: Final = "<fake_token_around_image>"
_WRITTEN: Final[Mapping[str, tuple[str, str]]] = {
    "idefics3": (f"{_FAKE}<global-img>", _FAKE),
    "smolvlm": (f"{_FAKE}<global-img>", _FAKE),
    "internvl": ("<img>", "</img>"),
}
"""Texts that a processor writes before and after the tokens of one image, beyond the chat template."""
_FRAMINGS: Final[Mapping[str, Framing]] = {"llava": "crop", "qwen2_vl": "pad", "qwen2_5_vl": "pad", "qwen3_vl": "pad"}
MODEL_TYPES: Final = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "internvl", "idefics3", "smolvlm")
"""Types of models that are streamed."""
_RECURRENT: Final = "it keeps a recurrent state, which cannot be cropped"
_REFUSED: Final[Mapping[str, str]] = {
    "gemma3": "the tokens of an image see one another in both directions",
    "qwen3_5": _RECURRENT,
    "lfm2_vl": _RECURRENT,
    "llava_next": "it cuts an image into tiles",
    "llava_onevision": "it cuts an image into tiles",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFormat:
    """How frames become the inputs of a vision tower."""

    model_type: str
    side: int
    """Side of the square image, in pixels."""
    framing: Framing
    patch: int = 0
    """Side of a patch, for a tower that takes a list of patches; 0 for one that takes images."""
    merge: int = 1
    """Patches per side that become one token."""
    num_pictures: int = 1
    """Pictures of a patch: a tower for videos gets the frame twice."""
    opening: str = ""
    """Text that the processor writes before the image."""
    closing: str = ""
    """Text that the processor writes after the image."""

    @property
    def grid(self) -> int | None:
        """Tokens per side of a model whose positions are a grid; None for one that counts tokens."""
        return self.side // (self.patch * self.merge) if self.patch else None

    def prepare(self, pixels: Tensor) -> dict[str, Tensor]:
        """Return the arguments of ``get_image_features`` for normalised images ``[B, 3, side, side]``.

        Patches are ordered by blocks of ``merge`` x ``merge``, ``[B * n * n, 3 * num_pictures * patch * patch]`` for
        ``n`` patches per side.
        """
        if not self.patch:
            return {"pixel_values": pixels}
        count, blocks = self.side // self.patch, self.side // self.patch // self.merge
        size = (blocks, self.merge, self.patch)
        patches = pixels.unflatten(3, size).unflatten(2, size)  # [B, 3, gh, mh, ph, gw, mw, pw]
        patches = patches.permute(0, 2, 5, 3, 6, 1, 4, 7)  # [B, gh, gw, mh, mw, 3, ph, pw]
        patches = patches.unsqueeze(6).expand(-1, -1, -1, -1, -1, -1, self.num_pictures, -1, -1)
        grid = pixels.new_tensor([[1, count, count]]).long().expand(len(pixels), 3)
        return {"pixel_values": patches.flatten(5).flatten(0, 4), "image_grid_thw": grid}


def check_type(kind: object) -> None:
    """Raise ``CheckpointError`` with the reason for a type of model that is not streamed."""
    if kind not in MODEL_TYPES:
        reason = _REFUSED.get(str(kind))
        raise CheckpointError(
            f"a {str(kind)[:80]} model cannot be streamed{f': {reason}' if reason else ''}; StepScope streams "
            f"{', '.join(MODEL_TYPES)}, and adapters of VideoLLM-online and ProAssist"
        )


def read_format(config: Any) -> FrameFormat:
    """Return the format of a model's configuration, whose type is one of ``MODEL_TYPES``."""
    kind = str(config.model_type)
    vision = config.vision_config
    opening, closing = _WRITTEN.get(kind, ("", ""))
    framing = _FRAMINGS.get(kind, "stretch")
    if framing != "pad":
        size = vision.image_size
        side = size if isinstance(size, int) else size[0]
        return FrameFormat(model_type=kind, side=side, framing=framing, opening=opening, closing=closing)
    block = vision.patch_size * vision.spatial_merge_size
    return FrameFormat(
        model_type=kind,
        side=max(1, int(FRAME_PIXELS**0.5) // block) * block,
        framing=framing,
        patch=vision.patch_size,
        merge=vision.spatial_merge_size,
        num_pictures=vision.temporal_patch_size,
    )
