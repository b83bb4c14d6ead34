"""The published 8B layouts have the sizes of their checkpoints."""

from typing import Any

import pytest

from benchmarks.engine.memory import ASSIST, ONLINE, Sizes, build, build_qwen, count_adapter, measure


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "tower", "tokens"), [(ONLINE, 316_000_000, 10), (ASSIST, 428_000_000, 10)])
def test_an_8b_assistant_fits_one_gpu_in_bfloat16(sizes: Sizes, tower: int, tokens: int) -> None:
    model = build(sizes)
    assert sum(value.numel() for value in model.vlm.parameters()) == 8_030_261_248  # as the hub states for Llama 3 8B
    assert sum(value.numel() for value in model.tower.parameters()) == pytest.approx(tower, rel=0.01)
    assert model.tokens_per_frame == tokens
    decoder, room = model.text_model, sizes.max_context
    dtypes = ("float32", "bfloat16", "8bit", "4bit")
    weights = {dtype: measure(model, decoder, dtype, max_context=room)[0] for dtype in dtypes}
    assert weights["float32"] == pytest.approx(2 * weights["bfloat16"])
    assert weights["bfloat16"] < 16
    assert sorted(weights.values(), reverse=True) == list(weights.values())
    # 2 * 8192 tokens * 32 layers * 8 heads * 128 numbers * 2 bytes = 1 GiB for 8,192 tokens
    assert measure(model, decoder, "bfloat16", max_context=room)[1] == pytest.approx(sizes.max_context / 8192)
    assert count_adapter(model) == 352_485_376  # rank 128 on all linear layers and the output embeddings


@pytest.mark.slow
def test_qwen3_vl_8b_needs_what_the_documents_state() -> None:
    model: Any = build_qwen()
    decoder = model.model.language_model
    sizes = [measure(model, decoder, dtype, max_context=4096) for dtype in ("bfloat16", "8bit", "4bit")]
    assert [round(weights, 1) for weights, _ in sizes] == [16.3, 9.9, 7.0]
    assert sizes[0][1] == 0.5625  # 2 * 4096 tokens * 36 layers * 8 heads * 128 numbers * 2 bytes
