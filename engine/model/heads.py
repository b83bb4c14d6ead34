"""The heads file: StepScope's additions to a SmolVLM checkpoint, in one ``.safetensors`` file.

It holds both heads, the projector if there is one, and embeddings of ``[DST]`` and ``[ASST]`` (``token_embeddings``) if
the tokenizer lacks them. Its metadata has ``pooling`` and, for the token policies, ``silent_token``.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, SmolVLMForConditionalGeneration

from engine.errors import CheckpointError
from engine.model.checkpoint_files import open_tensors, write_tensors
from engine.model.prompt import RESPONSE_TOKEN, UPDATE_TOKEN
from engine.model.smolvlm import StreamingModel

HEADS_FILE = "heads.safetensors"
_TOKEN_ROWS = "token_embeddings"


def save_heads(path: Path, model: StreamingModel, *, silent_token: str | None = None) -> None:
    """Write a heads file: the heads, the projector if there is one, the pooling and the token that means silence."""
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("vlm.")}
    settings = {"pooling": model.pooling} | ({} if silent_token is None else {"silent_token": silent_token})
    write_tensors(path, state, settings)


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


def add_tokens(
    vlm: SmolVLMForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    tensors: dict[str, Tensor],
    *,
    allow_untrained: bool,
) -> None:
    """Add [DST] and [ASST] to a base model that lacks them; pops their embeddings ``[2, D]`` from ``tensors``."""
    rows = tensors.pop(_TOKEN_ROWS, None)
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


def add_heads(
    vlm: SmolVLMForConditionalGeneration, tensors: dict[str, Tensor], settings: dict[str, str]
) -> StreamingModel:
    """Build the streaming model around a SmolVLM and load the tensors of a heads file into it."""
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
        different = ", ".join(sorted(set(wanted) ^ set(tensors)))
        raise CheckpointError(f"the heads file must hold {', '.join(wanted)}; it differs in {different}")
    for name, tensor in tensors.items():
        _check_shape(name, tensor, wanted[name])
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    model.vision_projector.to(model.dtype)  # the heads decide in float32
    return model


def _check_shape(name: str, tensor: Tensor, wanted: Tensor) -> None:
    if tensor.shape != wanted.shape:
        raise CheckpointError(
            f"{name} in the heads file is {list(tensor.shape)}, this model needs {list(wanted.shape)}; "
            "the heads belong to a different model"
        )
