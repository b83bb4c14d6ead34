"""A session of 15,000 frames with a fake clock: memory is flat, and nothing is dropped."""

import gc
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Semaphore

import numpy as np
import pytest
import torch

import stepscope.engine.live.session as session_module
from stepscope.engine.config import StreamConfig
from stepscope.engine.live.frames import make_gap
from stepscope.engine.live.output_log import OutputLog
from stepscope.engine.live.session import LiveOptions, LiveSession
from stepscope.engine.live.sources import Clock
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.records import FrameOutput, read_outputs
from tests.support.streams.live import LIMIT_S, PICTURE, FakeClock, ScriptedSource
from tests.support.streams.streams import SHORT, TASK

BURST = 64
"""Frames that may wait: they share a pass, which makes the test fast."""


def resident_mb() -> float:
    """Return the memory of this process, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.slow
def test_fifteen_thousand_frames_take_no_more_memory_than_five_thousand(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_frames, feature = 15_000, torch.zeros(1, checkpoint.model.tokens_per_frame, checkpoint.model.feature_dim)
    monkeypatch.setattr(session_module, "encode_images", lambda _, images: feature.expand(len(images), -1, -1))
    log, may_sample, memory = OutputLog(tmp_path / "live.jsonl"), Semaphore(BURST), dict[int, tuple[int, float]]()

    def script(clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        for _ in range(num_frames):
            assert may_sample.acquire(timeout=LIMIT_S)
            yield PICTURE
            clock.wait(stopped, 0.5)

    def add(output: FrameOutput) -> None:
        log.append(output)
        if output.frame_index in (5_000, num_frames - 1):
            gc.collect()
            memory[output.frame_index] = len(gc.get_objects()), resident_mb()
        may_sample.release()

    session = LiveSession(
        checkpoint,
        ScriptedSource(script, is_endless=False),
        task=TASK,
        config=StreamConfig(speak_threshold=1, update_threshold=1, **SHORT),
        options=LiveOptions(queue_frames=BURST),
        clock=FakeClock(),
        on_output=add,
    )
    session.start()
    assert session.ended.wait(600)
    session.stop()
    assert session.problem == ""
    assert (session.status.num_decided, session.status.num_dropped, len(log)) == (num_frames, 0, num_frames)
    (num_early, early_mb), (num_late, late_mb) = memory.values()
    assert num_late - num_early < 125, "Python objects"
    assert late_mb - early_mb < 5, "MB of the process"
    assert log[num_frames // 2].frame_index == num_frames // 2
    log.close()


def make_output(index: int) -> FrameOutput:
    gap = make_gap(index, fps=2, before=None, initial={"S1": "not_started"})
    return replace(gap, speak_prob=index % 7 / 7, update_prob=0.25, latency_ms=1.5, response=f"é {index}" * (index % 3))


def test_a_log_returns_every_slice_of_a_list(tmp_path: Path) -> None:
    outputs = [make_output(index) for index in range(700)]
    log = OutputLog(tmp_path / "run.jsonl", num_kept=50)
    for output in outputs:
        log.append(output)
    for first, end in [(0, 700), (0, 3), (255, 258), (640, 660), (649, 651), (690, 700), (10, 10), (700, 900)]:
        assert log[first:end] == outputs[first:end]
    assert (log[0], log[-1], log[300], len(log)) == (outputs[0], outputs[-1], outputs[300], 700)
    log.close()
    assert log[:300] == outputs[:300]
    assert list(read_outputs(log.path)) == outputs


def test_a_log_refuses_what_it_does_not_have(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "run.jsonl")
    log.append(make_output(0))
    with pytest.raises(IndexError):
        log[1]
    with pytest.raises(ValueError, match="steps of 1"):
        log[::2]
    log.close()


def test_an_instant_that_the_model_did_not_see_keeps_the_state() -> None:
    before = replace(make_output(3), dst_state={"S1": "completed"}, cache_tokens=9)
    gap = make_gap(4, fps=2, before=before, initial={"S1": "not_started"})
    assert (gap.time_s, gap.dst_state, gap.cache_tokens, gap.response) == (2.0, {"S1": "completed"}, 9, None)
    assert math.isnan(gap.speak_prob)
    assert math.isnan(gap.latency_ms)
