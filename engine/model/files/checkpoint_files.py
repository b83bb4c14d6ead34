"""Reads the files of a checkpoint folder: JSON objects, tensors, the chat template and the normalisation.

Every function raises ``CheckpointError`` with one line for a file that cannot be read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from stepscope.engine.errors import CheckpointError, EngineError
from stepscope.engine.io.files import atomic_write, check_regular, load_json, open_file, open_text
from stepscope.engine.model.preprocessing import Normalization

ADAPTER_CONFIG: Final = "adapter_config.json"
ADAPTER_FILE: Final = "adapter_model.safetensors"


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one if the file is missing."""
    if not path.exists():
        return {}
    try:
        with open_text(path) as file:
            content = load_json(file.read())
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{path} cannot be read as JSON: {getattr(error, 'strerror', None) or error}; download it again"
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold a JSON object, not a {type(content).__name__}; download it again")
    return content


def read_text(path: Path) -> str | None:
    """Read text of any encoding, invalid UTF-8 as lone surrogates; None if the file is missing."""
    try:
        if not path.exists():
            return None
        with open_file(path) as file:
            return file.read().decode("utf-8", errors="surrogateescape")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error


def stored_tensors(folder: Path, pattern: str = "model*.safetensors") -> dict[str, Path]:
    """Return the file of each tensor by the tensor's name; if several hold it, the one that transformers reads."""
    stored: dict[str, Path] = {}
    for path in sorted(folder.glob(pattern)):
        with open_tensors(path) as file:
            stored |= dict.fromkeys(file.keys(), path)
    return stored


def read_adapter_base(folder: Path) -> str | None:
    """Return the base of an adapter's folder, as a path or a hub id; None for a folder with whole weights.

    Raises ``CheckpointError`` if the adapter does not name its base.
    """
    if not (folder / ADAPTER_CONFIG).is_file() or any(folder.glob("model*.safetensors")):
        return None
    base = read_object(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise CheckpointError(f"{folder / ADAPTER_CONFIG} does not name its base; set base_model_name_or_path")
    return str(folder / base) if (folder / base).exists() else base


@contextmanager
def open_tensors(path: Path, error_type: type[EngineError] = CheckpointError) -> Iterator[Any]:
    """Open a safetensors file. Raises ``error_type`` if the block cannot read it."""
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError) as error:
        raise error_type(f"{path} cannot be read as safetensors: {error}; download or write it again") from error


def read_tensor(path: Path, name: str) -> Tensor:
    """Read one tensor of a safetensors file."""
    with open_tensors(path) as file:
        tensor: Tensor = file.get_tensor(name)
    return tensor


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file atomically."""
    with atomic_write(path, binary=True) as file:
        file.write(save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, metadata=metadata))


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
