"""A backend whose replays differ from the eager step is caught at once, and the outputs are those without graphs."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
import torch
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.inference.cuda_graphs import (
    Capture,
    CudaGraphPool,
    Step,
    count_other_tokens,
    describe_graphs,
)
from stepscope.engine.inference.static import StaticStep
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.streamer import Streamer
from tests.support.streams.batches import pick_thresholds, stream_many, video
from tests.support.streams.fakes import random_frames
from tests.support.streams.graphs import CountingBackend, with_graphs
from tests.support.streams.streams import SHORT, TASK, assert_equal


@pytest.fixture(autouse=True)
def _other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo a difference at the end of the test, as a new process would."""
    monkeypatch.setattr(CudaGraphPool, "fault", "")


def change_probabilities(step: StaticStep) -> Step:
    def replay() -> Tensor:
        results = step()
        results[0] = 1 - results[0]
        return results

    return replay


def change_tokens(step: StaticStep) -> Step:
    def replay() -> Tensor:
        results = step()
        results[2:] += 1
        return results

    return replay


def change_values(step: StaticStep) -> Step:
    def replay() -> Tensor:
        results = step()
        step.pool.values[-1].mul_(1.01)  # those of earlier passes, too
        return results

    return replay


def write_no_cache(step: StaticStep) -> Step:
    kept = step().clone()

    def replay() -> Tensor:
        return kept

    return replay


def freeze_inputs(step: StaticStep) -> Step:
    """Replay the inputs of the capture, so that only the second replay differs."""
    inputs = step._indexes.clone()

    def replay() -> Tensor:
        step._indexes.copy_(inputs)
        return step()

    return replay


def move_probabilities(step: StaticStep, *, by: float) -> Step:
    def replay() -> Tensor:
        results = step()
        results[:2] += by
        return results

    return replay


def frames(checkpoint: Checkpoint) -> Iterator[FrameFeatures]:
    return random_frames(checkpoint, 40)


LIES: dict[str, tuple[Capture, str]] = {
    "probabilities": (change_probabilities, r"differs from the eager pass: probabilities by \d\.\de-\d\d$"),
    "tokens": (change_tokens, r"differs from the eager pass: \d+ of \d+ tokens$"),
    "values": (change_values, r"differs from the eager pass: cached keys and values by \d\.\de-\d\d$"),
    "no cache": (write_no_cache, r"differs from the eager pass: cached keys and values by inf$"),
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


def test_after_a_difference_no_model_of_the_process_uses_graphs(checkpoint: Checkpoint) -> None:
    config = StreamConfig(speak_threshold=1, update_threshold=1, lookahead=4)
    with pytest.warns(RuntimeWarning, match="probabilities"):
        list(Streamer(with_graphs(checkpoint, lambda: change_probabilities), config).run(frames(checkpoint), TASK))
    backend = CountingBackend()
    other = with_graphs(checkpoint, backend)
    list(Streamer(other, config).run(frames(checkpoint), TASK))
    assert not backend.captured
    assert other.graphs is not None
    assert other.graphs.state.startswith("off: the CUDA graph of ")


def test_the_tolerance_is_that_of_the_dtype(tiny_folder: Path) -> None:
    half = load_model(tiny_folder, device="cpu", dtype="bfloat16")
    config = StreamConfig(speak_threshold=1, update_threshold=1, lookahead=4)
    graphed = with_graphs(half, lambda: partial(move_probabilities, by=0.01))
    list(Streamer(graphed, config).run(frames(half), TASK))
    assert describe_graphs(graphed, config) == "checked"
    with pytest.warns(RuntimeWarning, match=r"probabilities by 1.0e-01"):
        list(Streamer(with_graphs(half, lambda: partial(move_probabilities, by=0.1)), config).run(frames(half), TASK))


def test_the_state_of_graphs_is_that_of_the_streams(checkpoint: Checkpoint) -> None:
    config = StreamConfig(speak_threshold=1, update_threshold=1)
    graphed = with_graphs(checkpoint)
    assert describe_graphs(checkpoint, config) == "", "there are none on a CPU"
    assert describe_graphs(graphed, config) == "", "none was replayed yet"
    list(Streamer(graphed, replace(config, lookahead=1)).run(frames(checkpoint), TASK))
    assert describe_graphs(graphed, config) == "checked"
    assert describe_graphs(graphed, replace(config, do_sample=True)) == "off: sampling"


@pytest.mark.parametrize(
    ("replayed", "tolerance", "num_other"),
    [(1, 1e-4, 0), (2, 1e-4, 1), (2, 5e-2, 0), (0, 5e-2, 1), (9, 5e-2, 1), (-1, 5e-2, 1), (float("nan"), 5e-2, 1)],
)
def test_a_token_that_is_as_likely_is_no_difference(replayed: float, tolerance: float, num_other: int) -> None:
    logits = torch.tensor([[3.0, 8.0, 7.8, -torch.inf]])
    tokens = torch.tensor([replayed], dtype=torch.double)
    assert count_other_tokens(tokens, torch.tensor([1.0]), logits, tolerance) == num_other
