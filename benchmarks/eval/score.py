"""Time of scoring a split of synthetic videos: ``python -m benchmarks.eval.score``.

A video has 600 frames at 2 per second and 6 steps. Reference and prediction have 12 updates and 20 responses each; some
predictions are late or wrong. Texts are encoded by a table of random vectors, so that the encoder is not measured.
"""

import sys
import time
from collections.abc import Iterator

import numpy as np

from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.metrics.counts import NUM_RESAMPLES
from stepscope.eval.metrics.score import VideoAnalysis, analyze_video, count_texts
from stepscope.eval.metrics.text import TextScorer
from stepscope.eval.reports.scoring import make_report

NUM_FRAMES = 600
STEPS = tuple(Step(id=f"S{number}", name=f"attach part {number}") for number in range(1, 7))
SENTENCES = tuple(f"Good. Now attach part {number} with care." for number in range(1, 30))
VECTORS = dict(zip(SENTENCES, np.random.default_rng(1).standard_normal((29, 384)), strict=True))


def encode(texts: list[str]) -> np.ndarray:
    """Return the vectors of texts, ``[N, 384]``."""
    return np.array([VECTORS[text] for text in texts])


def make_video(seed: int) -> tuple[Sample, list[FrameOutput]]:
    """Generate a reference and a run that is mostly right."""
    random = np.random.default_rng(seed)
    update_frames = np.sort(random.choice(NUM_FRAMES - 10, 12, replace=False))
    updates = [f"S{index // 2 + 1}->{('start', 'complete')[index % 2]}" for index in range(12)]
    spoken_frames = np.sort(random.choice(NUM_FRAMES - 10, 20, replace=False))
    spoken = [SENTENCES[index] for index in random.integers(len(SENTENCES), size=20)]
    turns = [
        Turn(time_s=frame / 2, role="update", text=text) for frame, text in zip(update_frames, updates, strict=True)
    ]
    turns += [
        Turn(time_s=frame / 2, role="assistant", text=text) for frame, text in zip(spoken_frames, spoken, strict=True)
    ]
    sample = Sample(
        video_id=f"video-{seed}",
        fps=2.0,
        num_frames=NUM_FRAMES,
        goal="build the thing",
        steps=STEPS,
        turns=tuple(sorted(turns, key=lambda turn: turn.time_s)),
    )
    written = {int(f + random.integers(0, 3)): text for f, text in zip(update_frames, updates, strict=True)}
    responses = {
        int(f + random.integers(0, 4)): text if random.random() < 0.8 else SENTENCES[0]
        for f, text in zip(spoken_frames, spoken, strict=True)
    }
    return sample, list(_outputs(written, responses, random))


def _outputs(written: dict[int, str], responses: dict[int, str], random: np.random.Generator) -> Iterator[FrameOutput]:
    state = initial_state(STEPS, {})
    for frame in range(NUM_FRAMES):
        if frame in written:
            state = dict(apply_update(state, written[frame]).state)
        yield FrameOutput(
            frame_index=frame,
            time_s=frame / 2,
            speak_prob=float(random.beta(5, 2) if frame in responses else random.beta(1, 9)),
            update_prob=float(random.beta(5, 2) if frame in written else random.beta(1, 9)),
            response=responses.get(frame),
            updates=(written[frame],) if frame in written else (),
            dst_state=state,
            cache_tokens=frame,
            refreshed=False,
            latency_ms=float(random.gamma(2, 5)),
        )


def measure(num_videos: int) -> str:
    """Score ``num_videos`` videos; return one line of figures."""
    videos = [make_video(seed) for seed in range(num_videos)]
    times = [time.perf_counter()]
    scored: list[VideoAnalysis] = [analyze_video(sample, outputs, encode=encode) for sample, outputs in videos]
    times.append(time.perf_counter())
    with TextScorer() as scorer:
        scorer.score(["start"], ["METEOR"])  # excludes METEOR's start from the time of the texts
        times.append(time.perf_counter())
        rows = count_texts(scored, scorer)
        times.append(time.perf_counter())
        make_report(rows, score_texts=scorer.summarize)
        times.append(time.perf_counter())
    counting, start, texts, report = np.diff(times)
    return (
        f"{num_videos:5} videos: {num_videos / counting:.0f} counted a second, {counting:.1f} s; texts {texts:.1f} s; "
        f"{NUM_RESAMPLES} resamples {report:.1f} s; all {num_videos / (counting + texts + report):.1f} a second "
        f"(and {start:.1f} s for METEOR's start)\n"
    )


if __name__ == "__main__":
    for count in (200, 500, 1000, 2000):
        sys.stdout.write(measure(count))
        sys.stdout.flush()
