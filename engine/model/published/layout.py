"""The folders and settings of a published checkpoint: a LoRA adapter, its base model and its vision tower.

A checkpoint is the folder that PEFT writes: ``adapter_config.json`` and ``adapter_model.safetensors``, for ProAssist
also ``config.json`` and earlier adapters in ``adapter_0``, ``adapter_1``, ... The base model and the vision tower are
folders or hub ids named there. Subfolders or links ``base_model`` and ``vision_tower`` take their place.

**Source**: showlab/videollm-online@e2c78ec, pro-assist@9d0b2b2.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.files.checkpoint_files import ADAPTER_CONFIG, ADAPTER_FILE, read_object
from stepscope.engine.model.preprocessing import Framing

BASE_FOLDER: Final = "base_model"
TOWER_FOLDER: Final = "vision_tower"
EOS_TOKEN: Final = "<|eot_id|>"
"""The end of a turn in both systems; a later tokenizer of the base model names another token."""
HEAD: Final = "binary_decision_head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A published system: the parts in which its checkpoints differ from those of the other."""

    name: str
    connector: str
    tower: str
    """Vision tower, unless the checkpoint names one."""
    tower_width: int
    framing: Framing
    policy: str


VIDEOLLM_ONLINE: Final = Family(
    name="VideoLLM-online",
    connector="connector",
    tower="google/siglip-large-patch16-384",
    tower_width=1024,
    framing="pad",
    policy="streaming-eos",
)
PROASSIST: Final = Family(
    name="ProAssist",
    connector="mm_projector",
    tower="google/siglip-so400m-patch14-384",
    tower_width=1152,
    framing="crop",
    policy="not-talk",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files and settings of one checkpoint."""

    family: Family
    adapters: tuple[Path, ...]
    """Folders of the adapters, in the order of their merge."""
    base: Path
    tower: Path
    tower_name: str
    """Hub id of the tower of the training."""
    grid_size: int
    """Side of the grid of pooled tokens of a frame, which follow its [CLS] token; 0 for [CLS] alone."""
    separator: str
    """Text between two frames."""
    head_type: str | None
    """``linear`` or ``mlp`` if the checkpoint has a decision head."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders with weights."""
        return (*self.adapters, self.base, self.tower)


def is_published(folder: Path) -> bool:
    """Return whether a folder holds an adapter of a published system, and not one of an image-text model."""
    config = read_object(folder / "config.json")
    is_image_text = config.get("model_type") == "smolvlm" or "vision_config" in config
    return (folder / ADAPTER_CONFIG).is_file() and not is_image_text


def find_family(folder: Path) -> Family:
    """Return the system that wrote an adapter, by its connector. Raises ``CheckpointError`` for an unknown one."""
    adapter = read_object(folder / ADAPTER_CONFIG)
    saved = adapter.get("modules_to_save") or []
    for family in (VIDEOLLM_ONLINE, PROASSIST):
        if family.connector in saved:
            return family
    if not (folder / "config.json").is_file():
        base = adapter.get("base_model_name_or_path")
        raise CheckpointError(f"{folder} has no config.json; copy that of the adapter's base, {base}, into it")
    raise CheckpointError(
        f"{folder} is an adapter without a connector for frames: modules_to_save must name connector "
        f"(VideoLLM-online) or mm_projector (ProAssist); got {saved}"
    )


def read_layout(folder: Path, find_folder: Callable[[str], Path]) -> Layout:
    """Read the layout of a checkpoint folder; ``find_folder`` downloads a hub id.

    Raises ``CheckpointError`` for a file that is missing, and for inconsistent settings.
    """
    family, config = find_family(folder), read_object(folder / "config.json")
    adapters = (*_earlier_adapters(folder), folder)
    for adapter in adapters:
        _check_adapter(adapter)
    settings = read_object(folder / ADAPTER_CONFIG)
    base = config.get("llm_pretrained") or settings.get("base_model_name_or_path")
    if not (folder / BASE_FOLDER).exists() and not isinstance(base, str):
        raise CheckpointError(f"{folder} names no base model; add it as the folder {BASE_FOLDER}")
    tower = config.get("vision_pretrained") or family.tower
    is_online = family == VIDEOLLM_ONLINE
    return Layout(
        family=family,
        adapters=adapters,
        base=_find_part(folder, BASE_FOLDER, str(base), find_folder),
        tower=_find_part(folder, TOWER_FOLDER, str(tower), find_folder),
        tower_name=str(tower),
        grid_size=_online_grid(folder, config) if is_online else _number(folder, config, "img_patch_token_size", 0),
        separator=str(config.get("frame_token_interval") or "") if is_online and config else "," if is_online else "",
        head_type=None if is_online else _head_type(folder, config),
    )


def _earlier_adapters(folder: Path) -> tuple[Path, ...]:
    found: list[Path] = []
    while (path := folder / f"adapter_{len(found)}").is_dir():
        found.append(path)
    return tuple(found)


def _check_adapter(folder: Path) -> None:
    if not (folder / ADAPTER_FILE).is_file():
        pickles = sorted(path.name for path in folder.glob("adapter_model*") if path.suffix in {".bin", ".pt"})
        found = f"{', '.join(pickles)} is a pickle, which is never opened; convert it" if pickles else "add it"
        raise CheckpointError(f"{folder} has no {ADAPTER_FILE}: {found}")
    kind = read_object(folder / ADAPTER_CONFIG).get("peft_type")
    if kind != "LORA":
        raise CheckpointError(f"{folder / ADAPTER_CONFIG} has peft_type {kind}; only LORA adapters are read")


def _find_part(folder: Path, name: str, named: str, find_folder: Callable[[str], Path]) -> Path:
    if (folder / name).is_dir():
        return folder / name
    try:
        return find_folder(str(folder / named) if (folder / named).is_dir() else named)
    except CheckpointError as error:
        raise CheckpointError(f"{folder} needs {named}: {error}; or link it as {folder / name}") from error


def _online_grid(folder: Path, config: Mapping[str, Any]) -> int:
    """Return the grid of VideoLLM-online; the published adapter has no config.json, and 3 x 3 tokens."""
    if not config:
        return 3
    rows, columns = config.get("frame_token_pooled") or (0, 0)
    expected = int(bool(config.get("frame_token_cls"))) + rows * columns
    if rows != columns or not config.get("frame_token_cls") or config.get("frame_num_tokens") != expected:
        raise CheckpointError(
            f"{folder / 'config.json'}: frame_num_tokens is {config.get('frame_num_tokens')}, but a frame has "
            f"{expected} tokens by frame_token_cls and frame_token_pooled; a [CLS] token and a square grid are read"
        )
    return int(rows)


def _head_type(folder: Path, config: Mapping[str, Any]) -> str | None:
    if not config.get("use_img_cls_token", True):
        raise CheckpointError(f"{folder / 'config.json'}: frames without a [CLS] token are not read")
    if config.get("img_sep_token", "none") not in {"none", ""}:
        raise CheckpointError(
            f"{folder / 'config.json'}: img_sep_token is {config['img_sep_token']!r}; ProAssist streams without one"
        )
    if not config.get("use_binary_decision_head"):
        return None
    return "linear" if "linear" in str(config.get("binary_decision_head_type", "linear")) else "mlp"


def _number(folder: Path, config: Mapping[str, Any], name: str, default: int) -> int:
    value = config.get(name, default)
    if type(value) is not int or not 0 <= value <= 64:
        raise CheckpointError(f"{folder / 'config.json'}: {name} must be a whole number from 0 to 64; got {value!r}")
    return value
