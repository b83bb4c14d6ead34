"""Picks the next token from logits: the likeliest, or sampled with a seed."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.config import StreamConfig


class TokenPicker:
    """Picks tokens for one stream. The same seed and logits give the same tokens.

    Args:
        config: Greedy or sampled, temperature, nucleus and seed.
        never: Ids that are never picked.
    """

    def __init__(self, config: StreamConfig, *, never: Sequence[int] = ()) -> None:
        self._config = config
        self._never = list(never)
        self._random = torch.Generator().manual_seed(config.seed)

    def pick_each(self, logits: Tensor) -> tuple[int, ...]:
        """Pick a token id at each of ``N`` positions, in order, from logits ``[N, V]``."""
        if self._config.do_sample:
            return tuple(self._sample(row) for row in logits)
        return tuple(self._allowed(logits).argmax(-1).tolist())

    def _sample(self, logits: Tensor) -> int:
        """Sample one token id from logits ``[V]``."""
        probs = torch.softmax(self._allowed(logits).cpu().double() / self._config.temperature, dim=-1)
        return int(torch.multinomial(self._nucleus(probs), 1, generator=self._random))

    def _allowed(self, logits: Tensor) -> Tensor:
        allowed = logits.clone()
        allowed[..., self._never] = -torch.inf
        return allowed

    def _nucleus(self, probs: Tensor) -> Tensor:
        """Zero all but the likeliest tokens that together reach ``top_p``; the likeliest always stays."""
        ordered, order = probs.sort(descending=True)
        outside = ordered.cumsum(-1) - ordered >= self._config.top_p
        kept = probs.clone()
        kept[order[outside]] = 0
        return kept
