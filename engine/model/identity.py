"""Model identity: digests of every file of a checkpoint that determines its outputs or its frame features.

Two checkpoints with the same ``ModelIdentity.digest`` give the same outputs on the same device. The encoder has a
separate digest over values instead of bytes: it does not change when a checkpoint is saved in a wider dtype.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from stepscope.engine.config import Quantization
from stepscope.engine.model.files.checkpoint_files import (
    ADAPTER_CONFIG,
    ADAPTER_FILE,
    GENERATION_FILE,
    read_heads,
    read_object,
    read_tensor,
    read_text,
    stored_tensors,
)
from stepscope.engine.model.files.image_processors import PROCESSOR_FILES, read_normalization
from stepscope.engine.model.published.layout import Layout

if TYPE_CHECKING:
    from transformers import SmolVLMConfig

_TOKENIZER_FILES: Final = (
    "tokenizer.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
)
_WITHOUT_EFFECT: Final = frozenset(
    {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache"}
)
_ENCODER_PARTS: Final = ("vision_model", "connector")
_VISION_PARTS: Final = ("visual.", "vision", "connector", "projector")
"""Parts of the names of tensors that encode images, in the models of ``engine.model.hub``."""
_VISION_FIELDS: Final = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_channels",
    "image_size",
    "patch_size",
    "hidden_act",
    "layer_norm_eps",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """A digest of 16 hexadecimal characters for each part of a checkpoint."""

    weights: str
    """Tensors of ``model*.safetensors`` as stored."""
    heads: str
    """Tensors and metadata of the loaded heads file; empty for random heads."""
    config: str
    """``config.json`` without the keys that change no output."""
    tokenizer: str
    chat_template: str
    """Chat template, from any of the files that may store it."""
    preprocessor: str

    @property
    def digest(self) -> str:
        """Digest of all parts."""
        return _digest([_canonical(asdict(self))])


def identify_folder(
    folder: Path,
    *,
    heads: Path | None,
    base: Path | None = None,
    quantize: Quantization = "none",
    frame_pixels: int | None = None,
    is_hub_model: bool = False,
) -> ModelIdentity:
    """Return the identity of a checkpoint folder with a heads file; ``heads`` is None for random heads.

    ``base`` is the folder of the weights that an adapter in ``folder`` changes; both count as its weights. Weights that
    are loaded with fewer bits (``quantize``) are other weights, and frames of other ``frame_pixels`` another
    preprocessing. All image settings of a model of the hub count (``is_hub_model``), of others the normalisation.

    Raises ``CheckpointError`` for a file that cannot be read.
    """
    tokenizer_config = read_object(folder / "tokenizer_config.json")
    templates = [tokenizer_config.pop("chat_template", None)]
    templates += [read_text(folder / name) for name in ("chat_template.jinja", "chat_template.json")]
    others = [read_object(folder / "processor_config.json").get("chat_template")]
    others += [read_text(folder / "additional_chat_templates" / "default.jinja")]
    templates += [template for template in others if template]
    tokenizer = [read_text(folder / name) for name in _TOKENIZER_FILES]
    tensors, settings = read_heads(heads)
    generation = read_object((base or folder) / GENERATION_FILE)
    files = [_effective(read_object(folder / name)) for name in PROCESSOR_FILES if is_hub_model]
    images = _canonical(files) if files else read_normalization(folder).describe()
    weights = _tensor_parts(_stored(base or folder))
    if base is not None:
        adapter = read_object(folder / ADAPTER_CONFIG)
        scale = [adapter.get(name) for name in ("r", "lora_alpha", "use_rslora")]
        weights = chain(weights, [_canonical(scale)], _tensor_parts(_stored(folder, pattern=ADAPTER_FILE)))
    return ModelIdentity(
        weights=_digest(chain(weights, () if quantize == "none" else [quantize])),
        heads=_digest(chain([_canonical(settings)], _tensor_parts(sorted(tensors.items())))) if heads else "",
        config=_digest([_canonical(_effective(read_object(folder / "config.json") | generation))]),
        tokenizer=_digest([_canonical([tokenizer_config, *tokenizer])]),
        chat_template=_digest([_canonical(templates)]),
        preprocessor=_digest([images, *([] if frame_pixels is None else [str(frame_pixels)])]),
    )


def identify_layout(layout: Layout, *, quantize: Quantization = "none") -> ModelIdentity:
    """Return the identity of a published assistant: adapters, base model and tower, in this order.

    Weights that are loaded with fewer bits (``quantize``) are other weights.
    """
    tokenizer_config = read_object(layout.base / "tokenizer_config.json")
    tokenizer_config.pop("chat_template", None)  # the templates of both systems are their own
    tokenizer = [read_text(layout.base / name) for name in _TOKENIZER_FILES]
    configs = [(folder / name) for folder in layout.folders for name in ("config.json", ADAPTER_CONFIG)]
    configs += filter(Path.exists, [layout.base / GENERATION_FILE])
    tensors = chain.from_iterable(
        _stored(folder, pattern=ADAPTER_FILE) if (folder / ADAPTER_FILE).is_file() else _stored(folder)
        for folder in layout.folders
    )
    return ModelIdentity(
        weights=_digest(chain(_tensor_parts(tensors), () if quantize == "none" else [quantize])),
        heads="",
        config=_digest([_canonical([layout.family.name, *(_effective(read_object(path)) for path in configs)])]),
        tokenizer=_digest([_canonical([tokenizer_config, *tokenizer])]),
        chat_template=_digest([layout.separator]),
        preprocessor=_digest([f"{read_normalization(layout.tower).describe()}, {layout.family.framing}"]),
    )


def digest_tower(folder: Path, frame_tokens: str) -> str:
    """Return the digest of a SigLIP tower, over its values in float32, and of the tokens that it gives a frame."""
    config = read_object(folder / "config.json")
    parts = (
        part
        for name, tensor in _stored(folder)
        if not name.startswith(("text_model.", "logit_"))
        for part in (name, str(list(tensor.shape)), _bytes(tensor.float()))
    )
    return _digest(chain([_canonical([frame_tokens, _effective(config.get("vision_config", config))])], parts))


def digest_encoder(folder: Path, config: "SmolVLMConfig") -> str:
    """Return the digest of the vision encoder: vision tower, connector and their settings.

    It covers the values in float32, independent of the dtype in which they are stored.
    """
    vision = {name: getattr(config.vision_config, name) for name in _VISION_FIELDS}
    values = (
        part
        for name, tensor in _stored(folder, *_ENCODER_PARTS)
        for part in (name, str(list(tensor.shape)), _bytes(tensor.float() if tensor.is_floating_point() else tensor))
    )
    return _digest(chain([_canonical({**vision, "scale_factor": config.scale_factor})], values))


def digest_vision(folder: Path, frame_format: Any) -> str:
    """Return the digest of the vision encoder of an image-text model, and of the format of its frames."""
    config = _effective(read_object(folder / "config.json").get("vision_config"))
    values = _tensor_parts(_stored(folder, *_VISION_PARTS))
    return _digest(chain([_canonical([config, asdict(frame_format)])], values))


def _tensor_parts(tensors: Iterable[tuple[str, Tensor]]) -> Iterator[str | memoryview]:
    for name, tensor in tensors:
        yield from (name, str(tensor.dtype), str(list(tensor.shape)), _bytes(tensor))


def _stored(folder: Path, *parts: str, pattern: str = "model*.safetensors") -> Iterator[tuple[str, Tensor]]:
    """Read the tensors with one of ``parts`` in their name, or all, sorted by name: the split into files is no part."""
    for name, path in sorted(stored_tensors(folder, pattern).items()):
        if not parts or any(part in name for part in parts):
            yield name, read_tensor(path, name)


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().data


def _effective(config: Any) -> Any:
    """Return a configuration without the keys, at any depth, that change no output."""
    if isinstance(config, dict):
        return {key: _effective(value) for key, value in config.items() if key not in _WITHOUT_EFFECT}
    return config


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def _digest(parts: Iterable[str | memoryview]) -> str:
    """Hash parts, each preceded by its length, so that ``["ab", "c"]`` and ``["a", "bc"]`` differ."""
    digest = hashlib.sha256()
    for part in parts:
        content = memoryview(part.encode(errors="surrogatepass")) if isinstance(part, str) else part
        digest.update(content.nbytes.to_bytes(8, "big"))
        digest.update(content)
    return digest.hexdigest()[:16]
