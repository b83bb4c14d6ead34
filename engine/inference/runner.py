"""Answers the control's requests: it owns the model, the cache and the frames that wait.

Frames come from an iterator of embedded frames. They are kept only from the first one that control may still
ask for, so memory does not grow with the video. The requests of one stream, or of many, are one forward pass.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from engine.config import StreamConfig
from engine.control.policies import Decision
from engine.control.requests import Frames, Image, Pass, Piece, Reading
from engine.errors import FeatureError
from engine.inference.cuda_graphs import Graphs, has_nan
from engine.inference.packed import forward_rows
from engine.inference.readout import read_decisions
from engine.inference.sampler import TokenPicker
from engine.inference.static import Inputs, Reads
from engine.model.frame_encoder import FrameFeatures
from engine.model.kv_cache import KVCache
from engine.model.smolvlm import StreamingModel


class Runner:
    """Runs the passes of one stream.

    Args:
        model: The model; its weights are not changed.
        config: Decision policy and generation settings.
        frames: The frames in order, from index 0. A sequence of all of them is not forgotten.
        never: Token ids that are never generated.
        silent_id: The token that means silence, for the token policies.
        cache: What an earlier run has cached.
    """

    def __init__(
        self,
        model: StreamingModel,
        config: StreamConfig,
        *,
        frames: Iterator[FrameFeatures] | Sequence[FrameFeatures],
        never: tuple[int, ...] = (),
        silent_id: int | None = None,
        cache: KVCache | None = None,
    ) -> None:
        self.model, self.config, self.silent_id = model, config, silent_id
        self.reads = Reads(policy=config.decision_policy, silent_id=silent_id, never=never)
        self.picker = TokenPicker(config, never=never)
        self.cache = cache or KVCache(model.num_layers)
        self._are_kept = isinstance(frames, Sequence)
        self._frames = iter(frames)
        self._waiting: deque[FrameFeatures] = deque()

    def times(self, request: Frames) -> tuple[float, ...]:
        """Return the times of the frames that are there, pulling what is missing. Earlier frames are forgotten."""
        while self._waiting and self._waiting[0].index < request.first and not self._are_kept:
            self._waiting.popleft()
        skipped = request.first - self._waiting[0].index if self._waiting else 0
        new = list(islice(self._frames, max(0, skipped + request.most - len(self._waiting))))
        _check_finite(new)
        self._waiting.extend(new)
        return tuple(frame.time_s for frame in islice(self._waiting, skipped, skipped + request.most))

    def run(self, request: Pass) -> Reading:
        """Run one pass."""
        return run_together([self], [self.look_up(request.feed)], [request])[0]

    def look_up(self, feed: tuple[Piece, ...]) -> Inputs:
        """Return token ids and frames' features in order. Raises ``FeatureError`` for features of another shape."""
        first = self._waiting[0].index if self._waiting else 0
        return [self._checked(self._waiting[p.frame_index - first]) if isinstance(p, Image) else p for p in feed]

    def _checked(self, frame: FrameFeatures) -> Tensor:
        shape = (self.model.tokens_per_frame, self.model.feature_dim)
        if frame.features.shape != shape:
            raise FeatureError(
                f"frame {frame.index} has features {list(frame.features.shape)}, but this checkpoint takes "
                f"{list(shape)}; encode the video with this checkpoint"
            )
        return frame.features


def _check_finite(frames: Sequence[FrameFeatures]) -> None:
    """Raise ``FeatureError`` for the first frame with a value that is not finite, which would spoil all later ones."""
    finite = torch.stack([frame.features.isfinite().all() for frame in frames]).tolist() if frames else []
    for frame, is_finite in zip(frames, finite, strict=True):
        if not is_finite:
            raise FeatureError(
                f"frame {frame.index} has features that are not finite: their file is damaged, or the encoder's number "
                "format too short; encode the video again, or choose another dtype"
            )


@torch.inference_mode()
def run_together(
    runners: Sequence[Runner], inputs: Sequence[Inputs], requests: Sequence[Pass], *, graphs: Graphs | None = None
) -> list[Reading]:
    """Run the passes of several streams of one model and policy as one.

    Args:
        runners: The streams' runners.
        inputs: What each feeds.
        requests: Their passes.
        graphs: What runs them if it can, where the streams' caches are in its arena.
    """
    for runner, request in zip(runners, requests, strict=True):
        runner.cache.crop_to(request.keep)
    if graphs is not None:
        caches, reads = [runner.cache for runner in runners], runners[0].reads
        readings = graphs.run(inputs, caches, requests, reads=reads)
        if readings is not None:
            for runner, reading in zip(runners, readings, strict=True):
                if has_nan(reading):
                    runner.cache = runner.cache.detached()  # from here on it runs without
            return readings
    return _run_freely(runners, [embed(runners[0].model, fed) for fed in inputs], requests)


def embed(model: StreamingModel, inputs: Inputs) -> Tensor:
    """Embed token ids and frames in order: ``[L, D]``."""
    tokens = model.embed_tokens(
        torch.tensor([fed for fed in inputs if isinstance(fed, int)], device=model.device).long()
    )
    images = [fed for fed in inputs if not isinstance(fed, int)]
    if not images:
        return tokens
    embedded, rows = iter(model.embed_frames(torch.stack(images))), iter(tokens.split(1))
    return torch.cat([next(rows) if isinstance(fed, int) else next(embedded) for fed in inputs])


def _run_freely(runners: Sequence[Runner], inputs: Sequence[Tensor], requests: Sequence[Pass]) -> list[Reading]:
    """Run passes of any shape; ``inputs`` are embedded."""
    model = runners[0].model
    read_at = [sorted({*request.decide_at, *request.pick_at}) for request in requests]
    if len(runners) == 1:
        hidden = model(inputs[0][None], runners[0].cache)[0, read_at[0]]
    else:
        hidden = forward_rows(model, inputs, [runner.cache for runner in runners], read_at)
    places = {(row, at): n for n, (row, at) in enumerate((row, at) for row, ats in enumerate(read_at) for at in ats)}
    decide_at = [places[row, at] for row, request in enumerate(requests) for at in request.decide_at]
    pick_at = [places[row, at] for row, request in enumerate(requests) for at in request.pick_at]
    decisions = iter(_read(runners[0], hidden[decide_at]) if decide_at else ())
    tokens = iter(_pick(runners, requests, model.token_logits(hidden[pick_at])) if pick_at else ())
    return [
        Reading(
            decisions=tuple(islice(decisions, len(request.decide_at))),
            tokens=tuple(islice(tokens, len(request.pick_at))),
        )
        for request in requests
    ]


def _read(runner: Runner, hidden: Tensor) -> list[Decision]:
    policy = runner.config.decision_policy
    return read_decisions(runner.model, hidden, policy=policy, silent_id=runner.silent_id)


def _pick(runners: Sequence[Runner], requests: Sequence[Pass], logits: Tensor) -> list[int]:
    """Pick all rows' tokens: the likeliest in one step, sampled ones from each stream's own chance."""
    if not runners[0].config.do_sample:
        return list(runners[0].picker.pick_each(logits))
    rows = logits.split([len(request.pick_at) for request in requests])
    return [token for runner, row in zip(runners, rows, strict=True) for token in runner.picker.pick_each(row)]
