"""Samples the next token from logits: greedy, or with temperature, top-p and a seed."""

from collections.abc import Sequence

import torch
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.decisions.policies import convert_theta


class Sampler:
    """Samples the tokens of one stream. The same seed and logits give the same tokens.

    ``suppress_tokens`` are never sampled. A reply has the token ``silence_id`` only where its probability exceeds
    ``theta + step * theta_step``.

    **Source**: ``ThresholdLogitsProcessor`` of LiveCC (demo/infer.py).
    """

    def __init__(
        self, config: StreamConfig, *, suppress_tokens: Sequence[int] = (), silence_id: int | None = None
    ) -> None:
        self._config, self._silence_id = config, silence_id
        self._suppress_tokens = list(suppress_tokens)
        self._random = torch.Generator().manual_seed(config.seed)

    def sample(self, logits: Tensor, steps: Sequence[int] = ()) -> tuple[int, ...]:
        """Return one token id for each row of logits ``[N, V]``, in order.

        ``steps`` are the tokens of the reply before each row's, -1 outside a reply; none if no threshold needs them.
        """
        if self._silence_id is not None and steps:
            logits = self._suppress_silence(logits, torch.tensor(steps, device=logits.device))
        if self._config.do_sample:
            return tuple(self._sample_row(row) for row in logits)
        return tuple(self._suppress(logits).argmax(-1).tolist())

    def _suppress_silence(self, logits: Tensor, steps: Tensor) -> Tensor:
        thetas = convert_theta(self._config.speak_threshold) + self._config.theta_step * steps
        is_refused = (steps >= 0) & (logits.softmax(-1)[:, self._silence_id] <= thetas)
        allowed = logits.clone()
        allowed[is_refused, self._silence_id] = -torch.inf
        return allowed

    def _sample_row(self, logits: Tensor) -> int:
        """Sample one token id from logits ``[V]``."""
        probs = torch.softmax(self._suppress(logits).cpu().double() / self._config.temperature, dim=-1)
        return int(torch.multinomial(self._apply_top_p(probs), 1, generator=self._random))

    def _suppress(self, logits: Tensor) -> Tensor:
        allowed = logits.clone()
        allowed[..., self._suppress_tokens] = -torch.inf
        return allowed

    def _apply_top_p(self, probs: Tensor) -> Tensor:
        """Zero all tokens outside the smallest set that reaches ``top_p``; the most likely token always stays."""
        ordered, order = probs.sort(descending=True)
        is_outside = ordered.cumsum(-1) - ordered >= self._config.top_p
        kept = probs.clone()
        kept[order[is_outside]] = 0
        return kept
