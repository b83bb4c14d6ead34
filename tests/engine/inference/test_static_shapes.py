"""Static shapes give the outputs of eager streaming. Without a GPU the static steps run eagerly."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from stepscope.engine.config import StreamConfig
from stepscope.engine.inference.kv_pool import KVCachePool
from stepscope.engine.inference.merged import MergedLayers
from stepscope.engine.inference.readout import ReadoutSpec
from stepscope.engine.inference.static import BucketShape, StaticStep
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.smolvlm import StreamingModel
from stepscope.engine.replay import Recording
from stepscope.engine.streamer import Streamer
from tests.support.streams.batches import CASES, pick_thresholds, stream_both, stream_many, video
from tests.support.streams.fakes import random_frames, tiny_checkpoint, tiny_model
from tests.support.streams.graphs import CountingBackend, with_graphs
from tests.support.streams.hub import write_hub
from tests.support.streams.streams import SHORT, TASK, assert_equal, decided, probs


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=CASES)
@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [0, 1], indirect=True)
def test_static_shapes_give_the_outputs_of_each_video_alone_frame_by_frame(
    checkpoint: Checkpoint, case: dict[str, Any]
) -> None:
    for together, alone in stream_both(checkpoint, with_graphs(checkpoint), **case):
        assert_equal(together, alone)


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
    for rows in (1, 2):
        grouped = stream_many(Streamer(with_graphs(checkpoint), config), videos, max_batch_size=rows)
        for one in videos:
            alone = Streamer(checkpoint, config.frame_by_frame()).run(one.features, one.task)
            assert_equal(grouped[one.video_id], list(alone))


@pytest.mark.parametrize("policy", ["silent-token", "not-talk"])
def test_a_silent_token_decides_as_without_graphs(checkpoint: Checkpoint, policy: Any) -> None:
    plain = replace(checkpoint, silent_id=7)
    config = StreamConfig(decision_policy=policy, speak_threshold=0.99, lookahead=3, **SHORT)
    wanted = list(Streamer(plain, config.frame_by_frame()).run(random_frames(checkpoint, 20), TASK))
    assert_equal(list(Streamer(with_graphs(plain), config).run(random_frames(checkpoint, 20), TASK)), wanted)


def test_a_frame_of_nan_spoils_only_its_own_context(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    # as if the model itself computed nan
    monkeypatch.setattr("stepscope.engine.inference.runner._check_finite", lambda frames: None)
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


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "qwen3_vl", "llava"])
def test_passes_of_text_alone_are_captured_where_frames_have_any_shape(tmp_path: Path, kind: str) -> None:
    hub = load_model(write_hub(tmp_path, kind), device="cpu")
    backend = CountingBackend()
    config = hub.fit_config(StreamConfig(decision_policy="answer", speak_threshold=0, update_threshold=1, **SHORT))
    frames = list(random_frames(hub, 8))
    wanted = list(Streamer(hub, config.frame_by_frame()).run(frames, TASK))
    assert_equal(list(Streamer(with_graphs(hub, backend), config.frame_by_frame()).run(frames, TASK)), wanted)
    assert all(output.response is not None for output in wanted)
    assert backend.captured
    assert backend.runs > len(frames)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, where it loads its compiler
def test_a_compiled_step_gives_the_same(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path)
    config = StreamConfig(**pick_thresholds(checkpoint, [video(checkpoint, 1, 40)], 0.1, **SHORT), lookahead=4)
    backend = CountingBackend()
    graphed = with_graphs(
        checkpoint, lambda: lambda step: torch.compile(backend.capture(step), backend="eager", dynamic=False)
    )
    wanted = list(Streamer(checkpoint, config.frame_by_frame()).run(random_frames(checkpoint, 10), TASK))
    assert_equal(list(Streamer(graphed, config).run(random_frames(checkpoint, 10), TASK)), wanted)
    assert [step.shape.needs_tokens for step in backend.captured] == [True, False]  # each takes seconds to trace


@pytest.mark.parametrize("silent_id", [None, 7])
def test_a_step_never_reads_a_value_on_the_host(silent_id: int | None) -> None:
    """Tensors on the device "meta" have no values: a Python branch on one, which a capture forbids, raises."""
    model = tiny_model().to("meta")
    pool = KVCachePool(model, num_slots=2, capacity=64)
    shape = BucketShape(num_tokens=4, num_slots=2, query_len=4, context_len=32, needs_tokens=True)
    spec = ReadoutSpec(silent_id=silent_id, suppress_tokens=(1,))
    step = StaticStep(model, pool, shape=shape, readout_spec=spec, layers=MergedLayers(model.text_model))
    with torch.inference_mode():
        assert step().shape == (3, 4)


def test_a_model_without_caches_attends_as_transformers_does_by_default() -> None:
    model = tiny_model()
    plain = copy.deepcopy(model)
    plain.vlm.model.text_model.set_attn_implementation("sdpa")
    inputs = torch.randn(2, 9, model.hidden_size, generator=torch.Generator().manual_seed(0))

    def logits(model: StreamingModel) -> torch.Tensor:
        with torch.inference_mode():
            return model.token_logits(model(inputs))

    assert model.vlm.model.text_model.config._attn_implementation == "stepscope"
    assert torch.equal(logits(model), logits(plain))
