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
from typing import Any, Final

import torch
from torch import Tensor
from transformers import SmolVLMConfig

from engine.model.checkpoint_files import read_normalization, read_object, read_tensor, read_text, stored_tensors
from engine.model.heads import read_heads

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


def identify_folder(folder: Path, *, heads: Path | None) -> ModelIdentity:
    """Return the identity of a checkpoint folder with a heads file; ``heads`` is None for random heads.

    Raises ``CheckpointError`` for a file that cannot be read.
    """
    tokenizer_config = read_object(folder / "tokenizer_config.json")
    templates = [tokenizer_config.pop("chat_template", None)]
    templates += [read_text(folder / name) for name in ("chat_template.jinja", "chat_template.json")]
    tokenizer = [read_text(folder / name) for name in _TOKENIZER_FILES]
    tensors, settings = read_heads(heads)
    return ModelIdentity(
        weights=_digest(_tensor_parts(_stored(folder))),
        heads=_digest(chain([_canonical(settings)], _tensor_parts(sorted(tensors.items())))) if heads else "",
        config=_digest([_canonical(_effective(read_object(folder / "config.json")))]),
        tokenizer=_digest([_canonical([tokenizer_config, *tokenizer])]),
        chat_template=_digest([_canonical(templates)]),
        preprocessor=_digest([read_normalization(folder).describe()]),
    )


def digest_encoder(folder: Path, config: SmolVLMConfig) -> str:
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


def digest_stored_encoder(folder: Path) -> str:
    """Return the encoder's digest over the stored bytes, as in feature files that record no normalisation."""
    digest = hashlib.sha256()
    for name, tensor in _stored(folder, *_ENCODER_PARTS):
        digest.update(name.encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()[:16]


def _tensor_parts(tensors: Iterable[tuple[str, Tensor]]) -> Iterator[str | memoryview]:
    for name, tensor in tensors:
        yield from (name, str(tensor.dtype), str(list(tensor.shape)), _bytes(tensor))


def _stored(folder: Path, *parts: str) -> Iterator[tuple[str, Tensor]]:
    """Read the tensors with one of ``parts`` in their name, or all, sorted by name: the split into files is no part."""
    for name, path in sorted(stored_tensors(folder).items()):
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
