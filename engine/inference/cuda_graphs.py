"""Forward passes captured as CUDA graphs, one per bucket shape. A graph changes the time of a pass, not its result.

A checkpoint on a CUDA device has a ``CudaGraphPool``. Each run of streams acquires a ``CudaGraphRunner`` from it: a KV
cache pool and the steps captured over it, which later runs reuse. A replay waits for the device once, when its results
come to the host. Sampling, long passes, and states that are read as texts run eagerly on the same caches.

The first replays of each shape are compared with the eager step (``run_checked``). After a failed
capture everything of the model runs eagerly, with one warning; after a replay that differs, everything of the process.
"""

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import isnan
from typing import ClassVar, Final, get_args

import torch
from torch import Tensor

from stepscope.engine.config import GraphSetting, StreamConfig
from stepscope.engine.control.requests import Decision, ForwardRequest, ForwardResult
from stepscope.engine.errors import first_line
from stepscope.engine.inference.kv_pool import KVCachePool, SlotKVCache
from stepscope.engine.inference.merged import MergedLayers
from stepscope.engine.inference.readout import ReadoutSpec
from stepscope.engine.inference.static import (
    BucketShape,
    Inputs,
    Layers,
    StaticStep,
    StreamTokens,
    list_tokens,
    pick_bucket,
    reads_decisions,
)
from stepscope.engine.model.attention import forward_layers, has_fixed_rotation
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.model.vision_language import VisionLanguageModel

Step = Callable[[], Tensor]
TOLERANCES: Final = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Largest accepted difference of a probability, and of a cached number as a share of the largest one, at least of 1."""


def run_checked(
    step: StaticStep, replay: Step, caches: Sequence[SlotKVCache], lengths: Sequence[int]
) -> tuple[Tensor, str]:
    """Run a filled step eagerly, then its replay; return the eager results, and a text if the replay's differ.

    Afterwards the caches have the new tokens of one of them: those of the eager step if the replay differs or fails.
    ``caches`` are those of each stream before the pass is counted, ``lengths`` its new tokens.
    """
    pool, device = step.pool, step.model.device
    starts = [cache.slot * pool.capacity for cache in caches]
    ranges = [(start, start + cache.length) for start, cache in zip(starts, caches, strict=True)]
    new = torch.cat([torch.arange(end, end + length) for (_, end), length in zip(ranges, lengths, strict=True)])
    old = torch.cat([torch.arange(*bounds) for bounds in ranges])
    rows, new = torch.cat([old, new]).to(device), new.to(device)
    buffers = (*pool.keys, *pool.values)
    expected, logits = step().clone(), step.logits
    kept = [buffer.index_select(0, rows) for buffer in buffers]
    difference = "the replay failed"
    try:
        for buffer in buffers:
            buffer.index_fill_(0, new, torch.nan)
        replayed = replay().clone()
        tolerance, num_tokens = TOLERANCES[step.model.dtype], sum(lengths)
        found = _compare_results(replayed[:, :num_tokens], expected[:, :num_tokens], logits, tolerance)
        now = (buffer.index_select(0, rows) for buffer in buffers)
        cached = max(float(_difference(a, b)) for a, b in zip(now, kept, strict=True))
        found += [f"cached keys and values by {cached:.1e}"] if cached > tolerance else []
        difference = ", ".join(found)
    finally:
        if difference:
            for buffer, values in zip(buffers, kept, strict=True):
                buffer.index_copy_(0, rows, values)
    return expected, difference and f"{_describe(step.shape)} differs from the eager pass: {difference}"


def _compare_results(replayed: Tensor, expected: Tensor, logits: Sequence[Tensor], tolerance: float) -> list[str]:
    """Return the differences of results ``[2 to 4, N]`` (see ``StaticStep``); ``logits`` are those of the expected."""
    probs = float((replayed[:2].nan_to_num(2.0) - expected[:2].nan_to_num(2.0)).abs().max())
    pairs = zip(replayed[2:], expected[2:], logits, strict=True)
    num_tokens = sum(count_other_tokens(*pair, tolerance) for pair in pairs)
    return [
        *([f"probabilities by {probs:.1e}"] if probs > tolerance else []),
        *([f"{num_tokens} of {expected[2:].numel()} tokens"] if num_tokens else []),
    ]


def count_other_tokens(replayed: Tensor, expected: Tensor, logits: Tensor, tolerance: float) -> int:
    """Return how many replayed tokens ``[N]`` are neither those expected nor as likely, by their logits ``[N, V]``.

    The replay may add up in another order, so that the first of two tokens as likely changes.
    """
    is_token = (replayed >= 0) & (replayed < logits.shape[1])
    both = torch.stack([expected, torch.where(is_token, replayed, expected)], dim=1).long()
    wanted, found = logits[: len(both)].gather(1, both).unbind(1)
    is_close = is_token & (wanted - found <= tolerance * wanted.abs().clamp(min=1.0))
    return int(((replayed != expected) & ~is_close).sum())


def _difference(values: Tensor, wanted: Tensor) -> Tensor:
    """Return the largest difference as a share of the largest wanted number, at least of 1; inf if only one is nan."""
    is_same = (values == wanted) | (values.isnan() & wanted.isnan())
    difference = (values.float() - wanted.float()).abs().masked_fill(is_same, 0.0)
    scale = wanted.float().abs().nan_to_num(nan=0.0, posinf=0.0).amax().clamp(min=1.0)
    return difference.nan_to_num(nan=torch.inf).amax() / scale


def _describe(shape: BucketShape) -> str:
    return (
        f"the CUDA graph of {shape.num_tokens} tokens, {shape.num_slots} slots, {shape.query_len} queries and "
        f"{shape.context_len} keys"
    )


Capture = Callable[[StaticStep], Step]
_MAX_TOKENS = 4096
"""Padded tokens of a pass above which the device is busy enough without a graph."""
_CAPACITY_MULTIPLE = 64
"""Slot capacities are multiples of this, as attention kernels prefer."""
_CAPTURE_AT_USE = 2
"""A shape is captured at its second use; the first use initialises the libraries for it."""
_CHECKED_USES = (2, 3)
"""The first replay has the inputs of the capture. A value that the capture froze, such as a position, shows at the next
one."""


class CudaGraphCapture:
    """Captures steps as CUDA graphs that share their working memory: read a result before the next replay.

    **Source**: "CUDA Graphs" in PyTorch's notes on CUDA semantics.
    """

    def __init__(self) -> None:
        self._memory = torch.cuda.graph_pool_handle()

    def __call__(self, step: StaticStep) -> Step:
        """Run a step on a side stream, capture it, and return a function that replays it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(step.model.device):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            torch.cuda.current_stream().wait_stream(side)
            # thread_local: a different thread may be encoding frames, which must not break the capture
            with torch.cuda.graph(graph, pool=self._memory, stream=side, capture_error_mode="thread_local"):
                output = step()

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay


@dataclass(slots=True, kw_only=True)
class _StepEntry:
    """A step of one shape, its present eager or captured function, and its number of uses."""

    step: StaticStep
    run: Step
    num_uses: int = 0


class CudaGraphRunner:
    """A KV cache pool and the steps captured over it, for one run of streams at a time.

    ``num_slots`` streams run at once; ``capacity`` are the tokens of the longest context.
    """

    def __init__(self, graph_pool: "CudaGraphPool", *, num_slots: int, capacity: int) -> None:
        self.cache_pool = KVCachePool(graph_pool.model, num_slots=num_slots, capacity=capacity)
        self._graph_pool, self._capture = graph_pool, graph_pool.backend()
        self._steps: dict[tuple[BucketShape, ReadoutSpec], _StepEntry] = {}

    @torch.inference_mode()
    def run(
        self,
        inputs: Sequence[Inputs],
        caches: Sequence[KVCache],
        requests: Sequence[ForwardRequest],
        *,
        readout_spec: ReadoutSpec,
    ) -> list[ForwardResult] | None:
        """Run the passes of several streams as one, appending to their caches.

        Returns None, and changes nothing, if the pass must run eagerly.
        """
        slots = [cache for cache in caches if isinstance(cache, SlotKVCache)]
        if len(slots) < len(caches) or not self._graph_pool.is_enabled:
            return None
        model, has_branches = self._graph_pool.model, any(request.branches for request in requests)
        if has_branches and (readout_spec.answer_ids is None or readout_spec.scored_after is not None):
            return None
        streams = [
            list_tokens(model, pieces, slot, request.branches)
            for pieces, slot, request in zip(inputs, slots, requests, strict=True)
        ]
        lengths = [len(stream.ids) for stream in streams]
        needs_tokens = any(request.sample_positions for request in requests)
        needs_decisions = any(request.decision_positions for request in requests)
        if needs_decisions and not reads_decisions(model, readout_spec):
            return None
        if any(stream.start + len(stream.ids) > self.cache_pool.capacity for stream in streams):
            return None  # branches find no room behind the context
        shape = pick_bucket(
            lengths,
            slots,
            needs_tokens=needs_tokens,
            has_branches=has_branches,
            min_context=self._graph_pool.min_context,
            max_tokens=_MAX_TOKENS,
        )
        if shape is None:
            return None
        try:
            rows = self._run_step(shape, readout_spec, streams)
        except RuntimeError as error:
            self._graph_pool.failure = f"a pass could not be captured ({first_line(error)})"
            _warn(self._graph_pool.failure)
            return None
        results, start = [], 0
        for stream, request in zip(streams, requests, strict=True):
            stream.cache.advance(stream.num_kept, stream.ends)
            end = start + len(stream.ids)
            results.append(_split_result([row[start:end] for row in rows], request, stream.branch_ends))
            start = end
        return results

    def _run_step(
        self, shape: BucketShape, readout_spec: ReadoutSpec, streams: Sequence[StreamTokens]
    ) -> list[list[float]]:
        entry = self._steps.get((shape, readout_spec))
        if entry is None:
            pool = self._graph_pool
            step = StaticStep(pool.model, self.cache_pool, shape=shape, readout_spec=readout_spec, layers=pool.layers)
            entry = self._steps[shape, readout_spec] = _StepEntry(step=step, run=step)
        entry.num_uses += 1
        entry.step.fill(streams)
        if entry.num_uses == _CAPTURE_AT_USE:
            entry.run = self._capture(entry.step)
        if entry.num_uses not in _CHECKED_USES:
            rows: list[list[float]] = entry.run().tolist()
            return rows
        caches, lengths = [stream.cache for stream in streams], [len(stream.ids) for stream in streams]
        results, difference = run_checked(entry.step, entry.run, caches, lengths)
        if difference:
            CudaGraphPool.fault = difference
            _warn(difference)
        self._graph_pool.num_checked += not difference
        rows = results.tolist()
        return rows


def _split_result(
    rows: Sequence[Sequence[float]], request: ForwardRequest, branch_ends: Sequence[int]
) -> ForwardResult:
    """Return the requested positions of one stream's rows ``[2 to 4, L]``; see ``StaticStep``."""
    speak, update, *tokens = rows
    at_images = set(request.decision_positions)
    return ForwardResult(
        decisions=tuple(Decision(speak_prob=speak[at], update_prob=update[at]) for at in request.decision_positions),
        tokens=tuple(int(tokens[-1 if at in at_images else 0][at]) for at in request.sample_positions),
        answers=tuple(speak[at] for at in branch_ends),
    )


def has_nan(result: ForwardResult) -> bool:
    """Return whether a probability is nan. A mask does not hide nan in the cache from later tokens."""
    return any(map(isnan, (*result.answers, *(decision.speak_prob for decision in result.decisions))))


class CudaGraphPool:
    """Graph runners for one model, reused between runs.

    ``backend`` makes the function that captures the steps of one runner. ``min_context`` is the smallest context
    bucket, in tokens; larger buckets are its doubles. ``layers`` are by default merged, where they can be.
    """

    fault: ClassVar[str] = ""
    """How a replay differed from the eager step: graphs are then off for the process."""

    def __init__(
        self,
        model: VisionLanguageModel,
        *,
        backend: Callable[[], Capture] = CudaGraphCapture,
        min_context: int = 256,
        layers: Layers | None = None,
    ) -> None:
        self.model, self.backend, self.min_context = model, backend, min_context
        text = model.text_model
        own = layers or (MergedLayers(text) if MergedLayers.suits(text) else partial(forward_layers, text))
        self.layers: Layers = own
        self.failure = ""
        """Why a capture failed; graphs are then off for the model."""
        self.num_checked = 0
        """Replays that were compared with the eager step, and equal it."""
        self._idle: list[CudaGraphRunner] = []
        self._lock = threading.Lock()

    @property
    def is_enabled(self) -> bool:
        """Whether passes are captured and replayed."""
        return not (self.failure or self.fault)

    @property
    def state(self) -> str:
        """``checked``, or ``off`` and why; empty before the first check."""
        reason = self.fault or self.failure
        return f"off: {reason}" if reason else "checked" if self.num_checked else ""

    @contextmanager
    def acquire(self, config: StreamConfig, *, num_slots: int) -> Iterator[CudaGraphRunner | None]:
        """Provide a graph runner for at most ``num_slots`` streams at once; None if the run must be eager."""
        can_capture = self.is_enabled and not config.do_sample
        graph_runner = self._find(num_slots, config.max_seq_len) if can_capture else None
        try:
            yield graph_runner
        finally:
            if graph_runner is not None:
                with self._lock:
                    self._idle.append(graph_runner)

    def _find(self, num_slots: int, capacity: int) -> CudaGraphRunner | None:
        """Return an idle runner that is large enough, or a new one; smaller idle ones are freed first."""
        with self._lock:
            for graph_runner in self._idle:
                cache_pool = graph_runner.cache_pool
                if cache_pool.num_slots >= num_slots and cache_pool.capacity >= capacity:
                    self._idle.remove(graph_runner)
                    return graph_runner
            self._idle.clear()
        try:
            aligned = -(-capacity // _CAPACITY_MULTIPLE) * _CAPACITY_MULTIPLE
            return CudaGraphRunner(self, num_slots=num_slots, capacity=aligned)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            _warn(f"no room for the caches of {num_slots} streams ({first_line(error)})")
            return None


def _warn(reason: str) -> None:
    warnings.warn(f"streaming without CUDA graphs, and slower: {reason}", RuntimeWarning, stacklevel=3)


def describe_graphs(checkpoint: Checkpoint, config: StreamConfig) -> str:
    """Return whether streams of a checkpoint were replayed from CUDA graphs: ``checked``, or ``off`` and why.

    The text is empty on devices other than CUDA, and before the first check.
    """
    if checkpoint.model.device.type != "cuda" and checkpoint.graphs is None:
        return ""
    if config.do_sample:
        return "off: sampling"
    if checkpoint.graphs is not None:
        return checkpoint.graphs.state
    return f"off: {_explain_unavailable(checkpoint.model) or 'switched off'}"


def create_graph_pool(model: VisionLanguageModel, setting: GraphSetting = "auto") -> CudaGraphPool | None:
    """Return the graph pool of a model, or None if it streams without graphs.

    Raises:
        ValueError: An unknown setting, or ``on`` where graphs are not available.
    """
    if setting not in get_args(GraphSetting):
        raise ValueError(f"graphs must be one of {', '.join(get_args(GraphSetting))}; got {setting!r}")
    reason = _explain_unavailable(model)
    if not reason and setting != "off":
        return CudaGraphPool(model)
    if setting == "on":
        raise ValueError(f"graphs are on, but {reason}; set them to auto")
    return None


def _explain_unavailable(model: VisionLanguageModel) -> str:
    """Return why a model cannot use graphs; an empty text if it can."""
    if model.device.type != "cuda":
        return f"they need a CUDA device, and the model is on {model.device}"
    return "" if has_fixed_rotation(model.text_model) else "they need a fixed rotary embedding"
