"""The static step, and attention from outside in the layers of transformers."""

import copy

import pytest
import torch

from stepscope.engine.inference.kv_pool import KVCachePool
from stepscope.engine.inference.readout import ReadoutSpec
from stepscope.engine.inference.static import BucketShape, StaticStep
from stepscope.engine.model.smolvlm import StreamingModel
from tests.support.streams.fakes import tiny_model


@pytest.mark.parametrize("silent_id", [None, 7])
def test_a_step_never_reads_a_value_on_the_host(silent_id: int | None) -> None:
    """Tensors on the device "meta" have no values: a Python branch on one, which a capture forbids, raises."""
    model = tiny_model().to("meta")
    pool = KVCachePool(model, num_slots=2, capacity=64)
    shape = BucketShape(num_tokens=4, num_slots=2, query_len=4, context_len=32, needs_tokens=True)
    step = StaticStep(model, pool, shape=shape, readout_spec=ReadoutSpec(silent_id=silent_id, suppress_tokens=(1,)))
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
