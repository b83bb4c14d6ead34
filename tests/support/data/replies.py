"""Scores of a sample with reply spans, whose replies have fixed grades."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.matching.grading import Reply
from stepscope.eval.metrics.score import analyze_video, score_counts
from tests.support.data.records import make_output
from tests.support.data.strategies import BOAT

GRADES = {"half": 1, "right": 2, "half right": 2, "wrong": 0, "right wrong": 0, "right half": 1, "gold": 2}


def grade(replies: Sequence[Reply]) -> list[int]:
    """Grade by a fixed list."""
    return [GRADES.get(reply.text, 0) for reply in replies]


def spans(*ends: tuple[float, float], related_end_s: float | None = None) -> Sample:
    """Return a sample of 60 s at 1 fps with a reply span for each start and end."""
    turns = [
        Turn(time_s=start, role="assistant", text="gold", end_s=end, related_end_s=related_end_s) for start, end in ends
    ]
    return replace(BOAT, fps=1.0, num_frames=60, turns=tuple(turns))


def scores(sample: Sample, *replies: tuple[float, str]) -> dict[str, float]:
    """Score timed replies on a sample; each is the response of a frame at its time."""
    outputs = [
        make_output(
            index,
            fps=sample.fps,
            speak_prob=0.5,
            update_prob=0.5,
            response=dict(replies).get(index / sample.fps),
            dst_state={step.id: "not_started" for step in sample.steps},
        )
        for index in range(sample.num_frames)
    ]
    return score_counts(analyze_video(sample, outputs, encode=one_hot, grade=grade).counts)


def one_hot(texts: list[str]) -> np.ndarray:
    """Encode a text as itself: equal texts have cosine 1, others 0."""
    words = ["gold", *GRADES]
    return np.array([[float(text == word) for word in words] for text in texts])
