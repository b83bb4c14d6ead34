"""Captured graphs are shared between runs, and give the outputs of eager streaming also where they fail or differ."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
import torch
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.inference.cuda_graphs import Capture, CudaGraphPool, Step, count_other_tokens, describe_graphs
from stepscope.engine.inference.static import StaticStep
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.stream import Streamer
from tests.support.streams.batches import pick_thresholds, stream_many, video
from tests.support.streams.fakes import random_frames
from tests.support.streams.graphs import CountingBackend, with_graphs
from tests.support.streams.streams import SHORT, TASK, assert_equal


@pytest.fixture(autouse=True)
def _other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo a difference at the end of the test, as a new process would."""
    monkeypatch.setattr(CudaGraphPool, "fault", "")


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


def test_a_failed_capture_warns_once_and_changes_nothing(checkpoint: Checkpoint) -> None:
    captured: list[StaticStep] = []

    def fail(step: StaticStep) -> Step:
        captured.append(step)
        if len(captured) > 2:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        return step

    videos = [video(checkpoint, number, 20) for number in range(3)]
    config = StreamConfig(**pick_thresholds(checkpoint, videos, 0.1, **SHORT))
    streamer = Streamer(with_graphs(checkpoint, lambda: fail), config)
    message = r"without CUDA graphs.*\(operation not permitted when.*capturing\)$"
    with pytest.warns(RuntimeWarning, match=message) as caught:
        together = stream_many(streamer, videos, max_batch_size=2)
    assert len(caught) == 1
    assert len(captured) == 3
    for one in videos:
        wanted = list(Streamer(checkpoint, config.frame_by_frame()).run(one.features, one.task))
        assert_equal(together[one.video_id], wanted)


def test_graphs_without_a_gpu_are_refused_if_on_and_otherwise_left_out(tiny_folder: Path) -> None:
    assert load_model(tiny_folder, device="cpu").graphs is None
    with pytest.raises(ValueError, match="graphs are on, but they need a CUDA device, and the model is on cpu"):
        load_model(tiny_folder, device="cpu", graphs="on")


def change_probabilities(step: StaticStep) -> Step:
    def replay() -> Tensor:
        results = step()
        results[0] = 1 - results[0]
        return results

    return replay


def change_values(step: StaticStep) -> Step:
    def replay() -> Tensor:
        results = step()
        step.pool.values[-1].mul_(1.01)  # those of earlier passes, too
        return results

    return replay


def freeze_inputs(step: StaticStep) -> Step:
    """Replay the inputs of the capture, so that only the second replay differs."""
    inputs = step._indexes.clone()

    def replay() -> Tensor:
        step._indexes.copy_(inputs)
        return step()

    return replay


LIES: dict[str, tuple[Capture, str]] = {
    "probabilities": (change_probabilities, r"differs from the eager pass: probabilities by \d\.\de-\d\d$"),
    "values": (change_values, r"differs from the eager pass: cached keys and values by \d\.\de-\d\d$"),
    "frozen inputs": (freeze_inputs, r"differs from the eager pass: .*cached keys and values by inf$"),
}


@pytest.mark.parametrize(("name", "max_batch_size"), [*zip(LIES, cycle((1, 3)), strict=False)])
def test_a_backend_that_lies_is_switched_off_and_changes_nothing(
    checkpoint: Checkpoint, name: str, max_batch_size: int
) -> None:
    lie, message = LIES[name]
    videos = [video(checkpoint, number, 30) for number in range(3)]
    config = StreamConfig(**pick_thresholds(checkpoint, videos, 0.1, **SHORT))
    graphed = with_graphs(checkpoint, lambda: lie)
    shape = r"without CUDA graphs, and slower: the CUDA graph of \d+ tokens, \d+ slots, \d+ queries and \d+ keys "
    with pytest.warns(RuntimeWarning, match=shape + message) as caught:
        together = stream_many(Streamer(graphed, config), videos, max_batch_size=max_batch_size)
    assert len(caught) == 1
    for one in videos:
        alone = list(Streamer(checkpoint, config.frame_by_frame()).run(one.features, one.task))
        assert_equal(together[one.video_id], alone)
    assert describe_graphs(graphed, config).startswith("off: the CUDA graph of ")


@pytest.mark.parametrize(
    ("replayed", "tolerance", "num_other"),
    [(1, 1e-4, 0), (2, 1e-4, 1), (2, 5e-2, 0), (float("nan"), 5e-2, 1)],
)
def test_a_token_that_is_as_likely_is_no_difference(replayed: float, tolerance: float, num_other: int) -> None:
    logits = torch.tensor([[3.0, 8.0, 7.8, -torch.inf]])
    tokens = torch.tensor([replayed], dtype=torch.double)
    assert count_other_tokens(tokens, torch.tensor([1.0]), logits, tolerance) == num_other


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
