"""Captured graphs are shared between runs, and give the outputs of eager streaming also where they fail."""

import warnings
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.inference.cuda_graphs import Capture, Step, create_graph_pool
from stepscope.engine.inference.static import StaticStep
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.streamer import Streamer
from tests.support.streams.batches import pick_thresholds, stream_many, video
from tests.support.streams.fakes import random_frames
from tests.support.streams.graphs import CountingBackend, with_graphs
from tests.support.streams.streams import SHORT, TASK, assert_equal, decided


def test_a_shape_is_captured_once_and_serves_the_next_run(checkpoint: Checkpoint) -> None:
    backend = CountingBackend()
    graphed = with_graphs(checkpoint, backend)
    config = StreamConfig(speak_threshold=1, update_threshold=1, lookahead=4)
    wanted = list(Streamer(checkpoint, config).run(random_frames(checkpoint, 90), TASK))
    for _ in range(3):
        assert_equal(list(Streamer(graphed, config).run(random_frames(checkpoint, 90), TASK)), wanted)
    assert len({step.shape for step in backend.captured}) == len(backend.captured)
    assert len({step.pool for step in backend.captured}) == 1


def test_two_runs_at_once_share_no_slot(checkpoint: Checkpoint) -> None:
    graphed = with_graphs(checkpoint)
    config = StreamConfig(**pick_thresholds(checkpoint, [video(checkpoint, 1, 30)], 0.2, **SHORT))
    videos = [video(checkpoint, number, 30) for number in range(2)]
    runs = [Streamer(graphed, config).run(one.features, one.task) for one in videos]
    together = [list(outputs) for outputs in zip(*zip(*runs, strict=True), strict=True)]
    for outputs, one in zip(together, videos, strict=True):
        assert_equal(outputs, list(Streamer(checkpoint, config.frame_by_frame()).run(one.features, one.task)))


@pytest.mark.parametrize("num_good", [0, 2])
def test_a_failed_capture_warns_once_and_changes_nothing(checkpoint: Checkpoint, num_good: int) -> None:
    captured: list[StaticStep] = []

    def fail(step: StaticStep) -> Step:
        captured.append(step)
        if len(captured) > num_good:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        return step

    videos = [video(checkpoint, number, 30) for number in range(3)]
    config = StreamConfig(**pick_thresholds(checkpoint, videos, 0.1, **SHORT))
    streamer = Streamer(with_graphs(checkpoint, lambda: fail), config)
    message = r"without CUDA graphs.*\(operation not permitted when.*capturing\)$"
    with pytest.warns(RuntimeWarning, match=message) as caught:
        together = stream_many(streamer, videos, max_batch_size=2)
    again = stream_many(streamer, videos, max_batch_size=2)
    assert len(caught) == 1
    assert len(captured) == num_good + 1
    for one in videos:
        wanted = list(Streamer(checkpoint, config.frame_by_frame()).run(one.features, one.task))
        assert_equal(together[one.video_id], wanted)
        assert_equal(again[one.video_id], wanted)


def test_streaming_continues_with_a_warning_without_memory_for_the_caches(checkpoint: Checkpoint) -> None:
    def no_room() -> Capture:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 26 GiB")

    config = StreamConfig(speak_threshold=1, update_threshold=1)
    frames = list(random_frames(checkpoint, 5))
    with pytest.warns(RuntimeWarning, match="no room for the caches of 1 streams"):
        outputs = list(Streamer(with_graphs(checkpoint, no_room), config).run(frames, TASK))
    assert_equal(outputs, list(Streamer(checkpoint, config).run(frames, TASK)))


def test_sampling_runs_without_graphs(checkpoint: Checkpoint) -> None:
    backend = CountingBackend()
    config = StreamConfig(speak_threshold=0, update_threshold=1, do_sample=True, seed=4, **SHORT)
    outputs = list(Streamer(with_graphs(checkpoint, backend), config).run(random_frames(checkpoint, 6), TASK))
    assert decided(outputs) == decided(list(Streamer(checkpoint, config).run(random_frames(checkpoint, 6), TASK)))
    assert not backend.captured


def test_graphs_without_a_gpu_are_refused_if_on_and_otherwise_left_out(tiny_folder: Path) -> None:
    assert load_model(tiny_folder, device="cpu").graphs is None
    assert load_model(tiny_folder, device="cpu", graphs="off").graphs is None
    with pytest.raises(ValueError, match="graphs are on, but they need a CUDA device, and the model is on cpu"):
        load_model(tiny_folder, device="cpu", graphs="on")
    with pytest.raises(ValueError, match="must be one of auto, on, off; got 'yes'"):
        create_graph_pool(load_model(tiny_folder, device="cpu").model, "yes")  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.parametrize("max_batch_size", [1, 3])
def test_captured_graphs_give_the_outputs_of_frame_by_frame(tiny_folder: Path, max_batch_size: int) -> None:
    checkpoint = load_model(tiny_folder, device="cuda", dtype="float32", graphs="on")
    plain = replace(checkpoint, graphs=None)
    videos = [video(plain, number, 90) for number in range(5)]
    config = StreamConfig(**pick_thresholds(plain, videos, 0.1, **SHORT))
    streamer = Streamer(checkpoint, config)
    for _ in range(3):  # the second time all shapes are captured, the third time replays are not checked
        together = stream_many(streamer, videos, max_batch_size=max_batch_size)
        for one in videos:
            assert_equal(
                together[one.video_id], list(Streamer(plain, config.frame_by_frame()).run(one.features, one.task))
            )
    assert checkpoint.graphs is not None
    assert checkpoint.graphs.state == "checked"


@pytest.mark.gpu
def test_a_replayed_pass_waits_for_the_device_twice(tiny_folder: Path) -> None:
    checkpoint = load_model(tiny_folder, device="cuda", graphs="on")
    config = StreamConfig(speak_threshold=1, update_threshold=1, lookahead=1)
    device = checkpoint.model.device
    frames = [replace(frame, features=frame.features.to(device)) for frame in random_frames(checkpoint, 60)]
    for _ in range(3):  # then all shapes are captured and checked
        list(Streamer(checkpoint, config).run(frames, TASK))
    outputs = Streamer(checkpoint, config).run(frames, TASK)
    next(outputs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        thirty = list(islice(outputs, 30))
        torch.cuda.set_sync_debug_mode("default")
    waits = [one for one in caught if "called a synchronizing" in str(one.message)]
    assert 0 < len(waits) <= 2 * len(thirty)  # whether the frame is finite, and the results
