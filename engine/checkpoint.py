"""Saves and loads checkpoints: a local folder or a hub id, safetensors only.

A checkpoint is a transformers SmolVLM folder (``config.json``, ``*.safetensors``, tokenizer,
``preprocessor_config.json``) and a *heads file*, by default its ``heads.safetensors``: the two heads, the projector
if there is one, rows for ``[DST]`` and ``[ASST]`` if the tokenizer lacks them, and how frames are pooled, as
metadata. Everything that does not fit is refused in one line; pickles are never opened.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase, SmolVLMConfig, SmolVLMForConditionalGeneration

from engine.errors import CheckpointError
from engine.model import Pooling, StreamingModel
from engine.prompt import RESPONSE_TOKEN, UPDATE_TOKEN, Prompt
from engine.records import write_whole
from engine.vision import Normalization

HEADS_FILE = "heads.safetensors"
_HEADS = ("speaking_decision_head", "dst_update_head")
_TOKEN_ROWS = "token_embeddings"
_HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.jinja"]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model with what belongs to it."""

    name: str
    """The folder or hub id that was asked for."""
    folder: Path
    """Where its files are."""
    model: StreamingModel
    """The weights, in evaluation mode."""
    prompt: Prompt
    """Text to ids and back."""
    normalization: Normalization
    """How its images are normalised."""
    silent_id: int | None = None
    """The token that means silence, for the token policies."""

    @cached_property
    def encoder_digest(self) -> str:
        """Digest of the vision tower and the connector as stored."""
        return _digest(self.folder, lambda name: "vision_model" in name or "connector" in name)

    @cached_property
    def digest(self) -> str:
        """Digest of all weights as stored."""
        return _digest(self.folder, lambda name: True)


def pick_device(device: str = "auto") -> torch.device:
    """Resolve ``auto`` to cuda, mps or cpu, whichever is there first. Raises ``ValueError`` for an absent device."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        picked = torch.device(device)
        torch.empty(0, device=picked)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} is not there: {str(error).splitlines()[0]}") from error
    return picked


def pick_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Resolve ``auto`` to the device's: bfloat16 on a GPU that has it, float16 on others, float32 on a CPU."""
    names = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    if dtype != "auto":
        if dtype not in names:
            raise ValueError(f"dtype must be auto, {', '.join(names)}; got {dtype!r}")
        return names[dtype]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return torch.float16 if device.type == "mps" else torch.float32


def load_model(
    path_or_id: str | Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    heads: str | Path | None = None,
    allow_untrained_heads: bool = False,
) -> Checkpoint:
    """Load a checkpoint from a folder or from the hub.

    Args:
        path_or_id: Folder of the checkpoint, or a hub id such as ``HuggingFaceTB/SmolVLM2-2.2B-Instruct``.
        device: ``auto`` (cuda, mps, cpu) or a torch device.
        dtype: ``auto``, ``float32``, ``float16`` or ``bfloat16``. The heads stay in float32.
        heads: Heads file, if not ``heads.safetensors`` in the folder.
        allow_untrained_heads: Go on with random heads when there is no heads file.

    Raises:
        CheckpointError: Anything missing, damaged, unsafe or of another shape.
        ValueError: A device or dtype that is not there.
    """
    target = pick_device(device)
    number_format = pick_dtype(dtype, target)
    folder = _find(path_or_id)
    vlm = _load_vlm(folder, number_format)
    tokenizer = _load_tokenizer(folder)
    tensors, settings = _read_heads(_heads_path(folder, heads, allow_untrained_heads))
    _add_tokens(vlm, tokenizer, tensors.pop(_TOKEN_ROWS, None), allow_untrained=allow_untrained_heads)
    model = _add_heads(vlm, tensors, settings)
    prompt = Prompt(tokenizer)
    if prompt.image_id != vlm.config.image_token_id:
        raise CheckpointError(f"{folder}: the tokenizer's <image> is not the model's image token; they belong to two models")
    return Checkpoint(
        name=str(path_or_id),
        folder=folder,
        model=model.to(target).eval().requires_grad_(requires_grad=False),
        prompt=prompt,
        normalization=_read_normalization(folder),
        silent_id=_silent_id(tokenizer, settings.get("silent_token")),
    )


def save_model(
    folder: Path,
    model: StreamingModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    normalization: Normalization | None = None,
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write a checkpoint folder that ``load_model`` reads: model and heads file, in ``dtype``."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.to(dtype) for name, tensor in model.vlm.state_dict().items()}
    tied = model.vlm.config.tie_word_embeddings or model.vlm.config.text_config.tie_word_embeddings
    _write_tensors(folder / "model.safetensors", {k: v for k, v in state.items() if not (tied and k == "lm_head.weight")}, {"format": "pt"})
    save_heads(folder / HEADS_FILE, model)
    model.vlm.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    values = normalization or Normalization()
    preprocessing = {
        "rescale_factor": values.scale,
        "image_mean": list(values.mean),
        "image_std": list(values.std),
        "size": {"height": model.image_size, "width": model.image_size},
    }
    with write_whole(folder / "preprocessor_config.json") as file:
        json.dump(preprocessing, file, indent=2)


def save_heads(path: Path, model: StreamingModel) -> None:
    """Write a heads file: the heads, the projector if there is one, and the pooling."""
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("vlm.")}
    _write_tensors(path, state, {"pooling": model.pooling})


def _write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    with write_whole(path, binary=True) as file:
        file.write(save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, metadata=metadata))


def _find(path_or_id: str | Path) -> Path:
    folder = Path(path_or_id)
    if not folder.exists():
        try:
            folder = Path(snapshot_download(str(path_or_id), allow_patterns=_HUB_FILES))
        except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            raise CheckpointError(
                f"{path_or_id} is neither a folder nor a checkpoint that the hub gives: {reason}"
            ) from error
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder} has no config.json; give the folder of a SmolVLM checkpoint")
    if not any(folder.glob("model*.safetensors")):
        pickles = sorted(p.name for p in folder.iterdir() if p.suffix in {".bin", ".pt", ".pth", ".pkl", ".ckpt"})
        found = f"{', '.join(pickles)} are pickles, which are never opened; convert them" if pickles else "add them"
        raise CheckpointError(f"{folder} has no model*.safetensors: {found}")
    return folder


def _load_vlm(folder: Path, dtype: torch.dtype) -> SmolVLMForConditionalGeneration:
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
        if kind not in {"smolvlm", "idefics3"}:
            raise CheckpointError(f"{folder} holds a {kind} model; StepScope streams SmolVLM")
        config = SmolVLMConfig.from_pretrained(folder)
        vlm, report = SmolVLMForConditionalGeneration.from_pretrained(
            folder, config=config, dtype=dtype, use_safetensors=True, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, AttributeError, SafetensorError) as error:
        raise CheckpointError(f"{folder} cannot be loaded as SmolVLM: {str(error).splitlines()[0]}") from error
    missing = sorted(set(report["missing_keys"]) - {"lm_head.weight"})
    if missing or report["mismatched_keys"]:
        odd = missing or sorted(map(str, report["mismatched_keys"]))
        raise CheckpointError(f"{folder} lacks weights or has them in another shape: {', '.join(odd[:3])}")
    model: SmolVLMForConditionalGeneration = vlm
    return model


def _load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder} has no tokenizer that can be loaded: {str(error).splitlines()[0]}") from error
    if not tokenizer.chat_template:
        raise CheckpointError(f"{folder}: the tokenizer has no chat template; add chat_template.jinja")
    return tokenizer


def _heads_path(folder: Path, heads: str | Path | None, allow_untrained: bool) -> Path | None:
    path = Path(heads) if heads is not None else folder / HEADS_FILE
    if path.is_file():
        if path.suffix != ".safetensors":
            raise CheckpointError(f"{path} is not a .safetensors file; pickles are never opened")
        return path
    if heads is None and allow_untrained:
        return None
    raise CheckpointError(
        f"{path} is not there: without trained heads the model cannot decide; give --heads FILE, "
        "or --allow-untrained-heads to go on with random ones"
    )


def _read_heads(path: Path | None) -> tuple[dict[str, Tensor], dict[str, str]]:
    if path is None:
        return {}, {}
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read as safetensors: {error}") from error


def _add_tokens(
    vlm: SmolVLMForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    rows: Tensor | None,
    *,
    allow_untrained: bool,
) -> None:
    """Add [DST] and [ASST] to a base model that lacks them; ``rows [2, D]`` are their embeddings."""
    known = tokenizer.get_vocab()
    new = [token for token in (UPDATE_TOKEN, RESPONSE_TOKEN) if token not in known]
    if not new:
        return
    if rows is None and not allow_untrained:
        raise CheckpointError(f"the heads file has no {_TOKEN_ROWS} for {' and '.join(new)}, which the tokenizer lacks")
    tokenizer.add_special_tokens({"additional_special_tokens": new})
    embeddings = vlm.get_input_embeddings()
    if len(tokenizer) > embeddings.weight.shape[0]:
        vlm.resize_token_embeddings(len(tokenizer))
        embeddings = vlm.get_input_embeddings()
    if rows is not None:
        _check_shape(_TOKEN_ROWS, rows, torch.empty(len(new), embeddings.weight.shape[1]))
        with torch.no_grad():
            embeddings.weight[tokenizer.convert_tokens_to_ids(new)] = rows.to(embeddings.weight.dtype)


def _add_heads(
    vlm: SmolVLMForConditionalGeneration, tensors: dict[str, Tensor], settings: dict[str, str]
) -> StreamingModel:
    pooling: Any = settings.get("pooling", "mean")
    projector = tensors.get("vision_projector.0.weight")
    try:
        model = StreamingModel(vlm, pooling=pooling, feature_dim=None if projector is None else projector.shape[-1])
    except ValueError as error:
        raise CheckpointError(f"the heads file's metadata: {error}") from error
    if not tensors:
        return model
    wanted = {name: t for name, t in model.state_dict().items() if not name.startswith("vlm.")}
    if set(wanted) != set(tensors):
        raise CheckpointError(f"the heads file must hold {', '.join(wanted)}; it differs in {', '.join(sorted(set(wanted) ^ set(tensors)))}")
    for name, tensor in tensors.items():
        _check_shape(name, tensor, wanted[name])
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    _keep_dtypes(model)
    return model


def _keep_dtypes(model: StreamingModel) -> None:
    """Heads decide in float32; the projector works in the model's number format."""
    model.vision_projector.to(model.dtype)


def _check_shape(name: str, tensor: Tensor, wanted: Tensor) -> None:
    if tensor.shape != wanted.shape:
        raise CheckpointError(
            f"{name} in the heads file is {list(tensor.shape)}, this model needs {list(wanted.shape)}; "
            "the heads belong to another model"
        )


def _read_normalization(folder: Path) -> Normalization:
    path = folder / "preprocessor_config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        default = Normalization()
        return Normalization(
            scale=float(values.get("rescale_factor", default.scale)),
            mean=_three(values.get("image_mean", default.mean)),
            std=_three(values.get("image_std", default.std)),
        )
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} does not say how images are normalised: {error}") from error


def _three(values: Any) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in values)
    return red, green, blue


def _silent_id(tokenizer: PreTrainedTokenizerBase, token: str | None) -> int | None:
    return None if token is None else int(tokenizer.convert_tokens_to_ids(token))


def _digest(folder: Path, counts: Any) -> str:
    """Hash the stored bytes of the tensors whose name ``counts``, whatever file they are in."""
    digest = hashlib.sha256()
    for name, path in sorted(_stored(folder)):
        if counts(name):
            with safe_open(path, framework="pt") as file:
                tensor = file.get_tensor(name)
            digest.update(name.encode())
            digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _stored(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                yield name, path
