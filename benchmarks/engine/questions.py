"""Four questions behind a frame, in one pass and one by one: ``python -m benchmarks.engine.questions``.

The bundled checkpoint, one thread, after 300 tokens of context. Both ways take turns, and the best time of each counts;
they give the same answers.
"""

import sys
import time
from collections.abc import Callable, Sequence

import torch

from stepscope.engine.cli.options import BUNDLED
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import Branch, ForwardRequest, FrameTimesRequest, Image
from stepscope.engine.inference.readout import make_readout_spec
from stepscope.engine.inference.runner import Runner
from stepscope.engine.loading import load_model
from stepscope.engine.model.features.frame_encoder import FrameFeatures

CONTEXT, NUM_QUESTIONS, ROUNDS = 300, 4, 15
Answers = list[float]


def main() -> None:
    """Print the ratio of both times, for questions of 8 and 20 tokens, frame by frame and under look-ahead."""
    torch.set_num_threads(1)
    checkpoint = load_model(BUNDLED, device="cpu")
    config = StreamConfig(decision_policy="answer")
    random = torch.Generator().manual_seed(0)
    frames = [
        FrameFeatures(index=n, time_s=n / 2, features=torch.randn(1, checkpoint.model.feature_dim, generator=random))
        for n in range(32)
    ]
    runner = Runner(checkpoint.model, config, features=frames, readout_spec=make_readout_spec(checkpoint, config))
    runner.fetch_frame_times(FrameTimesRequest(first=0, max_frames=len(frames)))
    prompt = tuple(torch.randint(10, 600, (CONTEXT,), generator=random).tolist())
    runner.forward(ForwardRequest(num_cached=0, inputs=prompt, frames=range(1)))
    sys.stdout.write("frames  question tokens  in one pass  one by one  ratio  a frame without  largest difference\n")
    for num_frames in (1, 32):
        for length in (8, 20):
            questions = [
                tuple(torch.randint(10, 600, (length,), generator=random).tolist()) for _ in range(NUM_QUESTIONS)
            ]
            _compare(runner, num_frames, questions)


def _compare(runner: Runner, num_frames: int, questions: Sequence[tuple[int, ...]]) -> None:
    together, apart = _ask_together(runner, num_frames, questions), _ask_apart(runner, num_frames, questions)
    difference = max(abs(a - b) for a, b in zip(together(), apart(), strict=True))
    without = _ask_together(runner, num_frames, ())
    rounds = [[_measure(call) for call in (together, apart, without)] for _ in range(ROUNDS)]
    one_ms, many_ms, bare_ms = (min(times) / num_frames for times in zip(*rounds, strict=True))
    sys.stdout.write(
        f"{num_frames:6}  {len(questions[0]):15}  {one_ms:8.2f} ms  {many_ms:7.2f} ms  {one_ms / many_ms:5.2f}  "
        f"{bare_ms:12.2f} ms  {difference:18.0e}\n"
    )


def _ask_together(runner: Runner, num_frames: int, questions: Sequence[tuple[int, ...]]) -> Callable[[], Answers]:
    """Return a call that feeds frames with all questions in one pass."""
    request = ForwardRequest(
        num_cached=CONTEXT,
        inputs=tuple(Image(frame_index=n) for n in range(num_frames)),
        frames=range(num_frames),
        branches=tuple(Branch(position=n, ids=ids) for n in range(num_frames) for ids in questions),
    )
    return lambda: list(runner.forward(request).answers)


def _ask_apart(runner: Runner, num_frames: int, questions: Sequence[tuple[int, ...]]) -> Callable[[], Answers]:
    """Return a call that feeds each frame, and then each question, which the next pass crops."""

    def ask() -> Answers:
        answers = Answers()
        for frame in range(num_frames):
            image, end = (Image(frame_index=frame),), CONTEXT + frame + 1
            runner.forward(ForwardRequest(num_cached=end - 1, inputs=image, frames=range(frame, frame + 1)))
            for ids in questions:
                request = ForwardRequest(
                    num_cached=end, inputs=ids, frames=range(frame, frame + 1), decision_positions=(len(ids) - 1,)
                )
                answers.append(runner.forward(request).decisions[0].speak_prob)
        return answers

    return ask


def _measure(call: Callable[[], Answers]) -> float:
    """Return the milliseconds of a call."""
    start_s = time.perf_counter()
    call()
    return (time.perf_counter() - start_s) * 1000


if __name__ == "__main__":
    main()
