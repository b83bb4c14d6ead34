"""Reads the files of a checkpoint folder: JSON objects, tensors, the chat template and the heads.

The heads file has StepScope's additions to a SmolVLM checkpoint: both heads, the projector if there is one, and
embeddings of ``[DST]`` and ``[ASST]`` (``token_embeddings``) if the tokenizer lacks them. Its metadata has ``pooling``,
for the token policies ``silent_token``, and ``decision_policy`` for a model whose heads are not trained.

Every function raises ``CheckpointError`` with one line for a file that cannot be read.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from stepscope.engine.decisions.policies import find_policy
from stepscope.engine.errors import CheckpointError, EngineError
from stepscope.engine.io.files import atomic_write, check_regular, load_json, open_file, open_text

ADAPTER_CONFIG: Final = "adapter_config.json"
ADAPTER_FILE: Final = "adapter_model.safetensors"
GENERATION_FILE: Final = "generation_config.json"


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


def check_weights(folder: Path) -> None:
    """Raise ``CheckpointError`` if a weight of the index is missing, or a file is damaged; only headers are read."""
    stored, index = stored_tensors(folder), folder / "model.safetensors.index.json"
    files = read_object(index).get("weight_map", {})
    if not isinstance(files, dict) or not stored.keys() >= files.keys():
        missing = sorted({str(files[name]) for name in files.keys() - stored.keys()} if isinstance(files, dict) else [])
        raise CheckpointError(f"{index} names weights that are missing, in {', '.join(missing[:3])}; download it again")


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


HEADS_FILE: Final = "heads.safetensors"
SILENT_TOKEN: Final = "silent_token"
DECISION_POLICY: Final = "decision_policy"


def find_heads(folder: Path, heads: str | Path | None, *, allow_untrained: bool) -> Path | None:
    """Return the heads file to load; None to use random heads. Raises ``CheckpointError`` if it is missing."""
    path = Path(heads) if heads is not None else folder / HEADS_FILE
    if path.is_file():
        if path.suffix != ".safetensors":
            raise CheckpointError(f"{path} is not a .safetensors file; pickles are never opened")
        return path
    if heads is None and allow_untrained:
        return None
    raise CheckpointError(
        f"{path} is missing: without trained heads the model cannot decide; give --heads FILE, "
        "or --allow-untrained-heads to use random ones"
    )


def read_heads(path: Path | None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and settings of a heads file; both are empty if ``path`` is None."""
    if path is None:
        return {}, {}
    with open_tensors(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def read_trained_policy(settings: Mapping[str, str]) -> str | None:
    """Return the policy that the settings of a heads file name; None for that of the heads.

    Raises ``CheckpointError`` for a policy that does not exist, or that reads a silent token which they do not name.
    """
    name = settings.get(DECISION_POLICY)
    if name is None:
        return None
    try:
        policy = find_policy(name)
    except ValueError as error:
        raise CheckpointError(f"the heads file's metadata: {error}") from error
    if policy.has_theta and SILENT_TOKEN not in settings:
        raise CheckpointError(f"the heads file names the policy {name}, but no {SILENT_TOKEN}, which that policy reads")
    return name
