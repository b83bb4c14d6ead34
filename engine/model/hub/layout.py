"""Recognises a folder of an image-text model of the hub, without transformers."""

from pathlib import Path
from typing import Final

from stepscope.engine.model.files.checkpoint_files import ADAPTER_CONFIG, read_object, read_text
from stepscope.engine.model.files.heads_file import HEADS_FILE

POLICY: Final = "answer"
"""The decision policy of a model without heads."""


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
