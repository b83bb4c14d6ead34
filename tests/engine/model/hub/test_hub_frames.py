"""Image-text models of the hub: positions, sizes and features of frames, and the frames that are asked about."""

from dataclasses import fields, replace
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from stepscope.engine.control.questions import list_update_questions
from stepscope.engine.control.requests import EvictRequest, Image
from stepscope.engine.inference.runner import embed_inputs, evict_tokens
from stepscope.engine.loading import load_model
from stepscope.engine.model.hub.images import FrameFormat
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.stream import Streamer
from tests.support.streams.hub import write_hub
from tests.support.streams.hub_runs import NUM_FRAMES, STEPS, TASK, hub_parts, make_frames, run_traced, settings, spell
from tests.support.streams.streams import decided, probs


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen3_vl"])
def test_positions_are_those_of_the_model(model_type: str, tmp_path: Path) -> None:
    checkpoint = load_model(write_hub(tmp_path, model_type), device="cpu")
    _, context = run_traced(checkpoint, settings(checkpoint))
    model, prompt = hub_parts(checkpoint)
    first = make_frames(checkpoint, 1)[0].features
    inputs = [first if isinstance(piece, Image) else piece for piece in context]
    place = model.place(inputs, 0)
    ids = torch.tensor([spell(checkpoint, context)])
    grid_size = first.shape[:2]
    grid = torch.tensor([[1, 2 * grid_size[0], 2 * grid_size[1]]] * NUM_FRAMES)
    assert grid_size[0] != grid_size[1]
    kinds = (ids == prompt.suppress_tokens[0]).long()
    wanted, _ = model.vlm.model.get_rope_index(ids, mm_token_type_ids=kinds, image_grid_thw=grid)
    assert place is not None
    assert torch.equal(place[0], wanted[-3:, 0])


def test_re_rotated_keys_are_those_of_the_new_positions(tmp_path: Path) -> None:
    checkpoint = load_model(write_hub(tmp_path, "qwen2_5_vl"), device="cpu")
    model, image = checkpoint.model, make_frames(checkpoint, 1)[0].features
    whole, alone = KVCache(model.num_layers), KVCache(model.num_layers)
    runs: list[tuple[KVCache, list[Any]]] = [(whole, [7, 8, 9, image, 10, image, 11]), (alone, [7, 8, image, 11])]
    for cache, pieces in runs:
        place = model.place(pieces, 0)
        assert place is not None
        with torch.no_grad():
            model(embed_inputs(model, pieces)[None], cache, place[0])
        cache.ends += place[1]
    tail = model.count_tokens(image) + 1
    request = EvictRequest(num_cached=whole.length, head=2, tail=tail, renumbers=True)
    evict_tokens(model, whole, request)
    assert whole.ends == alone.ends
    keys, wanted = (cache.layers[0].read(cache.length)[0] for cache in (whole, alone))  # deeper layers saw the rest
    assert torch.allclose(keys, wanted, atol=1e-5)


@given(st.integers(28, 4000), st.integers(28, 4000), st.integers(784, 10**6))
@example(96, 96, 3136)
def test_frames_have_the_size_of_the_processor(height: int, width: int, pixels: int) -> None:
    frame_format = FrameFormat(model_type="qwen2_5_vl", pixels=pixels, patch=14, merge=2)
    rows, columns = size = frame_format.fit(height, width)
    assert rows * columns <= pixels
    assert frame_format.fit(*size) == size
    wanted = smart_resize(height, width, factor=28, min_pixels=1, max_pixels=pixels)
    assert size == wanted or wanted[0] * wanted[1] > pixels


def test_asking_less_often_equals_the_definition_and_leaves_the_frames_between_unknown(tmp_path: Path) -> None:
    checkpoint = load_model(write_hub(tmp_path, "qwen2_5_vl"), device="cpu")
    rarely = replace(settings(checkpoint), ask_every_s=1.2)  # at 2 frames/s, each third frame
    frames = make_frames(checkpoint)
    outputs = list(Streamer(checkpoint, rarely).run(frames, TASK))
    definition = list(Streamer(checkpoint, rarely.frame_by_frame()).run(frames, TASK))
    assert decided(outputs) == decided(definition)
    assert torch.allclose(probs(outputs), probs(definition), atol=1e-4, equal_nan=True)
    assert [n for n, output in enumerate(outputs) if not isnan(output.speak_prob)] == [0, 3, 6]
    spoken = [output.response is not None for output in outputs]
    assert any(spoken)
    values = [output.speak_prob for output in outputs]
    found = rarely.policy.find_triggers(values, rarely.speak_threshold, signal="speak", fps=rarely.fps)
    assert found.tolist() == spoken, "a preview gives the triggers of the run"


def test_questions_follow_the_state() -> None:
    asked = list_update_questions(STEPS, {"S1": "in_progress", "S2": "not_started"})
    assert [question.update for question in asked] == ["S1->complete", "S2->start"]
    assert list_update_questions(STEPS, {"S1": "completed", "S2": "completed"}) == []


def test_a_new_field_of_a_family_leaves_the_digests_of_kept_features_as_they_are() -> None:
    sizes = {"side", "pixels", "min_pixels", "patch", "merge", "num_pictures", "processing"}
    names = {field.name for field in fields(FrameFormat)}
    assert names == {"model_type", "is_video", "opening", "closing", *sizes}
