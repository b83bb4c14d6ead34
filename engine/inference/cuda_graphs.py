"""Passes captured once for each shape and replayed: a CUDA graph makes no difference to a result, only to its time.

A checkpoint on a CUDA device has a ``GraphPool``. It lends each run of streams an arena for their caches and the steps
captured over it, and keeps both for the next. A pass waits for the device once: when what was read comes to the host.
What cannot be captured (sampling, a long pass, another text model) runs as it does without, on the same caches, and so
does everything once a capture has failed, with one warning.
"""

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan
from typing import Literal, get_args

import torch
from torch import Tensor

from engine.config import StreamConfig
from engine.control.policies import Decision
from engine.control.requests import Pass, Reading
from engine.inference.kv_pool import Arena, FixedCache
from engine.inference.static import Inputs, Reads, Shape, StaticStep, is_supported, shape_of
from engine.model.kv_cache import KVCache
from engine.model.smolvlm import StreamingModel

GraphSetting = Literal["auto", "on", "off"]
Step = Callable[[], Tensor]
Capture = Callable[[StaticStep], Step]
_MOST_TOKENS = 4096
"""Tokens of a pass, padding included, beyond which the device is busy enough without a graph."""
_ALIGNED = 64
"""Contexts end at a multiple of so many tokens, as attention's kernels like them."""
_CAPTURED_AT = 2
"""A shape is captured when it comes for the second time; the first run makes the libraries ready for it."""


class CudaGraphs:
    """Captures steps as CUDA graphs that share their working memory: what one gives is read before the next is run.

    **Source**: "CUDA Graphs" in PyTorch's notes on CUDA semantics.
    """

    def __init__(self) -> None:
        self._memory = torch.cuda.graph_pool_handle()

    def __call__(self, step: StaticStep) -> Step:
        """Run a step on a stream of its own, capture it, and return what replays it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(step.model.device):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            torch.cuda.current_stream().wait_stream(side)
            # only this thread's mistakes count: another may be encoding frames
            with torch.cuda.graph(graph, pool=self._memory, stream=side, capture_error_mode="thread_local"):
                output = step()

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay


@dataclass(slots=True, kw_only=True)
class _Known:
    """A step of one shape, how it is run by now, and how often it has been."""

    step: StaticStep
    run: Step
    uses: int = 0


class Graphs:
    """An arena and the steps captured over it, for one run of streams at a time.

    Args:
        pool: Whose it is.
        rows: Streams at once.
        capacity: Tokens of the longest context.
    """

    def __init__(self, pool: "GraphPool", *, rows: int, capacity: int) -> None:
        self.arena = Arena(pool.model, rows=rows, capacity=capacity)
        self._pool, self._capture = pool, pool.backend()
        self._known: dict[tuple[Shape, Reads], _Known] = {}

    @torch.inference_mode()
    def run(
        self, inputs: Sequence[Inputs], caches: Sequence[KVCache], requests: Sequence[Pass], *, reads: Reads
    ) -> list[Reading] | None:
        """Run the passes of several streams as one, after what their caches hold; None for what must run without.

        Nothing has changed then.
        """
        fixed = [cache for cache in caches if isinstance(cache, FixedCache)]
        is_readable = reads.policy == "heads" or reads.silent_id is not None
        if len(fixed) < len(caches) or not is_readable or not self._pool.is_on:
            return None
        lengths = [sum(1 if isinstance(piece, int) else len(piece) for piece in pieces) for pieces in inputs]
        picks = any(request.pick_at for request in requests)
        shape = shape_of(lengths, fixed, picks=picks, smallest=self._pool.smallest, most=_MOST_TOKENS)
        if shape is None:
            return None
        try:
            read = self._run(shape, reads, inputs, fixed)
        except RuntimeError as error:
            self._pool.is_on = False
            _warn(f"a pass could not be captured ({_first_line(error)})")
            return None
        ends = [sum(lengths[: number + 1]) for number in range(len(lengths))]
        readings = []
        for cache, length, end, request in zip(fixed, lengths, ends, requests, strict=True):
            cache.advance(length)
            speak, update, *tokens = (row[end - length : end] for row in read)
            decisions = tuple(Decision(speak_prob=speak[at], update_prob=update[at]) for at in request.decide_at)
            readings.append(Reading(decisions=decisions, tokens=tuple(int(tokens[0][at]) for at in request.pick_at)))
        return readings

    def _run(
        self, shape: Shape, reads: Reads, inputs: Sequence[Inputs], caches: Sequence[FixedCache]
    ) -> list[list[float]]:
        known = self._known.get((shape, reads))
        if known is None:
            step = StaticStep(self._pool.model, self.arena, shape=shape, reads=reads)
            known = self._known[shape, reads] = _Known(step=step, run=step)
        known.uses += 1
        known.step.fill(inputs, caches)
        if known.uses == _CAPTURED_AT:
            known.run = self._capture(known.step)
        read: list[list[float]] = known.run().tolist()
        return read


def has_nan(reading: Reading) -> bool:
    """Whether a stream has met nan, which a mask does not hide from what is read after it."""
    return any(isnan(decision.speak_prob) for decision in reading.decisions)


class GraphPool:
    """Lends graphs to the runs of one model.

    Args:
        model: The model.
        backend: Makes what captures the steps over one arena.
        smallest: Shortest context that is looked at; longer ones double, and each is a shape of its own.
    """

    def __init__(
        self, model: StreamingModel, *, backend: Callable[[], Capture] = CudaGraphs, smallest: int = 256
    ) -> None:
        self.model, self.backend, self.smallest = model, backend, smallest
        self.is_on = True
        """False from the first failed capture on."""
        self._idle: list[Graphs] = []
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, config: StreamConfig, *, rows: int) -> Iterator[Graphs | None]:
        """Lend graphs for a run of at most ``rows`` streams at once; None where they cannot be had."""
        graphs = None if config.do_sample or not self.is_on else self._find(rows, config.max_seq_len)
        try:
            yield graphs
        finally:
            if graphs is not None:
                with self._lock:
                    self._idle.append(graphs)

    def _find(self, rows: int, capacity: int) -> Graphs | None:
        """Take idle graphs that are large enough, or make some; smaller ones that lie idle are given up."""
        with self._lock:
            for graphs in self._idle:
                if graphs.arena.rows >= rows and graphs.arena.capacity >= capacity:
                    self._idle.remove(graphs)
                    return graphs
            self._idle.clear()
        try:
            return Graphs(self, rows=rows, capacity=-(-capacity // _ALIGNED) * _ALIGNED)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            _warn(f"there is no room for the caches of {rows} streams ({_first_line(error)})")
            return None


def _warn(reason: str) -> None:
    warnings.warn(f"streaming goes on without CUDA graphs, and slower: {reason}", RuntimeWarning, stacklevel=3)


def _first_line(error: RuntimeError) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def graph_pool(model: StreamingModel, setting: GraphSetting = "auto") -> GraphPool | None:
    """Return the pool of a model, or None where it streams without graphs.

    Raises:
        ValueError: Another setting, or ``on`` where graphs cannot be had.
    """
    if setting not in get_args(GraphSetting):
        raise ValueError(f"graphs must be one of {', '.join(get_args(GraphSetting))}; got {setting!r}")
    reason = None
    if model.device.type != "cuda":
        reason = f"they need a CUDA device, and the model is on {model.device}"
    elif not is_supported(model):
        reason = "they need a Llama text model whose positions turn alike at every length"
    if reason is None and setting != "off":
        return GraphPool(model)
    if setting == "on":
        raise ValueError(f"graphs are on, but {reason}; set them to auto")
    return None
