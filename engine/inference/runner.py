"""Runs the requests of a stream: it owns the model, the KV cache and a window of frame features.

Features come from an iterator, in order. Only those that the controller may still request are kept, so memory does not
grow with the video. Requests of one stream or of many are one forward pass.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, Protocol, runtime_checkable

import torch
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import (
    Branch,
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
from stepscope.engine.model.kv_cache import KVCache
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
    sequence, or with ``keeps_all``, all of them are kept. ``LiveFrames`` are taken as they arrive: a pass never waits
    for more than one. Decisions are by default read from the heads. ``cache`` is that of an earlier run, to continue
    from.
    """

    def __init__(
        self,
        model: VisionLanguageModel,
        config: StreamConfig,
        *,
        features: Iterator[FrameFeatures] | Sequence[FrameFeatures],
        keeps_all: bool = False,
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
        self._keeps_all = keeps_all or isinstance(features, Sequence)
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
        return [self._check_shape(self._find(piece)) if isinstance(piece, Image) else piece for piece in pieces]

    def _find(self, image: Image) -> FrameFeatures:
        place = image.frame_index - self._window[0].index
        if place >= len(self._window):  # shown in place of an earlier one
            self._fetch(place + 1 - len(self._window), may_wait=True)
        assert place >= 0, f"frame {image.frame_index} is no longer in the window"
        if place >= len(self._window):
            raise FeatureError(f"the picture of frame {image.frame_index} cannot be shown: the video has no such frame")
        return self._window[place]

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
    readout_spec = runners[0].readout_spec
    if graph_runner is not None and readout_spec.silence_id is None:
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


_MAX_BRANCH_TOKENS: Final = 256
"""Tokens of branches that attend together. More take fewer kernels, and hide more of one another's keys."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackedStream:
    """Tokens of one stream in a pass: those that its cache keeps, or some branches, which it forgets."""

    inputs: Tensor
    """Embeddings ``[L, D]``."""
    cache: KVCache
    reads: Sequence[int]
    """Positions whose hidden states are read, ascending; they count from 0 in ``inputs``."""
    positions: Tensor | None = None
    """Rotary positions ``[axes, L]`` of a model that has its own."""
    branches: Sequence[tuple[int, int]] = ()
    """For each branch the tokens of the context that it sees, and its own."""

    @property
    def start(self) -> int:
        """Tokens of the context before the pass, or those that branches see."""
        return max((seen for seen, _ in self.branches), default=self.cache.length)


def _forward_eager(
    runners: Sequence[Runner], pieces: Sequence[Inputs], requests: Sequence[ForwardRequest]
) -> list[ForwardResult]:
    model, spec = runners[0].model, runners[0].readout_spec
    streams, first_of, ends = list[PackedStream](), list[int](), list[list[int]]()
    for runner, own, request in zip(runners, pieces, requests, strict=True):
        place = model.place(own, runner.cache.next_position)
        first_of.append(len(streams))
        ends.append(place[1] if place else [])
        streams.append(
            PackedStream(
                inputs=embed_inputs(model, own),
                cache=runner.cache,
                reads=sorted({*request.decision_positions, *request.sample_positions}),
                positions=place and place[0],
            )
        )
        streams += _group_branches(model, runner.cache, request.branches, spec, ends[-1])
    if len(streams) == 1:
        only = streams[0]
        hidden = model(only.inputs[None], only.cache, only.positions)[0, only.reads]
    else:
        hidden = forward_packed(model, streams)
    for runner, after in zip(runners, ends, strict=True):
        runner.cache.ends += after
    read_positions = [stream.reads for stream in streams]
    keys = ((stream, at) for stream, positions in enumerate(read_positions) for at in positions)
    row_of = {key: row for row, key in enumerate(keys)}  # (stream, position) -> row of ``hidden``
    by_stream = list(zip(first_of, requests, strict=True))
    decision_rows = [row_of[stream, at] for stream, request in by_stream for at in request.decision_positions]
    sample_rows = [row_of[stream, at] for stream, request in by_stream for at in request.sample_positions]
    answer_rows = [row_of[n, at] for n, stream in enumerate(streams) if stream.branches for at in stream.reads]
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


def _group_branches(
    model: VisionLanguageModel, cache: KVCache, branches: Sequence[Branch], spec: ReadoutSpec, ends: Sequence[int]
) -> Iterator[PackedStream]:
    """Yield the branches of a request, a group at a time; ``ends`` are the positions after its tokens, if any."""
    group, num_tokens = list[Branch](), 0
    for branch in branches:
        if group and num_tokens + len(branch.ids) > _MAX_BRANCH_TOKENS:
            yield _join_branches(model, cache, group, spec, ends)
            group, num_tokens = [], 0
        group.append(branch)
        num_tokens += len(branch.ids)
    if group:
        yield _join_branches(model, cache, group, spec, ends)


def _join_branches(
    model: VisionLanguageModel, cache: KVCache, group: Sequence[Branch], spec: ReadoutSpec, ends: Sequence[int]
) -> PackedStream:
    ids, reads, positions, lengths = list[int](), list[int](), list[Tensor](), list[tuple[int, int]]()
    for branch in group:
        seen = cache.length + branch.position + 1
        own, at = find_reads(branch, spec)
        place = model.place(own, ends[branch.position] if ends else seen)
        positions += [place[0]] if place else []
        reads += [len(ids) + position for position in at]
        lengths.append((seen, len(own)))
        ids += own
    return PackedStream(
        inputs=embed_inputs(model, ids),
        cache=cache,
        reads=reads,
        positions=torch.cat(positions, dim=1) if positions else None,
        branches=lengths,
    )


def forward_packed(model: VisionLanguageModel, streams: Sequence[PackedStream]) -> Tensor:
    """Append each stream's tokens to its cache; return the hidden states ``[R, D]`` of all reads, stream after stream.

    Branches come after the stream that they belong to.

    Worked example: two streams feed 2 and 3 tokens after caches of 5 and 0. The packed sequence has 5 tokens with the
    rotary positions ``[5, 6, 0, 1, 2]``. The reads ``[1]`` and ``[0, 2]`` select its rows ``[1, 2, 4]``.
    """
    text, hidden = model.text_model, torch.cat([stream.inputs for stream in streams])
    groups = text.config.num_attention_heads // text.config.num_key_value_heads
    layouts = [_lay_out(stream, hidden) for stream in streams]
    own = [
        positions if stream.positions is None else stream.positions
        for stream, (positions, _) in zip(streams, layouts, strict=True)
    ]
    attention = _PackedAttention(streams=streams, biases=[mask.repeat(groups, 1)[None, None] for _, mask in layouts])
    offsets = torch.tensor([0, *(len(stream.inputs) for stream in streams)]).cumsum(0).tolist()
    read_rows = torch.tensor(
        [offset + at for offset, stream in zip(offsets, streams, strict=False) for at in stream.reads],
        device=hidden.device,
        dtype=torch.long,  # a pass that only feeds reads no row
    )
    return forward_layers(text, hidden, torch.cat(own, dim=-1), attention, read_rows=read_rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PackedAttention:
    """Attention of each stream over its own cache, as a ``LayerAttention``."""

    streams: Sequence[PackedStream]
    biases: Sequence[Tensor]
    """The mask ``[1, 1, groups * L_i, C_i]`` of each stream, as ``attend`` takes it."""

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
        lengths = [len(stream.inputs) for stream in self.streams]
        parts = (states[None].split(lengths, dim=2) for states in (queries, keys, values))
        attended = []
        for stream, bias, query, key, value in zip(self.streams, self.biases, *parts, strict=True):
            layer_cache = stream.cache.layers[layer]
            if stream.branches:
                seen = layer_cache.read(stream.start)
                cached = [torch.cat(both, dim=2) for both in zip(seen, (key, value), strict=True)]
            else:
                cached = layer_cache.update(key, value)
            attended.append(attend(query, *cached, bias=bias, scale=scale)[0])
        return torch.cat(attended)


def _lay_out(stream: PackedStream, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positions ``[L]`` of a stream's tokens, and their mask ``[L, C]``: 0 visible, ``-inf`` hidden.

    For a context of 3 tokens and branches of 2 and 1 behind 2 and 3 of them, with ``-`` for ``-inf``::

        0 0 - 0 - -
        0 0 - 0 0 -
        0 0 0 - - 0

    The positions are 2, 3 and 3.
    """
    start, length = stream.start, len(stream.inputs)
    mask = like.new_full((length, start + length), -torch.inf).triu(start + 1)
    positions = list(range(start, start + length))
    first = 0
    for seen, count in stream.branches:
        mask[first : first + count, seen : start + first] = -torch.inf
        positions[first : first + count] = range(seen, seen + count)
        first += count
    return torch.tensor(positions, device=like.device), mask
