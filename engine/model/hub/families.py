"""The types of image-text models of the hub, and how a folder of one is recognised, without transformers.

A new type is one record of ``FAMILIES``, which has all in which the types take frames differently.

**Source**: the processors of transformers 5.23, which need the whole conversation, and so are not called.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stepscope.engine.decisions.policies import find_policy
from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.files.checkpoint_files import ADAPTER_CONFIG, HEADS_FILE, read_object, read_text
from stepscope.engine.model.files.image_processors import Resizing

_RECURRENT: Final = "it keeps a recurrent state, which cannot be cropped"
_REFUSED: Final[Mapping[str, str]] = {
    "gemma3": "the tokens of an image see one another in both directions",
    "qwen3_5": _RECURRENT,
    "lfm2_vl": _RECURRENT,
    "llava_next": "it cuts an image into tiles, and has no other form for a frame of a video",
}
DEFAULT_PIXELS: Final = 224 * 224
"""Most pixels of a frame for a model that takes images of any size, unless ``--frame-pixels`` sets them."""
TRAINING_FILE: Final = "stepscope.json"
"""Names the policy that a model was trained for, as ``decision_policy``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFamily:
    """A type of model."""

    model_type: str
    """Its name in ``config.json``."""
    has_any_size: bool = False
    """Whether it takes images of any size, as a list of patches, with a position for each row and column."""
    is_video: bool = False
    """Whether a frame is given as a video of one picture, for a model that cuts an image into tiles."""
    resizing: Resizing = "stretch"
    """How its processor brings a frame to the one size of the tower."""
    has_plain_tower: bool = False
    """Whether tower and connector are called alone: ``get_image_features`` drops images whose pixels are all 0."""
    opening: str = ""
    """Text that its processor writes before the tokens of an image, beyond the chat template."""
    closing: str = ""
    """Text that its processor writes after them."""


_FAKE: Final = "<fake_token_around_image>"
_ONE_TILE: Final[dict[str, Any]] = {
    "resizing": "tile",
    "has_plain_tower": True,
    "opening": f"{_FAKE}<global-img>",
    "closing": _FAKE,
}
FAMILIES: Final[Mapping[str, HubFamily]] = {
    family.model_type: family
    for family in (
        HubFamily(model_type="qwen2_vl", has_any_size=True),
        HubFamily(model_type="qwen2_5_vl", has_any_size=True),
        HubFamily(model_type="qwen3_vl", has_any_size=True),
        HubFamily(model_type="llava", resizing="crop"),
        HubFamily(model_type="llava_onevision", is_video=True),
        HubFamily(model_type="internvl", opening="<img>", closing="</img>"),
        HubFamily(model_type="idefics3", **_ONE_TILE),
        HubFamily(model_type="smolvlm", **_ONE_TILE),
    )
}
MODEL_TYPES: Final = tuple(FAMILIES)
ANY_SIZE: Final = tuple(name for name, family in FAMILIES.items() if family.has_any_size)


def check_type(kind: object) -> None:
    """Raise ``CheckpointError`` with the reason for a type of model that is not streamed."""
    if kind not in MODEL_TYPES:
        reason = _REFUSED.get(str(kind))
        raise CheckpointError(
            f"a {str(kind)[:80]} model cannot be streamed{f': {reason}' if reason else ''}; StepScope streams "
            f"{', '.join(MODEL_TYPES)}, and adapters of VideoLLM-online and ProAssist"
        )


def read_hub_policy(folder: Path) -> str:
    """Return the policy that a model was trained for; ``answer`` for one as published. Raises as ``read_training``."""
    return read_training(folder) or "answer"


def read_training(folder: Path) -> str | None:
    """Return the policy that the folder of a model or an adapter names; None if it names none.

    Raises ``CheckpointError`` if the policy is unknown.
    """
    name = read_object(folder / TRAINING_FILE).get("decision_policy")
    try:
        return None if name is None else find_policy(name).name
    except ValueError as error:
        raise CheckpointError(f"{folder / TRAINING_FILE}: {error}") from error


def is_hub_model(folder: Path, *, has_heads: bool = False) -> bool:
    """Return whether a folder holds whole weights of a model that is streamed without heads.

    A SmolVLM with a heads file, or with the tokens of its turns, is not one. ``has_heads`` is whether heads are given
    from elsewhere.
    """
    kind = read_object(folder / "config.json").get("model_type")
    if not isinstance(kind, str) or (folder / ADAPTER_CONFIG).is_file():
        return False
    if kind != "smolvlm":
        return True
    is_trained = (folder / HEADS_FILE).is_file() or '"[DST]"' in (read_text(folder / "tokenizer.json") or "")
    return not has_heads and not is_trained
