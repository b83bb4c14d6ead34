"""The parts that StepScope adds to a SmolVLM: both decision heads, the projector, and the tokens that it lacks."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, SmolVLMForConditionalGeneration

from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.files.checkpoint_files import DECISION_POLICY, SILENT_TOKEN, write_tensors
from stepscope.engine.model.prompt import RESPONSE_TOKEN, UPDATE_TOKEN
from stepscope.engine.model.smolvlm import Pooling, StreamingModel

_TOKEN_ROWS = "token_embeddings"
_PROJECTOR = "vision_projector."


def save_heads(
    path: Path,
    model: StreamingModel,
    *,
    silent_token: str | None = None,
    decision_policy: str | None = None,
    token_rows: Tensor | None = None,
) -> None:
    """Write a heads file: the heads, the projector if there is one, the pooling and the token that means silence.

    ``decision_policy`` is the policy of a model that is trained to decide by the silent token. ``token_rows`` are the
    embeddings ``[2, D]`` of [DST] and [ASST] for a base that lacks these tokens.
    """
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("vlm.")}
    if token_rows is not None:
        state[_TOKEN_ROWS] = token_rows
    settings = {"pooling": model.pooling, SILENT_TOKEN: silent_token, DECISION_POLICY: decision_policy}
    write_tensors(path, state, {name: value for name, value in settings.items() if value is not None})


def add_tokens(
    tokenizer: PreTrainedTokenizerBase, tensors: dict[str, Tensor], *, allow_untrained: bool
) -> tuple[list[str], Tensor | None]:
    """Add [DST] and [ASST] to a tokenizer that lacks them; pops their embeddings ``[2, D]`` from ``tensors``.

    Returns:
        The added tokens, and their embeddings if they are trained.
    """
    rows = tensors.pop(_TOKEN_ROWS, None)
    known = tokenizer.get_vocab()
    new = [token for token in (UPDATE_TOKEN, RESPONSE_TOKEN) if token not in known]
    if new and rows is None and not allow_untrained:
        raise CheckpointError(f"the heads file has no {_TOKEN_ROWS} for {' and '.join(new)}, which the tokenizer lacks")
    if new:
        tokenizer.add_special_tokens({"additional_special_tokens": new})
    return new, rows


def embed_new_tokens(
    vlm: SmolVLMForConditionalGeneration, tokenizer: PreTrainedTokenizerBase, new: list[str], rows: Tensor | None
) -> None:
    """Give a model embeddings for the tokens that ``add_tokens`` added; random ones without ``rows``."""
    embeddings = vlm.get_input_embeddings()
    if new and len(tokenizer) > embeddings.weight.shape[0]:
        vlm.resize_token_embeddings(len(tokenizer))
        embeddings = vlm.get_input_embeddings()
    if new and rows is not None:
        _check_shape(_TOKEN_ROWS, rows, torch.empty(len(new), embeddings.weight.shape[1]))
        with torch.no_grad():
            embeddings.weight[tokenizer.convert_tokens_to_ids(new)] = rows.to(embeddings.weight.dtype)


def add_heads(
    vlm: SmolVLMForConditionalGeneration,
    tensors: dict[str, Tensor],
    settings: dict[str, str],
    *,
    pooling: Pooling | None = None,
    feature_dim: int | None = None,
) -> StreamingModel:
    """Build the streaming model around a SmolVLM and load the tensors of a heads file into it.

    ``pooling`` and ``feature_dim`` replace those of the heads file; a projector for another width has random weights.
    """
    stored: Any = settings.get("pooling", "mean")
    projector = tensors.get("vision_projector.0.weight")
    width = None if projector is None else projector.shape[-1]
    is_new = feature_dim is not None and feature_dim != (width or vlm.config.text_config.hidden_size)
    try:
        model = StreamingModel(vlm, pooling=pooling or stored, feature_dim=feature_dim if is_new else width)
    except ValueError as error:
        raise CheckpointError(f"the heads file's metadata: {error}") from error
    if is_new:
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(_PROJECTOR)}
    if not tensors:
        return model
    wanted = {
        name: t
        for name, t in model.state_dict().items()
        if not name.startswith("vlm.") and not (is_new and name.startswith(_PROJECTOR))
    }
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
