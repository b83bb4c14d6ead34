"""How fast streaming is, in one process: the plan's loop, and what is added to it, on the same frames.

What is timed is streaming alone: frames are decoded and encoded before. Each mode begins anew, without caches or
sentences of another, and says how many model passes it made and whether it gave what the plan's loop gave.
"""

import json
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.checkpoint import Checkpoint
from engine.config import StreamConfig
from engine.control import Task
from engine.records import FrameOutput, Step, UserTurn
from engine.stream import Streamer, Video
from engine.video import read_frames
from engine.vision import encode

Results = dict[str, list[FrameOutput]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way to stream."""

    name: str
    """What it is called in the table."""
    config: StreamConfig
    """How it streams."""
    rows: int
    """Videos in one pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow:
    """What one mode took."""

    mode: str
    """The mode."""
    frames: int
    """Frames streamed."""
    frames_per_s: float
    """Frames per second."""
    ms_per_frame: float
    """Milliseconds per frame."""
    speedup: float
    """Frames per second over those of the first mode."""
    passes: int
    """Model passes; a pass of many videos counts once."""
    tokens: int
    """Tokens fed."""
    acceptance_rate: float | None
    """Share of the drafted tokens that was accepted; None when none was drafted."""
    is_equal: bool
    """Whether triggers, texts and states are those of the first mode."""
    prob_difference: float
    """Largest difference of a probability from the first mode's, at frames that both streamed alike."""


def read_videos(manifest: Path, checkpoint: Checkpoint, *, only: Container[str] | None = None) -> list[Video]:
    """Read a split's videos, or ``only`` some, decoded and encoded, with their tasks.

    Raises ``ValueError`` for another file.
    """
    try:
        records = json.loads(manifest.read_text(encoding="utf-8"))["videos"]
        chosen = [record for record in records if only is None or record["video_id"] in only]
        return [_video(record, manifest.parent, checkpoint) for record in chosen]
    except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{manifest} is not the manifest of a split: {error!r}") from error


def _video(record: dict[str, Any], folder: Path, checkpoint: Checkpoint) -> Video:
    task = Task(
        goal=record["goal"],
        steps=tuple(Step(**step) for step in record["steps"]),
        user_turns=tuple(
            UserTurn(time_s=turn["time_s"], text=turn["text"]) for turn in record["turns"] if turn["role"] == "user"
        ),
        initial_state=record.get("initial_state", {}),
    )
    frames = tuple(encode(checkpoint, read_frames(folder / record["video_path"], fps=record["fps"])))
    return Video(video_id=record["video_id"], frames=frames, task=task, fps=record["fps"])


def modes(config: StreamConfig, *, rows: int) -> tuple[Mode, ...]:
    """Return the modes in the order of the table: the plan's loop first, each further one with one thing more."""
    return (
        Mode(name="plan's loop: K=1, batch 1, token by token", config=config.one_by_one(), rows=1),
        Mode(name="look-ahead", config=replace(config, draft_tokens=0), rows=1),
        Mode(name="+ draft", config=config, rows=1),
        Mode(name=f"+ batch of {rows}", config=config, rows=rows),
    )


def measure(
    checkpoint: Checkpoint, videos: Sequence[Video], modes: Sequence[Mode], *, repeats: int = 1
) -> Iterator[BenchRow]:
    """Stream the videos in each mode, in turn, ``repeats`` times; yield the rows, with the best time of each mode."""
    for mode in modes:  # the first pass of a kind is slower than the others
        _stream(checkpoint, videos[:1], mode)
    rounds = [[_timed(checkpoint, videos, mode) for mode in modes] for _ in range(repeats)]
    first, first_rate = rounds[0][0][2], 0.0
    for number, mode in enumerate(modes):
        seconds = min(turns[number][0] for turns in rounds)
        _, streamer, results = rounds[0][number]
        frames = sum(map(len, results.values()))
        first_rate = first_rate or frames / seconds
        counts = streamer.counts
        yield BenchRow(
            mode=mode.name,
            frames=frames,
            frames_per_s=frames / seconds,
            ms_per_frame=1000 * seconds / frames,
            speedup=frames / seconds / first_rate,
            passes=counts.passes,
            tokens=counts.tokens,
            acceptance_rate=counts.acceptance_rate if counts.drafted else None,
            is_equal=_decided(results) == _decided(first),
            prob_difference=_prob_difference(results, first),
        )


def format_row(row: BenchRow) -> str:
    """Return a line of the table."""
    accepted = "-" if row.acceptance_rate is None else f"{row.acceptance_rate:.0%}"
    return (
        f"{row.mode:<42} {row.frames_per_s:9.1f} {row.ms_per_frame:9.3f} {row.speedup:7.1f}x {row.passes:7} "
        f"{row.tokens:7} {accepted:>9} {'yes' if row.is_equal else 'NO':>6} {row.prob_difference:9.1e}"
    )


HEADING = (
    f"{'mode':<42} {'frames/s':>9} {'ms/frame':>9} {'speedup':>8} {'passes':>7} {'tokens':>7} {'accepted':>9} "
    f"{'equal':>6} {'prob diff':>9}"
)


def to_json(rows: Sequence[BenchRow], **settings: object) -> str:
    """Return the table, and what it depends on, as one line of JSON."""
    return json.dumps({**settings, "modes": [asdict(row) for row in rows]})


def _stream(checkpoint: Checkpoint, videos: Sequence[Video], mode: Mode) -> tuple[Streamer, Results]:
    streamer = Streamer(checkpoint, mode.config)
    results: Results = {video.video_id: [] for video in videos}
    for step in streamer.run_many(videos, rows=mode.rows):
        if step.error is not None:
            raise step.error
        if step.output is not None:
            results[step.video_id].append(step.output)
    return streamer, results


def _timed(checkpoint: Checkpoint, videos: Sequence[Video], mode: Mode) -> tuple[float, Streamer, Results]:
    began = time.perf_counter()
    streamer, results = _stream(checkpoint, videos, mode)
    return time.perf_counter() - began, streamer, results


def _decided(results: Results) -> list[tuple[object, ...]]:
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
