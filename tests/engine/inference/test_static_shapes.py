"""Static shapes give the outputs of eager streaming. Without a GPU the static steps run eagerly."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.inference.kv_pool import KVCachePool, SlotKVCache
from stepscope.engine.inference.merged import MergedLayers
from stepscope.engine.inference.readout import ReadoutSpec
from stepscope.engine.inference.static import BucketShape, StaticStep, pick_bucket
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.hub.families import MODEL_TYPES
from stepscope.engine.records import UserTurn
from stepscope.engine.replay import Recording
from stepscope.engine.stream import Streamer, StreamRequest
from tests.support.streams.batches import CASES, pick_thresholds, stream_both, stream_many, video
from tests.support.streams.fakes import STEPS, random_frames, tiny_model
from tests.support.streams.graphs import CountingBackend, with_graphs
from tests.support.streams.hub import write_hub
from tests.support.streams.streams import SHORT, assert_equal, probs


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=CASES)
@pytest.mark.slow
def test_static_shapes_give_the_outputs_of_each_video_alone_frame_by_frame(
    checkpoint: Checkpoint, case: dict[str, Any]
) -> None:
    for together, alone in stream_both(checkpoint, with_graphs(checkpoint), **case):
        assert_equal(together, alone)


def test_a_moved_threshold_takes_its_cache_into_a_slot(checkpoint: Checkpoint) -> None:
    one = video(checkpoint, 0, 40)
    config = StreamConfig(**pick_thresholds(checkpoint, [one], 0.1, **SHORT))
    frames, silent = list(one.features), replace(config, speak_threshold=1)
    first = Recording(with_graphs(checkpoint), frames, task=one.task, config=silent)
    list(first.run())
    moved = first.at(speak_threshold=config.speak_threshold, update_threshold=config.update_threshold)
    wanted = Streamer(checkpoint, config.frame_by_frame()).run(frames, one.task)
    assert_equal(list(moved.run()), list(wanted))


def test_attention_in_groups_gives_the_same(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.engine.inference.static.takes_groups", lambda states: True)
    videos = [video(checkpoint, number, 30) for number in range(2)]
    config = StreamConfig(**pick_thresholds(checkpoint, videos, 0.1, **SHORT))
    grouped = stream_many(Streamer(with_graphs(checkpoint), config), videos, max_batch_size=2)
    for one in videos:
        alone = Streamer(checkpoint, config.frame_by_frame()).run(one.features, one.task)
        assert_equal(grouped[one.video_id], list(alone))


@pytest.mark.parametrize("kind", MODEL_TYPES)
def test_frames_and_questions_of_each_type_of_the_hub_have_static_shapes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, backend = load_model(write_hub(tmp_path, kind), device="cpu"), CountingBackend()
    task = Task(goal="g", steps=STEPS, questions=(UserTurn(time_s=3, text="now?"),))
    videos = [
        StreamRequest(video_id=str(number), features=list(random_frames(checkpoint, 12, seed=number)), task=task)
        for number in range(2)
    ]
    config = StreamConfig(**SHORT | {"max_seq_len": 900}, decision_policy="answer", speak_threshold=1, lookahead=1)
    wanted = [list(Streamer(checkpoint, config.frame_by_frame()).run(one.features, one.task)) for one in videos]
    monkeypatch.setattr("stepscope.engine.inference.runner._forward_eager", None)
    static = stream_many(Streamer(with_graphs(checkpoint, backend), config), videos, max_batch_size=2)
    assert backend.runs > 0
    for one, alone in zip(videos, wanted, strict=True):
        assert alone[6].response
        assert_equal(static[one.video_id], alone)
        assert torch.allclose(probs(static[one.video_id]), probs(alone), rtol=0, atol=1e-5)


def test_no_pass_leaves_its_slot() -> None:
    cache = SlotKVCache(KVCachePool(tiny_model(), num_slots=2, capacity=64), 0)
    cache.advance(60)
    assert pick_bucket([4], [cache], needs_tokens=False, min_context=64, max_tokens=512) is not None
    with pytest.raises(AssertionError, match="leaves its slot"):
        pick_bucket([5], [cache], needs_tokens=False, min_context=64, max_tokens=512)


def test_a_step_never_reads_a_value_on_the_host() -> None:
    """Tensors on the device "meta" have no values: a Python branch on one, which a capture forbids, raises."""
    model = tiny_model().to("meta")
    pool = KVCachePool(model, num_slots=2, capacity=64)
    shape = BucketShape(num_tokens=4, num_slots=2, query_len=4, context_len=32, needs_tokens=True)
    spec = ReadoutSpec(silent_id=7, suppress_tokens=(1,))
    step = StaticStep(model, pool, shape=shape, readout_spec=spec, layers=MergedLayers(model.text_model))
    with torch.inference_mode():
        assert step().shape == (3, 4)
