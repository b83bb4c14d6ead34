"""An image-text model of transformers: tensors in, tensors out.

Sizes: ``B`` images, ``I`` image tokens per frame, ``D`` text width, ``L`` tokens. A model whose tower also feeds its
first ``n`` decoder layers has features and inputs of ``F = (1 + n) * D``: the embeddings, then the part of each layer,
which is 0 at other tokens.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from stepscope.engine.model.attention import use_layer_attention
from stepscope.engine.model.hub.images import FrameFormat
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.model.vision_language import VisionLanguageModel


class HubModel(VisionLanguageModel):
    """A model of the hub; a frame is the tokens that its processor writes before, of and after one image.

    Args:
        model: The model with its output embeddings.
        frame_format: How it takes a frame.
        opening: Ids of the tokens before the image.
        closing: Ids of the tokens after it.
    """

    has_heads = False
    supports_graphs = False

    def __init__(
        self, model: Any, *, frame_format: FrameFormat, opening: Sequence[int], closing: Sequence[int]
    ) -> None:
        super().__init__()
        self.vlm, self.frame_format = model, frame_format
        self._opening, self._closing = tuple(opening), tuple(closing)
        use_layer_attention(self.text_model)
        text = self.text_model.config
        self.hidden_size, self.num_layers = text.hidden_size, text.num_hidden_layers
        self.max_context = text.max_position_embeddings
        self.image_size, self.framing = frame_format.side, frame_format.framing
        self.grid = frame_format.grid
        with torch.inference_mode():
            features = self.encode_images(torch.zeros(1, 3, self.image_size, self.image_size, device=self.device))
        self.features_per_frame, self.feature_dim = features.shape[1:]
        self.num_deep = self.feature_dim // self.hidden_size - 1

    @property
    def tokens_per_frame(self) -> int:
        """Tokens before, of and after an image."""
        return len(self._opening) + self.features_per_frame + len(self._closing)

    @property
    def feature_shape(self) -> tuple[int, int]:
        """Shape ``[I, F]`` of the features of a frame."""
        return self.features_per_frame, self.feature_dim

    @property
    def frame_tokens(self) -> str:
        """``all``, as no token is left out."""
        return "all"

    @property
    def text_model(self) -> PreTrainedModel:
        """The decoder."""
        body = self.vlm.model
        decoder: PreTrainedModel = body.language_model if hasattr(body, "language_model") else body.text_model
        return decoder

    @property
    def lm_head(self) -> nn.Module:
        """The output embeddings."""
        lm_head: nn.Module = self.vlm.lm_head
        return lm_head

    def encode_images(self, pixel_values: Tensor) -> Tensor:
        """Encode normalised images ``[B, 3, H, W]`` as features ``[B, I, F]``."""
        body = self.vlm.model
        if self.frame_format.model_type in ("idefics3", "smolvlm"):
            # ``get_image_features`` drops images whose normalised pixels are all 0
            patches = body.vision_model(pixel_values=pixel_values.to(self.dtype)).last_hidden_state
            connected: Tensor = body.connector(patches)
            return connected
        found = body.get_image_features(**self.frame_format.prepare(pixel_values.to(self.dtype)))
        deep = getattr(found, "deepstack_features", None) or []
        levels = [torch.stack(list(images)) for images in (found.pooler_output, *deep)]
        return torch.cat(levels, dim=-1)

    def embed_frames(self, features: Tensor) -> Tensor:
        """Return the inputs ``[B, tokens_per_frame, F]`` of frames with features ``[B, I, F]``."""
        around = [
            self.embed_tokens(torch.tensor(ids, device=self.device, dtype=torch.long)).expand(len(features), -1, -1)
            for ids in (self._opening, self._closing)
        ]
        return torch.cat([around[0], features.to(self.device, self.dtype), around[1]], dim=1)

    def embed_tokens(self, ids: Tensor) -> Tensor:
        """Return the inputs ``[..., F]`` of token ids ``[...]``."""
        return pad(super().embed_tokens(ids), (0, self.num_deep * self.hidden_size))

    def decision_logits(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Raise ``ValueError``: the model has no heads."""
        raise ValueError("the model has no decision heads")

    def place(self, pieces: Sequence[Any], start: int) -> tuple[Tensor, list[int]] | None:
        """Return the positions ``[3, L]`` of pieces from ``start`` on, and the position after each token.

        A text token has the position ``p`` on all axes. The image of ``g`` x ``g`` tokens has ``(p, p + row,
        p + column)``, and the next token ``p + g``. Tokens within an image have no position after them.

        Example: ``7, image of 2 x 2, 8`` from 5 on has the rows ``[5, 6 6 6 6, 8]``, ``[5, 6 6 7 7, 8]`` and
        ``[5, 6 7 6 7, 8]``.

        **Source**: ``get_rope_index`` of Qwen2-VL in transformers.
        """
        if self.grid is None:
            return None
        parts, ends, at = list[Tensor](), list[int](), start
        line = torch.arange(self.grid)
        image = torch.stack(
            [torch.zeros(self.grid**2).long(), line.repeat_interleave(self.grid), line.repeat(self.grid)]
        )
        for piece in pieces:
            before, after = (0, 1) if isinstance(piece, int) else (len(self._opening), len(self._closing))
            for count, is_image in ((before, False), (1, True), (after, False)):
                if is_image and not isinstance(piece, int):
                    parts.append(image + at)
                    at += self.grid
                    ends += [at] * self.features_per_frame
                elif not is_image:
                    parts.append((torch.arange(count) + at).expand(3, -1))
                    ends += range(at + 1, at + count + 1)
                    at += count
        return torch.cat(parts, dim=1).to(self.device), ends

    def forward(self, inputs: Tensor, cache: KVCache | None = None, positions: Tensor | None = None) -> Tensor:
        """Feed inputs ``[B, L, F]`` after the cached tokens, at positions ``[3, L]``; return hidden states."""
        hidden, *deep = inputs.split(self.hidden_size, dim=-1)
        options: dict[str, Any] = {}
        if deep:
            mask = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
            options = {"visual_pos_masks": mask, "deepstack_visual_embeds": [part.flatten(0, 1) for part in deep]}
        if positions is not None:
            options["position_ids"] = positions[:, None].expand(-1, len(inputs), -1)
        output = self.text_model(inputs_embeds=hidden, past_key_values=cache, use_cache=cache is not None, **options)
        last: Tensor = output.last_hidden_state
        return last
