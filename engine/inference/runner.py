"""Runs the requests of a stream: it owns the model, the KV cache and a window of frame features.

Features come from an iterator, in order. Only those that the controller may still request are kept, so memory does not
grow with the video. Requests of one stream or of many are one forward pass.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import (
    EvictRequest,
    ForwardRequest,
    ForwardResult,
    FrameTimesRequest,
    Image,
    Piece,
)
from stepscope.engine.errors import FeatureError
from stepscope.engine.inference.cuda_graphs import CudaGraphRunner, has_nan
from stepscope.engine.inference.readout import ReadoutSpec, Sampler, find_reads, read_branches, read_decisions
from stepscope.engine.inference.static import Inputs
from stepscope.engine.model.attention import attend, forward_layers, shift_keys
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.kv_cache import KVBranch, KVCache
from stepscope.engine.model.vision_language import VisionLanguageModel, fits_shape, format_shape


@runtime_checkable
class LiveFrames(Protocol):
    """Frames of a live source, which arrive while the stream runs."""

    def take(self, max_frames: int, *, may_wait: bool) -> Sequence[FrameFeatures]:
        """Return up to ``max_frames`` frames that have arrived.

        If there are none, wait for one if ``may_wait``; at the end of the source, return none.
        """


class Runner:
    """Runs the requests of one stream.

    The weights of the model are not changed. ``features`` are those of the frames in order, from index 0; from a
    sequence all of them are kept. ``LiveFrames`` are taken as they arrive: a pass never waits for more than one.
    Decisions are by default read from the heads. ``cache`` is that of an earlier run, to continue from.
    """

    def __init__(
        self,
        model: VisionLanguageModel,
        config: StreamConfig,
        *,
        features: Iterator[FrameFeatures] | Sequence[FrameFeatures],
        readout_spec: ReadoutSpec | None = None,
        cache: KVCache | None = None,
    ) -> None:
        self.model, self.config = model, config
        self.readout_spec = readout_spec or ReadoutSpec()
        self.sampler = Sampler(
            config, suppress_tokens=self.readout_spec.suppress_tokens, silence_id=self.readout_spec.silence_id
        )
        self.cache = cache or KVCache(model.num_layers)
        self.new_questions: dict[int, tuple[str, ...]] = {}
        """Questions of frames that were fetched since the dictionary was last cleared, by frame."""
        self._keeps_all = isinstance(features, Sequence)
        self._live = features if isinstance(features, LiveFrames) else None
        self._source = iter(features)
        self._window: deque[FrameFeatures] = deque()
        self._shape: tuple[int, ...] | None = None
        """Shape of the features of all frames: that of the first one."""

    def count_frame_tokens(self) -> int:
        """Return the tokens of each frame, for which the first one is fetched; 1 without a frame."""
        if not self._window:
            self._fetch(1, may_wait=True)
        return self.model.count_tokens(self._window[0].features) if self._window else 1

    def fetch_frame_times(self, request: FrameTimesRequest) -> tuple[float, ...]:
        """Return the instants of the requested frames in seconds, and drop earlier frames from the window.

        The instant is that of the decision; a still that is sampled again may be older. The frame before the requested
        ones stays: a summary is asked for beside it. Raises ``FeatureError`` for features that are not finite.
        """
        while self._window and self._window[0].index < request.first - 1 and not self._keeps_all:
            self._window.popleft()
        skipped = request.first - self._window[0].index if self._window else 0
        num_missing = max(0, skipped + request.max_frames - len(self._window))
        if num_missing:
            self._fetch(num_missing, may_wait=request.may_wait and len(self._window) <= skipped)
        frames = islice(self._window, skipped, skipped + request.max_frames)
        if self._live is not None:  # numbered without the gaps
            return tuple(frame.time_s for frame in frames)
        return tuple(frame.index / self.config.fps for frame in frames)

    def _fetch(self, num_frames: int, *, may_wait: bool) -> None:
        """Take up to ``num_frames`` further frames into the window; ``may_wait`` is for a live source."""
        if self._live is None:
            new = list(islice(self._source, num_frames))
        else:
            new = list(self._live.take(num_frames, may_wait=may_wait))
        _check_finite(new)
        self.new_questions |= {frame.index: frame.questions for frame in new if frame.questions}
        self._window.extend(new)

    def forward(self, request: ForwardRequest) -> ForwardResult:
        """Run one forward pass."""
        return forward_batch([self], [self.gather_inputs(request.inputs)], [request])[0]

    @torch.inference_mode()
    def evict(self, request: EvictRequest) -> None:
        """Drop the middle of the KV cache."""
        self.cache.crop_to(request.num_cached)
        evict_tokens(self.model, self.cache, request)

    def gather_inputs(self, pieces: tuple[Piece, ...]) -> Inputs:
        """Return token ids and frame features in order. Raises ``FeatureError`` for features of a wrong shape."""
        first = self._window[0].index if self._window else 0
        return [
            self._check_shape(self._window[piece.frame_index - first]) if isinstance(piece, Image) else piece
            for piece in pieces
        ]

    def _check_shape(self, frame: FrameFeatures) -> Tensor:
        shape = tuple(frame.features.shape)
        if not fits_shape(shape, self._shape or self.model.feature_shape):
            raise FeatureError(
                f"frame {frame.index} has features {list(shape)}, but this checkpoint takes "
                f"{format_shape(self._shape or self.model.feature_shape)}; encode the video with this checkpoint"
            )
        self._shape = shape
        return frame.features


def evict_tokens(model: VisionLanguageModel, cache: KVCache, request: EvictRequest) -> None:
    """Drop the middle of a KV cache that holds exactly the tokens of the request."""
    shift, distance = None, 0
    if request.renumbers:
        distance = cache.position_at(request.num_cached - request.tail) - cache.position_at(request.head)
        shift = partial(shift_keys, model.text_model, distance=distance)
    cache.evict(head=request.head, tail=request.tail, shift_keys=shift, distance=distance)


def _check_finite(frames: Sequence[FrameFeatures]) -> None:
    """Raise ``FeatureError`` for the first frame with a value that is not finite: it would spoil all later frames."""
    finite = torch.stack([frame.features.isfinite().all() for frame in frames]).tolist() if frames else []
    for frame, is_finite in zip(frames, finite, strict=True):
        if not is_finite:
            raise FeatureError(
                f"frame {frame.index} has features that are not finite: their file is damaged, or the encoder's number "
                "format too short; encode the video again, or choose another dtype"
            )


@torch.inference_mode()
def forward_batch(
    runners: Sequence[Runner],
    inputs: Sequence[Inputs],
    requests: Sequence[ForwardRequest],
    *,
    graph_runner: CudaGraphRunner | None = None,
) -> list[ForwardResult]:
    """Run the requests of several streams of one model and policy as one forward pass.

    ``inputs`` come from ``Runner.gather_inputs``. ``graph_runner`` runs the pass as a CUDA graph if it can; the caches
    must be in its pool.
    """
    for runner, request in zip(runners, requests, strict=True):
        runner.cache.crop_to(request.num_cached)
    readout_spec, has_branches = runners[0].readout_spec, any(request.branches for request in requests)
    if graph_runner is not None and not has_branches and readout_spec.silence_id is None:
        caches = [runner.cache for runner in runners]
        results = graph_runner.run(inputs, caches, requests, readout_spec=readout_spec)
        if results is not None:
            for runner, result in zip(runners, results, strict=True):
                if has_nan(result):
                    runner.cache = runner.cache.detached()  # the stream runs eagerly from here on
            return results
    return _forward_eager(runners, inputs, requests)


def embed_inputs(model: VisionLanguageModel, inputs: Inputs) -> Tensor:
    """Return the embeddings ``[L, D]`` of token ids and frame features, in order."""
    tokens = model.embed_tokens(
        torch.tensor([piece for piece in inputs if isinstance(piece, int)], device=model.device).long()
    )
    images = [piece for piece in inputs if not isinstance(piece, int)]
    if not images:
        return tokens
    embedded, rows = iter(model.embed_frames(torch.stack(images))), iter(tokens.split(1))
    return torch.cat([next(rows) if isinstance(piece, int) else next(embedded) for piece in inputs])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stream:
    """One sequence of a pass."""

    inputs: Tensor
    """Embeddings ``[L, D]``."""
    cache: KVCache | KVBranch
    reads: list[int]
    """Positions whose hidden states are read, ascending."""
    place: tuple[Tensor, list[int]] | None
    """Their positions; see ``VisionLanguageModel.place``."""


def _forward_eager(
    runners: Sequence[Runner], pieces: Sequence[Inputs], requests: Sequence[ForwardRequest]
) -> list[ForwardResult]:
    """Run passes of any length. Branches are streams of their own, behind the one that they belong to."""
    model, spec = runners[0].model, runners[0].readout_spec
    streams = list[_Stream]()
    first_of = list[int]()
    for runner, one, request in zip(runners, pieces, requests, strict=True):
        cache, place = runner.cache, model.place(one, runner.cache.next_position)
        reads = sorted({*request.decision_positions, *request.sample_positions})
        first_of.append(len(streams))
        streams.append(_Stream(inputs=embed_inputs(model, one), cache=cache, reads=reads, place=place))
        for branch in request.branches:
            seen = cache.length + branch.position + 1
            ids, at = find_reads(branch, spec)
            behind = model.place(ids, place[1][branch.position] if place else seen)
            view = KVBranch(cache, length=seen)
            streams.append(_Stream(inputs=embed_inputs(model, ids), cache=view, reads=at, place=behind))
    read_positions = [stream.reads for stream in streams]
    if len(streams) == 1:
        only = streams[0]
        assert isinstance(only.cache, KVCache)
        hidden = model(only.inputs[None], only.cache, only.place and only.place[0])[0, only.reads]
    else:
        own = [stream.place[0] for stream in streams if stream.place is not None]
        inputs, caches = [stream.inputs for stream in streams], [stream.cache for stream in streams]
        hidden = forward_packed(model, inputs, caches, read_positions, own or None)
    for stream in streams:
        if isinstance(stream.cache, KVCache) and stream.place is not None:
            stream.cache.ends += stream.place[1]
    keys = ((stream, at) for stream, positions in enumerate(read_positions) for at in positions)
    row_of = {key: row for row, key in enumerate(keys)}  # (stream, position) -> row of ``hidden``
    by_stream = list(zip(first_of, requests, strict=True))
    decision_rows = [row_of[stream, at] for stream, request in by_stream for at in request.decision_positions]
    sample_rows = [row_of[stream, at] for stream, request in by_stream for at in request.sample_positions]
    answer_rows = [
        row_of[n, at] for n, stream in enumerate(streams) if isinstance(stream.cache, KVBranch) for at in stream.reads
    ]
    decisions = iter(read_decisions(model, hidden[decision_rows], spec) if decision_rows else ())
    branches = [branch for request in requests for branch in request.branches]
    answers = iter(read_branches(model, hidden[answer_rows], branches, spec) if branches else ())
    tokens: Iterator[int] = iter(())
    if sample_rows:
        logits = model.token_logits(hidden[sample_rows])
        openings = [number for number, row in enumerate(sample_rows) if row in set(decision_rows)]
        if openings and spec.suppress_at_images:
            logits[torch.tensor(openings)[:, None], torch.tensor(spec.suppress_at_images)] = -torch.inf
        tokens = iter(_sample(runners, requests, logits))
    return [
        ForwardResult(
            decisions=tuple(islice(decisions, len(request.decision_positions))),
            tokens=tuple(islice(tokens, len(request.sample_positions))),
            answers=tuple(islice(answers, len(request.branches))),
        )
        for request in requests
    ]


def _sample(runners: Sequence[Runner], requests: Sequence[ForwardRequest], logits: Tensor) -> list[int]:
    """Return the next tokens of all streams: greedy ones in one step, others with each stream's own settings."""
    if not runners[0].config.do_sample and runners[0].readout_spec.silence_id is None:
        return list(runners[0].sampler.sample(logits))
    parts = logits.split([len(request.sample_positions) for request in requests])
    sampled = zip(runners, parts, requests, strict=True)
    return [token for runner, part, request in sampled for token in runner.sampler.sample(part, request.sample_steps)]


def forward_packed(
    model: VisionLanguageModel,
    inputs: Sequence[Tensor],
    caches: Sequence[KVCache | KVBranch],
    read_positions: Sequence[Sequence[int]],
    own_positions: Sequence[Tensor] | None = None,
) -> Tensor:
    """Append each stream's embeddings ``[L_i, D]`` to its cache; return hidden states ``[R, D]``.

    ``own_positions [axes, L_i]`` are the rotary positions of each stream; by default those after its cache.

    Row ``r`` is the ``r``-th of all ``read_positions``, stream after stream; positions count from 0 in each input.

    Worked example: two streams feed 2 and 3 tokens after caches of 5 and 0. ``N`` is 5, and ``offsets`` is
    ``[0, 2, 5]``. The rotary positions are ``[5, 6, 0, 1, 2]``. The reads ``[(1,), (0, 2)]`` select the packed rows
    ``[1, 2, 4]``.
    """
    lengths = [len(embeddings) for embeddings in inputs]
    starts = [cache.length for cache in caches]
    hidden = torch.cat(list(inputs))
    own_positions = own_positions or [
        torch.arange(start, start + length, device=hidden.device) for start, length in zip(starts, lengths, strict=True)
    ]
    positions = torch.cat(list(own_positions), dim=-1)
    text = model.text_model
    groups = text.config.num_attention_heads // text.config.num_key_value_heads
    masks = (_causal_mask(start, length, hidden) for start, length in zip(starts, lengths, strict=True))
    biases = [mask.repeat(groups, 1)[None, None] for mask in masks]
    attention = _PackedAttention(caches=caches, lengths=lengths, biases=biases)
    offsets = torch.tensor([0, *lengths]).cumsum(0).tolist()
    read_rows = torch.tensor(
        [offset + at for offset, reads in zip(offsets, read_positions, strict=False) for at in reads],
        device=hidden.device,
        dtype=torch.long,  # a pass that only feeds reads no row
    )
    return forward_layers(text, hidden, positions, attention, read_rows=read_rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PackedAttention:
    """Attention of each stream over its own cache, as a ``LayerAttention``."""

    caches: Sequence[KVCache | KVBranch]
    lengths: list[int]
    """New tokens of each stream."""
    biases: Sequence[Tensor]
    """The causal mask ``[1, 1, groups * L_i, C_i]`` of each stream, as ``attend`` takes it."""

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
        parts = (states.split(self.lengths, dim=1) for states in (queries, keys, values))
        attended = []
        for cache, bias, query, key, value in zip(self.caches, self.biases, *parts, strict=True):
            cached = cache.layers[layer].update(key[None], value[None])
            attended.append(attend(query[None], *cached, bias=bias, scale=scale)[0])
        return torch.cat(attended)


def _causal_mask(start: int, length: int, like: Tensor) -> Tensor:
    """Return the mask ``[length, start + length]`` of tokens after ``start`` cached ones: 0 visible, ``-inf`` hidden.

    For ``start`` = 2 and ``length`` = 3, with ``-`` for ``-inf``::

        0 0 0 - -
        0 0 0 0 -
        0 0 0 0 0
    """
    return like.new_full((length, start + length), -torch.inf).triu(start + 1)
