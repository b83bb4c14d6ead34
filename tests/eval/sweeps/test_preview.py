"""The preview of a sweep counts as ``eval.metrics.decisions`` does."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.engine.decisions.policies import POLICIES, DecisionPolicy
from stepscope.eval.data.loading import read_split
from stepscope.eval.metrics.counts import Pool
from stepscope.eval.metrics.decisions import count_decisions
from stepscope.eval.metrics.score import VideoCounts, analyze_video, score_counts
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.sweeps.grid import Grid
from stepscope.eval.sweeps.preview import (
    PREVIEW_METRICS,
    SignalTrace,
    count_thresholds,
    preview,
    read_traces,
)
from tests.support.data.batches import write_split
from tests.support.streams.fakes import count_letters

NUM_VIDEOS = 2


@settings(max_examples=30)
@given(
    probs=st.lists(st.integers(0, 10), min_size=1, max_size=40),
    expected=st.sets(st.integers(0, 39), max_size=12),
    fps=st.sampled_from([0.5, 1.0, 2.0, 3.0]),
    policy=st.sampled_from([POLICIES["heads"], POLICIES["not-talk"]]),
)
def test_the_preview_counts_what_the_decisions_count(
    probs: list[int], expected: set[int], fps: float, policy: DecisionPolicy
) -> None:
    frames = sorted(frame for frame in expected if frame < len(probs))
    trace = SignalTrace(values=np.array(probs) / 10, expected_frames=np.array(frames, dtype=np.intp), fps=fps)
    thresholds = [number / 10 for number in range(11)]
    for threshold, counts in zip(thresholds, count_thresholds([trace], thresholds, policy=policy), strict=True):
        does = [prob / 10 >= threshold if policy.name == "not-talk" else prob / 10 > threshold for prob in probs]
        wanted = count_decisions([prob / 10 for prob in probs], does, expected_frames=frames, fps=fps)
        for name in ("num_hits", "num_false_alarms", "num_misses", "num_rejections", "num_pairs"):
            assert getattr(counts, name) == getattr(wanted, name)


def test_at_the_thresholds_of_the_run_the_preview_scores_as_the_run(split: Path, run: Path) -> None:
    grid = Grid(speak=(0.2, 0.5), update=(0.5, 0.8))
    point = preview(read_traces(run, read_split(split)), grid).points[1]
    assert list(grid.pairs())[1] == (0.5, 0.5)
    samples = read_split(split).samples
    rows = [analyze_video(s, RunFolder(run).outputs(s), encode=count_letters).counts for s in samples]
    wanted = score_counts(Pool(rows, VideoCounts).total())
    assert point == pytest.approx({name: wanted[name] for name in PREVIEW_METRICS}, nan_ok=True)


def test_the_preview_of_a_run_that_lacks_a_video_names_it(split: Path, run: Path, tmp_path: Path) -> None:
    videos = json.loads(split.read_text(encoding="utf-8"))["videos"]
    more = write_split(tmp_path, *videos, {**videos[0], "video_id": "other"}, {"video_id": 5})
    traces = read_traces(run, read_split(more))
    assert list(traces.errors) == ["other", "video number 3"]
    assert preview(traces, Grid(speak=(0.5,), update=(0.5,))).num_videos == NUM_VIDEOS
