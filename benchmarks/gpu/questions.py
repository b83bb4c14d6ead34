"""Four questions behind a frame, in one pass and one by one.

``python -m benchmarks.gpu.questions`` times the bundled checkpoint on one thread of a CPU, after 300 tokens of context;
as a part of the benchmark it is a random model of a published shape. The ways take turns, the best time of each counts.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from benchmarks.gpu.settings import ROOT, Figure, Figures, Settings
from benchmarks.random_model import build_random_workload
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import Branch, ForwardRequest, ForwardResult, FrameTimesRequest, Image
from stepscope.engine.inference.cuda_graphs import CudaGraphRunner
from stepscope.engine.inference.readout import make_readout_spec
from stepscope.engine.inference.runner import Runner, forward_batch
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint

_CONTEXT: Final = 300
_NUM_QUESTIONS: Final = 4
_ROUNDS: Final = 15
_MAX_FRAMES: Final = 32
Answers = list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """Milliseconds of ``num_frames`` frames: with all questions in a pass, one by one, and with none."""

    num_frames: int
    length: int
    together_ms: float
    apart_ms: float
    bare_ms: float
    difference: float
    """The largest one between the probabilities of both ways."""


class _GraphedRunner(Runner):
    """Replays its passes from CUDA graphs, where there are some."""

    graphs: CudaGraphRunner | None = None

    def forward(self, request: ForwardRequest) -> ForwardResult:
        return forward_batch([self], [self.gather_inputs(request.inputs)], [request], graph_runner=self.graphs)[0]


def run(settings: Settings) -> Figures:
    """Yield how many times as long as without questions a pass takes, and the share of asking one by one."""
    checkpoint = settings.load("Qwen2.5-VL-3B")
    for times in _measure(checkpoint, (1,), rounds=1 if settings.is_tiny else _ROUNDS):
        yield Figure(
            name=f"frame with {_NUM_QUESTIONS} questions of {times.length} tokens over a frame without",
            value=times.together_ms / times.bare_ms,
            goal="" if settings.is_tiny else "at most 1.2",
            note=f"{times.together_ms:.2f} ms, {times.together_ms / times.apart_ms:.2f} of asking one by one",
        )


def main() -> None:
    """Print the times of the bundled checkpoint, frame by frame and under look-ahead."""
    torch.set_num_threads(1)
    sys.stdout.write("frames  question tokens  in one pass  one by one  ratio  a frame without  largest difference\n")
    for times in _measure(load_model(ROOT / "assets" / "checkpoint", device="cpu"), (1, _MAX_FRAMES), rounds=_ROUNDS):
        sys.stdout.write(
            f"{times.num_frames:6}  {times.length:15}  {times.together_ms / times.num_frames:8.2f} ms  "
            f"{times.apart_ms / times.num_frames:7.2f} ms  {times.together_ms / times.apart_ms:5.2f}  "
            f"{times.bare_ms / times.num_frames:12.2f} ms  {times.difference:18.0e}\n"
        )


def _measure(checkpoint: Checkpoint, counts: Sequence[int], *, rounds: int) -> list[_Times]:
    """Time questions of 8 and of 20 tokens behind numbers of frames."""
    config = StreamConfig(decision_policy="answer")
    video = build_random_workload(checkpoint, num_videos=1, num_frames=_MAX_FRAMES).videos[0]
    frames = list(video.features)
    pool, graphs = checkpoint.graphs, None
    if pool is not None:
        graphs = CudaGraphRunner(pool, num_slots=1, capacity=config.max_seq_len)
    runner = _GraphedRunner(
        checkpoint.model,
        config,
        features=frames,
        readout_spec=make_readout_spec(checkpoint, config),
        cache=graphs.cache_pool.acquire() if graphs else None,
    )
    runner.graphs = graphs
    runner.fetch_frame_times(FrameTimesRequest(first=0, max_frames=len(frames)))
    random = torch.Generator().manual_seed(0)
    prompt = tuple(torch.randint(10, 600, (_CONTEXT,), generator=random).tolist())
    runner.forward(ForwardRequest(num_cached=0, inputs=prompt, frames=range(1)))
    size = checkpoint.model.count_tokens(frames[0].features)
    measured = []
    for num_frames in counts:
        for length in (8, 20):
            questions = [
                tuple(torch.randint(10, 600, (length,), generator=random).tolist()) for _ in range(_NUM_QUESTIONS)
            ]
            ways = (
                _ask_together(runner, num_frames, questions, size),
                _ask_apart(runner, num_frames, questions, size),
                _ask_together(runner, num_frames, (), size),
            )
            difference = max(abs(a - b) for a, b in zip(ways[0](), ways[1](), strict=True))
            times_ms = [[_time_ms(way) for way in ways] for _ in range(rounds)]
            together_ms, apart_ms, bare_ms = (min(times) for times in zip(*times_ms, strict=True))
            measured.append(
                _Times(
                    num_frames=num_frames,
                    length=length,
                    together_ms=together_ms,
                    apart_ms=apart_ms,
                    bare_ms=bare_ms,
                    difference=difference,
                )
            )
    return measured


def _ask_together(
    runner: Runner, num_frames: int, questions: Sequence[tuple[int, ...]], size: int
) -> Callable[[], Answers]:
    """Return a call that feeds frames of ``size`` tokens with all questions in one pass."""
    request = ForwardRequest(
        num_cached=_CONTEXT,
        inputs=tuple(Image(frame_index=n) for n in range(num_frames)),
        frames=range(num_frames),
        branches=tuple(Branch(position=(n + 1) * size - 1, ids=ids) for n in range(num_frames) for ids in questions),
    )
    return lambda: list(runner.forward(request).answers)


def _ask_apart(
    runner: Runner, num_frames: int, questions: Sequence[tuple[int, ...]], size: int
) -> Callable[[], Answers]:
    """Return a call that feeds each such frame, and then each question, which the next pass crops."""

    def ask() -> Answers:
        answers = Answers()
        for frame in range(num_frames):
            image, start = (Image(frame_index=frame),), _CONTEXT + frame * size
            runner.forward(ForwardRequest(num_cached=start, inputs=image, frames=range(frame, frame + 1)))
            for ids in questions:
                request = ForwardRequest(
                    num_cached=start + size,
                    inputs=ids,
                    frames=range(frame, frame + 1),
                    decision_positions=(len(ids) - 1,),
                )
                answers.append(runner.forward(request).decisions[0].speak_prob)
        return answers

    return ask


def _time_ms(call: Callable[[], Answers]) -> float:
    """Return the milliseconds of a call; its answers are on the host."""
    start_s = time.perf_counter()
    call()
    return (time.perf_counter() - start_s) * 1000


if __name__ == "__main__":
    main()
