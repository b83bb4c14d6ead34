"""CUDA graphs and static shapes give the outputs of eager streaming. Without a GPU the static steps run eagerly."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.config import StreamConfig
from engine.inference.cuda_graphs import Capture, CudaGraphPool, Step, create_graph_pool
from engine.inference.static import StaticStep
from engine.loading import load_model
from engine.model.checkpoint import Checkpoint
from engine.model.frame_encoder import FrameFeatures
from engine.records import FrameOutput
from engine.replay import Recording, Thresholds
from engine.streamer import Streamer, StreamRequest
from tests.engine.test_run_many import CASES, pick_thresholds, stream_many, video
from tests.engine.test_streamer import SHORT, TASK, decided, probs
from tests.support.fakes import random_frames, tiny_checkpoint
from tests.support.replays import run_with_drafts, sweep


def run_eagerly(step: StaticStep) -> Step:
    """Replace a capture by the step itself, over the same buffers."""
    return step


class CountingBackend:
    """A backend that counts captures and runs."""

    def __init__(self) -> None:
        self.captured, self.runs = list[StaticStep](), 0

    def __call__(self) -> Capture:
        return self.capture

    def capture(self, step: StaticStep) -> Step:
        self.captured.append(step)

        def run() -> torch.Tensor:
            self.runs += 1
            return step()

        return run


def with_graphs(checkpoint: Checkpoint, backend: Callable[[], Capture] = lambda: run_eagerly) -> Checkpoint:
    return replace(checkpoint, graphs=CudaGraphPool(checkpoint.model, backend=backend, min_context=64))


@pytest.fixture(scope="module", params=[0, 1])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny_checkpoint(tmp_path_factory.mktemp("tiny"), seed=request.param)


def assert_equal(outputs: list[FrameOutput], wanted: list[FrameOutput]) -> None:
    assert decided(outputs) == decided(wanted)
    assert torch.allclose(probs(outputs), probs(wanted), atol=1e-4)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(**CASES)
@pytest.mark.slow
def test_static_shapes_give_the_outputs_of_each_video_alone_frame_by_frame(
    checkpoint: Checkpoint,
    lengths: list[int],
    max_batch_size: int,
    lookahead: int,
    draft_tokens: int,
    share: float,
    max_seq_len: int,
) -> None:
    videos = [video(checkpoint, number, length) for number, length in enumerate(lengths)]
    limits = pick_thresholds(checkpoint, videos, share, **{**SHORT, "max_seq_len": max_seq_len})
    config = StreamConfig(lookahead=lookahead, draft_tokens=draft_tokens, **limits)
    together = stream_many(Streamer(with_graphs(checkpoint), config), videos, max_batch_size=max_batch_size)
    alone = Streamer(checkpoint, config.frame_by_frame())
    for one in videos:
        assert_equal(together[one.video_id], list(alone.run(one.features, one.task)))


def test_refreshes_user_turns_texts_and_growing_contexts_are_among_the_cases(checkpoint: Checkpoint) -> None:
    videos = [video(checkpoint, number, 45) for number in range(4)]
    config = StreamConfig(**pick_thresholds(checkpoint, videos, 0.1, **{**SHORT, "max_seq_len": 190}))
    backend = CountingBackend()
    streamer = Streamer(with_graphs(checkpoint, backend), config)
    outputs = [output for one in stream_many(streamer, videos, max_batch_size=3).values() for output in one]
    assert any(one.task.user_turns for one in videos)
    assert any(output.refreshed for output in outputs)
    assert any(len(output.updates) > 1 for output in outputs)
    assert any(output.response is not None for output in outputs)
    shapes = [step.shape for step in backend.captured]
    assert len({shape.context_len for shape in shapes}) > 1
    assert {shape.num_slots for shape in shapes} >= {3}
    assert any(shape.num_tokens < shape.num_slots * shape.query_len for shape in shapes)
    assert backend.runs > len(shapes)


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


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moves=st.lists(st.tuples(*[st.sampled_from([0.0, 0.03, 0.1, 0.3])] * 2), min_size=2, max_size=4),
    max_seq_len=st.sampled_from([180, 900]),
)
@pytest.mark.slow
def test_a_moved_threshold_gives_the_outputs_of_a_new_run(
    checkpoint: Checkpoint, moves: list[tuple[float, float]], max_seq_len: int
) -> None:
    frames = list(random_frames(checkpoint, 60))
    limits: dict[str, Any] = {**SHORT, "max_seq_len": max_seq_len}
    one = StreamRequest(video_id="", features=frames, task=TASK)
    points = [
        {
            "speak_threshold": pick_thresholds(checkpoint, [one], speak, **limits)["speak_threshold"],
            "update_threshold": pick_thresholds(checkpoint, [one], update, **limits)["update_threshold"],
        }
        for speak, update in moves
    ]
    graphed = with_graphs(checkpoint)
    recording = Recording(graphed, iter(frames), task=TASK, config=StreamConfig(**limits, **points[0]))
    list(recording.run())
    for point in points[1:]:
        config = StreamConfig(**limits, **point)
        wanted = list(Streamer(checkpoint, config.frame_by_frame()).run(frames, TASK))
        drafted = run_with_drafts(graphed, recording.outputs, frames, task=TASK, config=config)
        recording = recording.at(**point)
        assert_equal(list(recording.run()), wanted)
        assert_equal(list(drafted), wanted)


def test_a_sweep_gives_every_point(checkpoint: Checkpoint) -> None:
    frames = list(random_frames(checkpoint, 40))
    limits = pick_thresholds(checkpoint, [StreamRequest(video_id="", features=frames, task=TASK)], 0.1, **SHORT)
    points = [Thresholds(speak=speak, update=limits["update_threshold"]) for speak in (0.3, limits["speak_threshold"])]
    for entry in sweep(with_graphs(checkpoint), frames, points, task=TASK, config=StreamConfig(**limits)):
        config = StreamConfig(**{**limits, "speak_threshold": entry.thresholds.speak}).frame_by_frame()
        assert_equal(list(entry.outputs), list(Streamer(checkpoint, config).run(frames, TASK)))


@pytest.mark.parametrize("policy", ["silent-token", "not-talk"])
def test_a_silent_token_decides_as_without_graphs(checkpoint: Checkpoint, policy: Any) -> None:
    plain = replace(checkpoint, silent_id=7)
    config = StreamConfig(decision_policy=policy, speak_threshold=0.99, lookahead=3, **SHORT)
    wanted = list(Streamer(plain, config.frame_by_frame()).run(random_frames(checkpoint, 20), TASK))
    assert_equal(list(Streamer(with_graphs(plain), config).run(random_frames(checkpoint, 20), TASK)), wanted)
    with pytest.raises(ValueError, match="names its silent token"):
        list(Streamer(with_graphs(checkpoint), config).run(random_frames(checkpoint, 2), TASK))


def test_a_frame_has_several_tokens_without_pooling(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path, pooling="none")
    config = StreamConfig(**pick_thresholds(checkpoint, [video(checkpoint, 1, 40)], 0.15, **SHORT))
    wanted = list(Streamer(checkpoint, config.frame_by_frame()).run(random_frames(checkpoint, 40), TASK))
    assert_equal(list(Streamer(with_graphs(checkpoint), config).run(random_frames(checkpoint, 40), TASK)), wanted)


def test_a_frame_of_nan_spoils_only_its_own_context(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    # as if the model itself computed nan
    monkeypatch.setattr("engine.inference.runner._check_finite", lambda frames: None)
    videos = [video(checkpoint, number, num_frames) for number, num_frames in enumerate((90, 40, 40))]
    frames = list(videos[0].features)
    frames[20] = FrameFeatures(index=20, time_s=10.0, features=torch.full_like(frames[20].features, torch.nan))
    videos[0] = replace(videos[0], features=frames)
    config = StreamConfig(**pick_thresholds(checkpoint, videos[1:], 0.1, **{**SHORT, "max_seq_len": 190}))
    alone = Streamer(checkpoint, config.frame_by_frame())
    wanted = {one.video_id: list(alone.run(one.features, one.task)) for one in videos}
    assert any(output.refreshed for output in wanted["0"][21:])
    drafted = stream_many(Streamer(with_graphs(checkpoint), config), videos, max_batch_size=2)
    for one in videos[1:]:
        assert_equal(drafted[one.video_id], wanted[one.video_id])
    live = stream_many(Streamer(with_graphs(checkpoint), config.frame_by_frame()), videos, max_batch_size=2)
    for one in videos:
        assert decided(live[one.video_id]) == decided(wanted[one.video_id])
        assert torch.allclose(probs(live[one.video_id]), probs(wanted[one.video_id]), atol=1e-4, equal_nan=True)


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
    for _ in range(2):  # the second time all shapes are captured
        together = stream_many(streamer, videos, max_batch_size=max_batch_size)
        for one in videos:
            assert_equal(
                together[one.video_id], list(Streamer(plain, config.frame_by_frame()).run(one.features, one.task))
            )
    assert checkpoint.graphs is not None
    assert checkpoint.graphs.is_enabled


@pytest.mark.gpu
def test_a_replayed_pass_waits_for_the_device_once(tiny_folder: Path) -> None:
    checkpoint = load_model(tiny_folder, device="cuda", graphs="on")
    config = StreamConfig(speak_threshold=1, update_threshold=1, lookahead=1)
    device = checkpoint.model.device
    frames = [replace(frame, features=frame.features.to(device)) for frame in random_frames(checkpoint, 60)]
    for _ in range(2):  # then all shapes are captured
        list(Streamer(checkpoint, config).run(frames, TASK))
    outputs = Streamer(checkpoint, config).run(frames, TASK)
    next(outputs)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="synchroniz") as waits:
            thirty = list(islice(outputs, 30))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(waits) <= len(thirty)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, where it loads its compiler
def test_a_compiled_step_gives_the_same(checkpoint: Checkpoint) -> None:
    def compiled() -> Capture:
        return lambda step: torch.compile(step, dynamic=False)

    config = StreamConfig(**pick_thresholds(checkpoint, [video(checkpoint, 1, 40)], 0.1, **SHORT), lookahead=4)
    wanted = list(Streamer(checkpoint, config.frame_by_frame()).run(random_frames(checkpoint, 40), TASK))
    outputs = list(Streamer(with_graphs(checkpoint, compiled), config).run(random_frames(checkpoint, 40), TASK))
    assert_equal(outputs, wanted)
