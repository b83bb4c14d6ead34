"""Answers the control's requests: it owns the model, the cache and the frames that wait.

Frames come from an iterator of embedded frames. They are kept only from the first one that control may still
ask for, so memory does not grow with the video.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from engine.cache import KVCache
from engine.config import StreamConfig
from engine.decide import Decision, read_decisions
from engine.errors import FeatureError
from engine.generate import TokenPicker
from engine.model import StreamingModel
from engine.requests import Frames, Pass, Piece, Reading
from engine.vision import FrameFeatures


class Runner:
    """Runs the passes of one stream.

    Args:
        model: The model; its weights are not changed.
        config: Decision policy and generation settings.
        frames: The frames in order, from index 0.
        never: Token ids that are never generated.
        silent_id: The token that means silence, for the token policies.
    """

    def __init__(
        self,
        model: StreamingModel,
        config: StreamConfig,
        *,
        frames: Iterator[FrameFeatures],
        never: tuple[int, ...] = (),
        silent_id: int | None = None,
    ) -> None:
        self._model = model
        self._policy = config.decision_policy
        self._silent_id = silent_id
        self._picker = TokenPicker(config, never=never)
        self._cache = KVCache(model.num_layers)
        self._frames = frames
        self._waiting: deque[FrameFeatures] = deque()

    def times(self, request: Frames) -> tuple[float, ...]:
        """Return the times of the frames that are there, pulling what is missing. Earlier frames are forgotten."""
        while self._waiting and self._waiting[0].index < request.first:
            self._waiting.popleft()
        while len(self._waiting) < request.most and (frame := next(self._frames, None)) is not None:
            self._waiting.append(frame)
        return tuple(frame.time_s for frame in islice(self._waiting, request.most))

    @torch.inference_mode()
    def run(self, request: Pass) -> Reading:
        """Run one pass."""
        self._cache.crop_to(request.keep)
        hidden = self._model(self._embed(request.feed), self._cache)[0]
        decisions: list[Decision] = []
        if request.decide_at:
            at = hidden[list(request.decide_at)]
            decisions = read_decisions(self._model, at, policy=self._policy, silent_id=self._silent_id)
        tokens: tuple[int, ...] = ()
        if request.pick_at:
            tokens = self._picker.pick_each(self._model.token_logits(hidden[list(request.pick_at)]))
        return Reading(decisions=tuple(decisions), tokens=tokens)

    def _embed(self, feed: tuple[Piece, ...]) -> Tensor:
        """Embed token ids and images in order: ``[1, L, D]``."""
        model = self._model
        ids = torch.tensor([piece for piece in feed if isinstance(piece, int)], device=model.device)
        tokens = iter(model.embed_tokens(ids.long()).split(1))
        first = self._waiting[0].index if self._waiting else 0
        pieces = [
            next(tokens) if isinstance(piece, int) else self._checked(self._waiting[piece.frame_index - first])
            for piece in feed
        ]
        return torch.cat(pieces)[None]

    def _checked(self, frame: FrameFeatures) -> Tensor:
        model = self._model
        if tuple(frame.features.shape) != (model.tokens_per_frame, model.feature_dim):
            raise FeatureError(
                f"frame {frame.index} has features {list(frame.features.shape)}, but this checkpoint takes "
                f"[{model.tokens_per_frame}, {model.feature_dim}]; encode the video with this checkpoint"
            )
        return model.embed_frames(frame.features)
