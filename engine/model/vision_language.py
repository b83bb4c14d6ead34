"""The interface of a streaming model, which every model family implements: tensors in, tensors out.

Sizes: ``B`` images or rows, ``I`` tokens per frame, ``F`` feature width, ``D`` text width, ``L`` tokens, ``V``
vocabulary. The KV cache, packed batches and CUDA graphs use ``text_model``, whose layers are transformers' own.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from stepscope.engine.model.attention import use_layer_attention
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.model.preprocessing import Framing, resize_image


def fits_shape(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """Return whether a shape is the wanted one, in which None is any length."""
    return len(shape) == len(wanted) and all(want in (None, size) for size, want in zip(shape, wanted, strict=True))


def format_shape(wanted: Sequence[int | None]) -> str:
    """Return a wanted shape as text, such as ``[rows, columns, 64]``."""
    names = iter(("rows", "columns"))
    return f"[{', '.join(next(names) if size is None else str(size) for size in wanted)}]"


class VisionLanguageModel(nn.Module, ABC):
    """A model that encodes frames, decides at each of them, and writes text, around a ``vlm`` of transformers."""

    image_size: int
    """Side of the square image that the vision tower takes, in pixels; 0 if it takes images of any size."""
    feature_dim: int
    """``F``, width of the features of a frame."""
    tokens_per_frame: int
    """``I``, the number of tokens per frame; the most where it depends on the size of the video."""
    frame_tokens: str
    """Name of the tokens that represent a frame, such as ``mean``; features record it."""
    framing: Framing = "stretch"
    has_heads: bool = True
    """Whether ``decision_logits`` reads trained heads; without heads the tokens decide."""

    around_frame: tuple[tuple[int, ...], tuple[int, ...]] = (), ()
    """Ids of the tokens before and after the features of a frame."""

    def __init__(self, vlm: Any) -> None:
        super().__init__()
        self.vlm = vlm
        use_layer_attention(self.text_model)
        text = self.text_model.config
        self.hidden_size, self.num_layers = text.hidden_size, text.num_hidden_layers
        self.max_context = text.max_position_embeddings
        """Longest context that the text model's positions allow, in tokens."""

    @cached_property  # each pass needs it several times
    def text_model(self) -> PreTrainedModel:
        """The decoder of the text model, without its output embeddings."""
        return self.vlm.get_decoder()

    @property
    def lm_head(self) -> Any:
        """The output embeddings of the text model."""
        return self.vlm.lm_head

    @abstractmethod
    def encode_images(self, pixel_values: Tensor) -> Tensor:
        """Encode normalised images ``[B, 3, H, W]`` as features ``[B, I, F]``."""

    @abstractmethod
    def embed_frames(self, features: Tensor) -> Tensor:
        """Project features ``[..., F]`` into text space ``[..., D]``."""

    def embed_features(self, features: Tensor) -> Tensor:
        """Return the inputs ``[N, D]`` of features ``[N, F]``, token by token, without ``around_frame``."""
        return self.embed_frames(features)

    def decision_logits(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of the heads at hidden states ``[N, D]``: speaking ``[N]``, update ``[N]``, in float32.

        Raises ``ValueError`` if the model has no heads.
        """
        raise ValueError("the model has no decision heads")

    @property
    def feature_shape(self) -> tuple[int | None, ...]:
        """Shape ``[I, F]`` of the features of a frame, or ``[rows, columns, F]`` with None for what a video decides."""
        return self.tokens_per_frame, self.feature_dim

    def count_tokens(self, features: Tensor) -> int:
        """Return the tokens of a frame with these features."""
        return self.tokens_per_frame

    def count_frame_tokens(self, height: int, width: int) -> int:
        """Return the tokens of a frame of a video of ``height`` x ``width``."""
        return self.tokens_per_frame

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of pixels of a frame of a video of ``height`` x ``width``."""
        return self.image_size, self.image_size

    def resize_image(self, image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
        """Bring an RGB image ``[H, W, 3]`` to ``size``, rows by columns, and to the framing of the model."""
        return resize_image(image, size=size, framing=self.framing)

    def place(self, pieces: Sequence[int | Tensor], start: int) -> tuple[Tensor, list[int]] | None:
        """Return the positions of tokens and frames from ``start`` on; None where they are the places in the context.

        Returns:
            The positions ``[axes, L]`` on the host, and the position after each token.
        """
        return None

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        device: torch.device = self.text_model.get_input_embeddings().weight.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the text model."""
        dtype: torch.dtype = self.text_model.get_input_embeddings().weight.dtype
        return dtype

    def embed_tokens(self, ids: Tensor) -> Tensor:
        """Return the embeddings ``[..., D]`` of token ids ``[...]``."""
        embedded: Tensor = self.text_model.get_input_embeddings()(ids)
        return embedded

    def forward(self, inputs: Tensor, cache: KVCache | None = None, positions: Tensor | None = None) -> Tensor:
        """Feed embeddings ``[B, L, D]`` after the cached tokens; return hidden states ``[B, L, D]``.

        ``positions`` are those of ``place``, for a model that has its own.
        """
        output = self.text_model(inputs_embeds=inputs, past_key_values=cache, use_cache=cache is not None)
        hidden: Tensor = output.last_hidden_state
        return hidden

    def token_logits(self, hidden: Tensor) -> Tensor:
        """Return next-token logits ``[N, V]`` at hidden states ``[N, D]``, in float32."""
        logits: Tensor = self.lm_head(hidden)
        return logits.float()
