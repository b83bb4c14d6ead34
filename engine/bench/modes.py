"""Measures the streaming speed of each mode in one process, on the same frames.

The baseline is frame by frame: one frame and one token per pass. Only streaming is timed; frames are decoded and
encoded before. Each mode starts without caches or texts of earlier modes, and reports its number of model passes and
whether its results equal the baseline's. In bfloat16 and float16 the results are compared with float32 instead: the
table counts the decisions that differ, and how many of those are close to the threshold.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from stepscope.engine.config import StreamConfig
from stepscope.engine.decisions.policies import Signal
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.records import FrameOutput
from stepscope.engine.stream import Streamer, StreamRequest

Results = dict[str, list[FrameOutput]]
CLOSE_MARGIN = 0.01
"""A decision is close if the float32 probability is within this distance of the threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way to stream."""

    name: str
    config: StreamConfig
    rows: int = 1
    graphs: bool = False

    @property
    def is_live(self) -> bool:
        """Whether the mode streams one video, frame by frame."""
        return self.rows == self.config.lookahead == self.config.prefill_frames == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow:
    """Measurements of one mode."""

    mode: str
    frames: int
    frames_per_s: float
    ms_per_frame: float
    speedup: float
    """``frames_per_s`` divided by that of the first mode."""
    passes: int
    """Model passes; a pass of many videos counts once."""
    tokens: int
    acceptance_rate: float | None
    """Accepted draft tokens over all draft tokens; None without drafts."""
    step_p50_ms: float | None
    """Median time of a pass, in milliseconds, for live modes; None for batched modes."""
    step_p95_ms: float | None
    """95th percentile of the time of a pass; None as above."""
    is_equal: bool
    """Whether triggers, texts and states equal the reference: float32's, or the first mode's."""
    prob_difference: float
    """Maximum absolute difference of a probability from the reference's. It is unbounded after a differing decision."""
    decisions: int
    """Decisions compared: to speak and to update, at every frame."""
    differing: int
    """Decisions that differ. Each one changes the context of all later decisions."""
    near: int
    """Differing decisions whose reference probability is within ``CLOSE_MARGIN`` of the threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """The results of one mode in one round."""

    seconds: float
    streamer: Streamer
    results: Results
    step_ms: list[float]


def list_modes(config: StreamConfig, *, rows: int, graphs: bool = False) -> tuple[Mode, ...]:
    """Return the modes in table order: frame by frame first, then one optimisation more in each mode."""
    live = replace(config, lookahead=1, prefill_frames=1)
    plain = (
        Mode(name="frame by frame: K=1, batch 1, token by token", config=config.frame_by_frame()),
        Mode(name="look-ahead", config=replace(config, draft_tokens=0)),
        Mode(name="+ draft", config=config),
        Mode(name=f"+ batch of {rows}", config=config, rows=rows),
        Mode(name="live: frame by frame, draft", config=live),
    )
    return plain + tuple(replace(mode, name=f"{mode.name}, graphs", graphs=True) for mode in plain[2:] if graphs)


def stream_in_float32(
    checkpoint: Checkpoint, videos: Sequence[StreamRequest], config: StreamConfig, *, rows: int
) -> Results:
    """Return the outputs of a float32 checkpoint, the reference for bfloat16 and float16."""
    return _stream(checkpoint, videos, Mode(name="float32", config=config, rows=rows)).results


def measure(
    checkpoint: Checkpoint,
    videos: Sequence[StreamRequest],
    modes: Sequence[Mode],
    *,
    repeats: int = 1,
    warms_up: bool = True,
    reference: Results | None = None,
) -> Iterator[BenchRow]:
    """Stream the videos in each mode ``repeats`` times, and yield a row per mode with its best time.

    ``warms_up`` streams the first video once before, as the first pass of each shape is slow. Results are compared with
    ``reference``, or by default with those of the first mode.
    """
    for mode in modes if warms_up else ():
        _stream(checkpoint, videos[:1], mode)
    rounds = [[_stream(checkpoint, videos, mode) for mode in modes] for _ in range(repeats)]
    reference, first_rate = reference or rounds[0][0].results, 0.0
    for number, mode in enumerate(modes):
        best = min((turns[number] for turns in rounds), key=lambda turn: turn.seconds)
        results = rounds[0][number].results
        frames = sum(map(len, results.values()))
        first_rate = first_rate or frames / best.seconds
        counts = rounds[0][number].streamer.counts
        differing = _margins_of_differences(results, reference, mode.config)
        p50, p95 = np.percentile(best.step_ms, (50, 95)).tolist() if best.step_ms else (None, None)
        yield BenchRow(
            mode=mode.name,
            frames=frames,
            frames_per_s=frames / best.seconds,
            ms_per_frame=1000 * best.seconds / frames,
            speedup=frames / best.seconds / first_rate,
            passes=counts.passes,
            tokens=counts.tokens,
            acceptance_rate=counts.acceptance_rate if counts.drafted else None,
            step_p50_ms=p50,
            step_p95_ms=p95,
            is_equal=_decisions(results) == _decisions(reference),
            prob_difference=_prob_difference(results, reference),
            decisions=2 * frames,
            differing=len(differing),
            near=sum(distance <= CLOSE_MARGIN for distance in differing),
        )


def format_row(row: BenchRow) -> str:
    """Return a line of the table."""
    accepted = "-" if row.acceptance_rate is None else f"{row.acceptance_rate:.0%}"
    step = "-" if row.step_p50_ms is None else f"{row.step_p50_ms:.2f}/{row.step_p95_ms:.2f}"
    return (
        f"{row.mode:<42} {row.frames_per_s:9.1f} {row.ms_per_frame:9.3f} {row.speedup:7.1f}x {row.passes:7} "
        f"{row.tokens:7} {accepted:>9} {step:>13} {'yes' if row.is_equal else 'NO':>6} {row.prob_difference:9.1e} "
        f"{row.differing:6} {row.near:6}"
    )


HEADING = (
    f"{'mode':<42} {'frames/s':>9} {'ms/frame':>9} {'speedup':>8} {'passes':>7} {'tokens':>7} {'accepted':>9} "
    f"{'step p50/p95':>13} {'equal':>6} {'prob diff':>9} {'differ':>6} {'close':>6}"
)


def _stream(checkpoint: Checkpoint, videos: Sequence[StreamRequest], mode: Mode) -> _Round:
    streamer = Streamer(checkpoint if mode.graphs else replace(checkpoint, graphs=None), mode.config)
    results: Results = {video.video_id: [] for video in videos}
    step_ms: list[float] = []
    made, began = 0, time.perf_counter()
    for step in streamer.run_many(videos, max_batch_size=mode.rows):
        if step.error is not None:
            raise step.error
        if step.output is None:
            continue
        results[step.video_id].append(step.output)
        if mode.is_live and (passes := streamer.counts.passes - made):
            step_ms += [step.output.latency_ms / passes] * passes
            made += passes
    return _Round(seconds=time.perf_counter() - began, streamer=streamer, results=results, step_ms=step_ms)


def _margins_of_differences(results: Results, reference: Results, config: StreamConfig) -> list[float]:
    """Return, for each decision that differs, the distance of the reference probability from the threshold."""
    signals: tuple[Signal, ...] = ("speak", "update")
    distances = []
    for video_id, outputs in results.items():
        for signal in signals:
            now, before = (
                np.array([getattr(output, f"{signal}_prob") for output in of_mode])
                for of_mode in (outputs, reference[video_id])
            )
            threshold = config.threshold(signal)
            find = partial(config.policy.find_triggers, thresholds=threshold, signal=signal, fps=config.fps)
            distances += np.abs(before - threshold)[find(now) != find(before)].tolist()
    return distances


def _decisions(results: Results) -> list[tuple[object, ...]]:
    return [
        (video_id, output.response, output.updates, output.dst_state, output.cache_tokens, output.refreshed)
        for video_id, outputs in results.items()
        for output in outputs
    ]


def _prob_difference(results: Results, first: Results) -> float:
    pairs = [pair for video_id, outputs in results.items() for pair in zip(outputs, first[video_id], strict=True)]
    differences = [abs(a.speak_prob - b.speak_prob) for a, b in pairs] + [
        abs(a.update_prob - b.update_prob) for a, b in pairs
    ]
    return max(differences, default=0.0)
