"""Merged layers give the hidden states of transformers' layers, over the same weights."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig, LlamaModel

from stepscope.engine.inference.merged import MergedLayers
from stepscope.engine.model.attention import forward_layers, use_layer_attention

_SIZES = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "vocab_size": 64}


class _CausalAttention:
    """Attention without a cache."""

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
        attended = scaled_dot_product_attention(queries, keys, values, is_causal=True, scale=scale, enable_gqa=True)
        return attended.transpose(0, 1).flatten(1)


def _make_model(**sizes: int | bool) -> LlamaModel:
    torch.manual_seed(0)
    model = LlamaModel(LlamaConfig(**_SIZES, **sizes)).eval().requires_grad_(requires_grad=False)
    for parameter in model.parameters():
        parameter.normal_(std=0.2)
    use_layer_attention(model)
    return model


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_attention_heads": 6, "num_key_value_heads": 2, "attention_bias": True, "mlp_bias": True},
        {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16},
    ],
)
def test_merged_layers_give_the_hidden_states_of_transformers(sizes: dict[str, int | bool]) -> None:
    model = _make_model(**sizes)
    inputs, positions = torch.randn(9, 48), torch.arange(20, 29)
    expected = forward_layers(model, inputs, positions, _CausalAttention())
    assert MergedLayers.suits(model)
    merged = MergedLayers(model)
    assert torch.allclose(merged(inputs.clone(), positions, _CausalAttention()), expected, atol=2e-5)
    # the parameters are parts of the merged weights, and still those of transformers' layers
    assert torch.equal(forward_layers(model, inputs, positions, _CausalAttention()), expected)
    first = model.layers[0]
    assert first.self_attn.v_proj.weight.untyped_storage().data_ptr() == first.self_attn.q_proj.weight.data_ptr()
    first.mlp.up_proj.weight.mul_(2)
    assert not torch.allclose(merged(inputs.clone(), positions, _CausalAttention()), expected, atol=2e-5)
