"""An image-text model of transformers: tensors in, tensors out.

Sizes: ``B`` images, ``I`` image tokens per frame, ``D`` text width, ``L`` tokens. Images of any size have features
``[rows, columns, F]``, with a position for each row and column; all others ``[I, F]``. A model whose tower also feeds
its first ``n`` decoder layers has features and inputs of ``F = (1 + n) * D``: the embeddings, then the part of each
layer, which is 0 at other tokens.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from stepscope.engine.model.files.image_processors import FrameProcessor
from stepscope.engine.model.hub.families import FAMILIES
from stepscope.engine.model.hub.images import FrameFormat
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.model.vision_language import VisionLanguageModel


class HubModel(VisionLanguageModel):
    """A model of the hub; a frame is the tokens that its processor writes before, of and after one image.

    ``opening`` and ``closing`` are the ids of the tokens before and after the image. Without a ``processor`` a frame is
    stretched.
    """

    has_heads = False
    frame_tokens = "all"

    def __init__(
        self,
        model: Any,
        *,
        frame_format: FrameFormat,
        opening: Sequence[int],
        closing: Sequence[int],
        processor: FrameProcessor | None = None,
    ) -> None:
        super().__init__(model)
        self.frame_format = frame_format
        self.processor = processor
        self.around_frame = tuple(opening), tuple(closing)
        self.image_size = frame_format.side
        self.has_grid = not frame_format.side
        with torch.inference_mode():
            black = self.encode_images(torch.zeros(1, 3, *self.frame_size(224, 224), device=self.device))[0]
        self.feature_dim = black.shape[-1]
        self.num_deep = self.feature_dim // self.hidden_size - 1
        self._num_around = sum(map(len, self.around_frame))
        self._num_image_tokens = frame_format.max_tokens or len(black)
        self.tokens_per_frame = self._num_around + self._num_image_tokens

    @property
    def feature_shape(self) -> tuple[int | None, ...]:
        """Shape of the features of a frame; ``[rows, columns, F]`` with None for what a video decides."""
        return (None, None, self.feature_dim) if self.has_grid else (self._num_image_tokens, self.feature_dim)

    def count_tokens(self, features: Tensor) -> int:
        """Return the tokens before, of and after an image with these features."""
        return self._num_around + features.shape[:-1].numel()

    def count_frame_tokens(self, height: int, width: int) -> int:
        """Return the tokens before, of and after an image of a video of ``height`` x ``width``."""
        rows, columns = self.frame_size(height, width)
        return (
            self._num_around + rows * columns // self.frame_format.block**2 if self.has_grid else self.tokens_per_frame
        )

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of pixels of a frame; see ``FrameFormat.fit``."""
        return self.frame_format.fit(height, width)

    def resize_image(self, image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
        """Bring an RGB image ``[H, W, 3]`` to ``size``, rows by columns, as its published processor does."""
        return (self.processor.resize if self.processor else super().resize_image)(image, size)

    def encode_images(self, pixel_values: Tensor) -> Tensor:
        """Encode normalised images ``[B, 3, H, W]`` as features ``[B, I, F]`` or ``[B, rows, columns, F]``."""
        body = self.vlm.model
        if FAMILIES[self.frame_format.model_type].has_plain_tower:
            patches = body.vision_model(pixel_values=pixel_values.to(self.dtype)).last_hidden_state
            connected: Tensor = body.connector(patches)
            return connected
        inputs = self.frame_format.prepare(pixel_values.to(self.dtype))
        if self.frame_format.is_video:
            videos: Tensor = body.get_video_features(inputs["pixel_values"]).pooler_output
            if math.isqrt(videos.shape[1]) ** 2 < videos.shape[1]:
                return videos
            # transformers 5.17 leaves the mark of the end to the model's forward
            return torch.cat([videos, body.image_newline.expand(len(videos), 1, -1)], dim=1)
        encoded = body.get_image_features(**inputs)
        deep = getattr(encoded, "deepstack_features", None) or []
        pooled = torch.stack(list(encoded.pooler_output))
        # a list of images, or in transformers 5.17 the rows of all of them
        levels = [pooled, *(torch.cat(list(images)).view_as(pooled) for images in deep)]
        features = torch.cat(levels, dim=-1)
        columns = pixel_values.shape[3] // self.frame_format.block if self.has_grid else 0
        return features.unflatten(1, (-1, columns)) if columns else features

    def embed_frames(self, features: Tensor) -> Tensor:
        """Return the inputs ``[B, L, F]`` of frames with features ``[B, I, F]`` or ``[B, rows, columns, F]``."""
        features = features.flatten(1, -2)
        around = [
            self.embed_tokens(torch.tensor(ids, device=self.device, dtype=torch.long)).expand(len(features), -1, -1)
            for ids in self.around_frame
        ]
        return torch.cat([around[0], self.embed_features(features), around[1]], dim=1)

    def embed_features(self, features: Tensor) -> Tensor:
        """Return features ``[..., F]`` as inputs, which they are."""
        return features.to(self.device, self.dtype)

    def embed_tokens(self, ids: Tensor) -> Tensor:
        """Return the inputs ``[..., F]`` of token ids ``[...]``."""
        return pad(super().embed_tokens(ids), (0, self.num_deep * self.hidden_size))

    def place(self, pieces: Sequence[Any], start: int) -> tuple[Tensor, list[int]] | None:
        """Return the positions ``[3, L]`` of pieces from ``start`` on, and the position after each token.

        A text token has the position ``p`` on all axes. The image of ``h`` x ``w`` tokens has ``(p, p + row,
        p + column)``, and the next token ``p + max(h, w)``. Within an image, the position after a token is ``p``.

        Example: ``7, image of 2 x 3, 8`` from 5 on has the rows ``[5, 6 6 6 6 6 6, 9]``, ``[5, 6 6 6 7 7 7, 9]`` and
        ``[5, 6 7 8 6 7 8, 9]``.

        **Source**: ``get_rope_index`` of Qwen2-VL in transformers.
        """
        if not self.has_grid:
            return None
        parts, ends, at = list[Tensor](), list[int](), start

        def add_text(count: int) -> None:
            nonlocal at
            parts.append((torch.arange(count) + at).expand(3, -1))
            ends.extend(range(at + 1, at + count + 1))
            at += count

        num_text = 0  # tokens since the last image; a tensor for each would take longer than the pass of a small model
        for piece in pieces:
            if isinstance(piece, int):
                num_text += 1
                continue
            add_text(num_text + len(self.around_frame[0]))
            rows, columns = piece.shape[:2]
            image = torch.cartesian_prod(torch.zeros(1).long(), torch.arange(rows), torch.arange(columns)).T
            parts.append(image + at)
            ends += [at] * (rows * columns - 1)  # so that a cut through an image moves none of its tokens too far
            at += max(rows, columns)
            ends.append(at)
            num_text = len(self.around_frame[1])
        add_text(num_text)
        return torch.cat(parts, dim=1), ends

    def forward(self, inputs: Tensor, cache: KVCache | None = None, positions: Tensor | None = None) -> Tensor:
        """Feed inputs ``[B, L, F]`` after the cached tokens, at positions ``[3, L]``; return hidden states."""
        hidden, *deep = inputs.split(self.hidden_size, dim=-1)
        options: dict[str, Any] = {}
        if deep:
            mask = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
            options = {"visual_pos_masks": mask, "deepstack_visual_embeds": [part.flatten(0, 1) for part in deep]}
        if positions is not None:
            options["position_ids"] = positions.to(inputs.device)[:, None].expand(-1, len(inputs), -1)
        output = self.text_model(inputs_embeds=hidden, past_key_values=cache, use_cache=cache is not None, **options)
        last: Tensor = output.last_hidden_state
        return last
