"""Recognises a folder of an image-text model of the hub, without transformers."""

from pathlib import Path
from typing import Final

from stepscope.engine.decisions.policies import find_policy
from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.files.checkpoint_files import ADAPTER_CONFIG, HEADS_FILE, read_object, read_text

DEFAULT_PIXELS: Final = 224 * 224
"""Most pixels of a frame for a model that takes images of any size, unless ``--frame-pixels`` sets them."""
_UNTRAINED_POLICY: Final = "answer"
TRAINING_FILE: Final = "stepscope.json"
"""Names the policy that a model was trained for, as ``decision_policy``."""


def read_hub_policy(folder: Path) -> str:
    """Return the policy that a model was trained for; ``answer`` for one as published. Raises as ``read_training``."""
    return read_training(folder) or _UNTRAINED_POLICY


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

    A SmolVLM with a heads file, or with the tokens of its turns, is none; ``has_heads`` is whether it gets heads from
    elsewhere.
    """
    kind = read_object(folder / "config.json").get("model_type")
    if not isinstance(kind, str) or (folder / ADAPTER_CONFIG).is_file():
        return False
    if kind != "smolvlm":
        return True
    is_trained = (folder / HEADS_FILE).is_file() or '"[DST]"' in (read_text(folder / "tokenizer.json") or "")
    return not has_heads and not is_trained
