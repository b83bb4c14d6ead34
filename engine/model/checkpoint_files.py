"""Reads the files of a checkpoint folder: JSON objects, tensors, the chat template and the normalisation.

Every function raises ``CheckpointError`` with one line for a file that cannot be read.
"""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import CheckpointError
from engine.io import load_json
from engine.model.preprocessing import Normalization


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one if the file is missing."""
    if not path.exists():
        return {}
    try:
        content = load_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}; download it again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold a JSON object, not a {type(content).__name__}; download it again")
    return content


def read_text(path: Path) -> str | None:
    """Read text of any encoding, invalid UTF-8 as lone surrogates; None if the file is missing."""
    try:
        return path.read_bytes().decode("utf-8", errors="surrogateescape") if path.exists() else None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error


def weight_files(folder: Path) -> list[Path]:
    """Return the files with the model's weights, sorted by name."""
    return sorted(folder.glob("model*.safetensors"))


def stored_tensors(folder: Path) -> dict[str, Path]:
    """Return the file of each tensor by the tensor's name; if several hold it, the one that transformers reads."""
    return {name: path for path in weight_files(folder) for name in tensor_names(path)}


def tensor_names(path: Path) -> list[str]:
    """Return the tensor names in a safetensors file, sorted."""
    try:
        with safe_open(path, framework="pt") as file:
            return sorted(file.keys())
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error) from error


def read_tensor(path: Path, name: str) -> Tensor:
    """Read one tensor of a safetensors file."""
    try:
        with safe_open(path, framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error) from error
    return tensor


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a safetensors file."""
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error) from error


def read_normalization(folder: Path) -> Normalization:
    """Read the image normalisation from ``preprocessor_config.json``; a missing value has its default."""
    path, default = folder / "preprocessor_config.json", Normalization()
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; it holds the image normalisation; add it")
    values = read_object(path)
    try:
        return Normalization(
            scale=float(values.get("rescale_factor", default.scale)),
            mean=_three(values.get("image_mean", default.mean)),
            std=_three(values.get("image_std", default.std)),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise CheckpointError(f"{path} has no valid image normalisation: {error}") from error


def _three(values: Any) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in values)
    return red, green, blue


def _damaged(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path} cannot be read as safetensors: {error}; download it again")
