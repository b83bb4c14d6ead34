"""Saves and loads checkpoints from a local folder or a hub id, in safetensors only.

A checkpoint is a transformers SmolVLM folder (``config.json``, ``*.safetensors``, tokenizer,
``preprocessor_config.json``) with a heads file; see ``engine.model.heads``. Pickles are never opened.
"""

import copy
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase, SmolVLMConfig, SmolVLMForConditionalGeneration

from engine.errors import CheckpointError, first_line
from engine.io import atomic_write
from engine.model.checkpoint_files import read_normalization, read_object, read_tensor, stored_tensors, write_tensors
from engine.model.heads import HEADS_FILE, add_heads, add_tokens, find_heads, read_heads, save_heads
from engine.model.identity import ModelIdentity, digest_encoder, identify_folder
from engine.model.preprocessing import Normalization
from engine.model.prompt import Prompt, find_token
from engine.model.smolvlm import StreamingModel

if TYPE_CHECKING:
    from engine.inference.cuda_graphs import CudaGraphPool

_HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.jinja"]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A loaded model with its tokenizer, preprocessing and digests."""

    name: str
    """The folder or hub id passed to ``load_model``."""
    folder: Path
    """The local folder of its files."""
    model: StreamingModel
    """In evaluation mode."""
    prompt: Prompt
    normalization: Normalization
    heads: Path | None = None
    """The loaded heads file; None for random heads."""
    silent_id: int | None = None
    """The token that means silence, for the token policies."""
    graphs: "CudaGraphPool | None" = None
    """Pool of captured CUDA graphs; None to stream without graphs."""

    @cached_property
    def encoder_digest(self) -> str:
        """Digest of the vision encoder's values; equal in every dtype that represents the same values."""
        return digest_encoder(self.folder, self.model.vlm.config)

    @cached_property
    def identity(self) -> ModelIdentity:
        """A digest for each part that determines the outputs."""
        return identify_folder(self.folder, heads=self.heads)

    @property
    def digest(self) -> str:
        """Digest of all parts: weights, heads, config, tokenizer, chat template, preprocessor."""
        return self.identity.digest


def resolve_device(device: str = "auto") -> torch.device:
    """Resolve ``auto`` to the first available of cuda, mps and cpu. Raises ``ValueError`` for an absent device."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        target = torch.device(device)
        torch.empty(0, device=target)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} is not available: {first_line(error)}") from error
    return target


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Resolve ``auto`` for a device: bfloat16 on a GPU that supports it, else float16; float32 on a CPU."""
    names = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    if dtype in names:
        return names[dtype]
    if dtype != "auto":
        raise ValueError(f"dtype must be auto, {', '.join(names)}; got {dtype!r}")
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return torch.float16 if device.type == "mps" else torch.float32


def load_checkpoint(
    path_or_id: str | Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    heads: str | Path | None = None,
    allow_untrained_heads: bool = False,
) -> Checkpoint:
    """Load a checkpoint without CUDA graphs. Arguments and errors are those of ``engine.loading.load_model``."""
    target = resolve_device(device)
    folder = _find_folder(path_or_id)
    vlm = _load_vlm(folder, resolve_dtype(dtype, target))
    tokenizer = _load_tokenizer(folder)
    heads_file = find_heads(folder, heads, allow_untrained=allow_untrained_heads)
    tensors, settings = read_heads(heads_file)
    add_tokens(vlm, tokenizer, tensors, allow_untrained=allow_untrained_heads)
    model = add_heads(vlm, tensors, settings)
    prompt = Prompt(tokenizer)
    if prompt.image_id != vlm.config.image_token_id:
        raise CheckpointError(
            f"{folder}: the tokenizer's <image> is not the model's image token; they belong to different models"
        )
    model = model.to(target).eval().requires_grad_(requires_grad=False)
    return Checkpoint(
        name=str(path_or_id),
        folder=folder,
        model=model,
        prompt=prompt,
        normalization=read_normalization(folder),
        heads=heads_file,
        silent_id=_silent_id(tokenizer, settings.get("silent_token")),
    )


def identify_model(path_or_id: str | Path, *, heads: str | Path | None = None) -> ModelIdentity:
    """Return the identity of a checkpoint without loading it. Raises as ``load_checkpoint`` does."""
    folder = _find_folder(path_or_id)
    return identify_folder(folder, heads=find_heads(folder, heads, allow_untrained=False))


def save_model(
    folder: Path,
    model: StreamingModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    normalization: Normalization | None = None,
    silent_id: int | None = None,
    dtype: torch.dtype = torch.float16,
    base: Path | None = None,
) -> None:
    """Write a checkpoint folder that ``load_model`` reads: model, tokenizer with chat template, and heads file.

    ``base`` is the folder of the checkpoint that the model was trained from. Tensors that require no gradient are
    copied from it byte for byte, so that features of its frozen encoder stay valid. Other tensors are written in the
    dtype that they have there, or in ``dtype`` if it lacks them. ``silent_id`` is the token that means silence.
    """
    folder.mkdir(parents=True, exist_ok=True)
    is_tied = model.vlm.lm_head.weight is model.vlm.get_input_embeddings().weight
    state = _saved_state(model, dtype=dtype, base=base)
    if is_tied:
        state.pop("lm_head.weight", None)
    write_tensors(folder / "model.safetensors", state, {"format": "pt"})
    silent_token = None if silent_id is None else tokenizer.convert_ids_to_tokens(silent_id)
    save_heads(folder / HEADS_FILE, model, silent_token=silent_token)
    config = copy.deepcopy(model.vlm.config)
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = is_tied  # the actual state of the weights
    for part in (config, config.text_config, config.vision_config):
        part.dtype = state["model.text_model.embed_tokens.weight"].dtype
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    values = normalization or Normalization()
    preprocessing = {
        "rescale_factor": values.scale,
        "image_mean": list(values.mean),
        "image_std": list(values.std),
        "size": {"height": model.image_size, "width": model.image_size},
    }
    with atomic_write(folder / "preprocessor_config.json") as file:
        json.dump(preprocessing, file, indent=2)


def _saved_state(model: StreamingModel, *, dtype: torch.dtype, base: Path | None) -> dict[str, Tensor]:
    """Return the tensors of the model in the dtypes that ``save_model`` writes."""
    stored = {} if base is None else stored_tensors(base)
    trained = {name for name, parameter in model.vlm.named_parameters() if parameter.requires_grad}
    state = {}
    for name, tensor in model.vlm.state_dict().items():
        before = read_tensor(stored[name], name) if name in stored else None
        if before is None:
            state[name] = tensor.to(dtype)
        else:
            is_frozen = name not in trained and before.shape == tensor.shape
            state[name] = before if is_frozen else tensor.to(before.dtype)
    return state


def _find_folder(path_or_id: str | Path) -> Path:
    folder = Path(path_or_id)
    if not folder.exists():
        try:
            folder = Path(snapshot_download(str(path_or_id), allow_patterns=_HUB_FILES))
        except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
            raise CheckpointError(
                f"{path_or_id} is neither a folder nor an available checkpoint of the hub: {first_line(error)}"
            ) from error
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder} has no config.json; give the folder of a SmolVLM checkpoint")
    if not any(folder.glob("model*.safetensors")):
        pickles = sorted(p.name for p in folder.iterdir() if p.suffix in {".bin", ".pt", ".pth", ".pkl", ".ckpt"})
        found = f"{', '.join(pickles)} are pickles, which are never opened; convert them" if pickles else "add it"
        raise CheckpointError(f"{folder} has no model*.safetensors: {found}")
    return folder


def _load_vlm(folder: Path, dtype: torch.dtype) -> SmolVLMForConditionalGeneration:
    kind = read_object(folder / "config.json").get("model_type")
    if kind != "smolvlm":
        raise CheckpointError(f"{folder} holds a {kind} model; StepScope streams SmolVLM")
    try:
        config = SmolVLMConfig.from_pretrained(folder)
        vlm, report = SmolVLMForConditionalGeneration.from_pretrained(
            folder, config=config, dtype=dtype, use_safetensors=True, output_loading_info=True
        )
    except Exception as error:  # transformers raises many types of exception for an invalid config
        raise CheckpointError(f"{folder} cannot be loaded as SmolVLM: {first_line(error)}") from error
    missing = sorted(report["missing_keys"])  # tied output embeddings are not listed
    if missing == ["lm_head.weight"]:
        raise CheckpointError(
            f"{folder} lacks lm_head.weight, and its config.json does not tie the output to the input embeddings; "
            "download it again, or set tie_word_embeddings to true if they are tied"
        )
    if missing or report["mismatched_keys"]:
        names = missing or sorted(map(str, report["mismatched_keys"]))
        raise CheckpointError(f"{folder} has weights that are missing or of the wrong shape: {', '.join(names[:3])}")
    model: SmolVLMForConditionalGeneration = vlm
    return model


def _load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    read_object(folder / "tokenizer_config.json")  # for an error that names this file
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # tokenizers raises no more specific type
        raise CheckpointError(f"{folder} has no tokenizer that can be loaded: {first_line(error)}") from error
    if not tokenizer.chat_template:  # older checkpoints store it with their processor
        tokenizer.chat_template = read_object(folder / "chat_template.json").get("chat_template")
        if not tokenizer.chat_template or not isinstance(tokenizer.chat_template, str):
            raise CheckpointError(
                f"{folder}: the tokenizer has no chat template, nor has chat_template.json; add chat_template.jinja"
            )
    return tokenizer


def _silent_id(tokenizer: PreTrainedTokenizerBase, token: str | None) -> int | None:
    token_id = None if token is None else find_token(tokenizer, token)
    if token is not None and token_id is None:
        raise CheckpointError(
            f"the heads file names {token!r} as the token that means silence, which the tokenizer lacks; "
            "the heads belong to a different model"
        )
    return token_id
