"""Merged layers give the hidden states of transformers' layers, over the same weights."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import rms_norm, scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaModel, PreTrainedModel, Qwen3Config, Qwen3Model

from stepscope.engine.inference import merged as merged_module
from stepscope.engine.inference.kernels import TORCH, Kernels, Rotate, choose_kernels, compare_kernels
from stepscope.engine.inference.merged import MergedLayers
from stepscope.engine.model.attention import forward_layers, use_layer_attention

_SIZES = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "vocab_size": 64}


@dataclass
class _CausalAttention:
    """Attention without a cache."""

    num_kv_heads: int

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
        attended = scaled_dot_product_attention(queries, keys, values, is_causal=True, scale=scale, enable_gqa=True)
        return attended.transpose(0, 1).flatten(1)

    def rotate_and_attend(
        self, layer: int, states: Tensor, rotation: tuple[Tensor, Tensor], *, scale: float, rotate: Rotate
    ) -> Tensor:
        keys = states.new_zeros(len(states), self.num_kv_heads, states.shape[-1])
        values = torch.zeros_like(keys)
        queries = rotate(states, *rotation, torch.arange(len(states)), keys, values)
        return self.attend(layer, *(part.transpose(0, 1) for part in (queries, keys, values)), scale=scale)


def _make_model(**sizes: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    is_qwen = sizes.pop("is_qwen", False)
    sizes = {**_SIZES, **sizes}
    model = Qwen3Model(Qwen3Config(**sizes)) if is_qwen else LlamaModel(LlamaConfig(**sizes))
    model.eval().requires_grad_(requires_grad=False)
    for parameter in model.parameters():
        parameter.normal_(std=0.2)
    use_layer_attention(model)
    return model


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_attention_heads": 6, "num_key_value_heads": 2, "attention_bias": True, "mlp_bias": True},
        {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16},
        {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "is_qwen": True},
    ],
)
def test_merged_layers_give_the_hidden_states_of_transformers(sizes: dict[str, Any], tmp_path: Path) -> None:
    model = _make_model(**sizes)
    inputs, positions = torch.randn(9, 48), torch.arange(20, 29)
    attention = _CausalAttention(num_kv_heads=sizes["num_key_value_heads"])
    expected = forward_layers(model, inputs, positions, attention)
    model.save_pretrained(tmp_path / "before")
    assert MergedLayers.suits(model)
    merged = MergedLayers(model)
    assert torch.allclose(merged(inputs.clone(), positions, attention), expected, atol=2e-5)
    # the parameters are parts of the merged weights, and still those of transformers' layers, also where they are saved
    assert torch.equal(forward_layers(model, inputs, positions, attention), expected)
    model.save_pretrained(tmp_path / "after")
    before, after = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("before", "after"))
    assert after == before
    first = model.layers[0]
    assert first.self_attn.v_proj.weight.untyped_storage().data_ptr() == first.self_attn.q_proj.weight.data_ptr()
    first.mlp.up_proj.weight.mul_(2)
    assert not torch.allclose(merged(inputs.clone(), positions, attention), expected, atol=2e-5)


class _Operators(TorchDispatchMode):
    """Counts operators that compute, and each call of a function ``as_one`` as one."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.number = 0

    def __torch_dispatch__(self, operator: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        self.number += not operator.is_view
        return operator(*arguments, **(named or {}))

    def as_one(self, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            before = self.number
            result = function(*arguments, **named)
            self.number = before + 1
            return result

        return call


def test_a_layer_has_nine_kernels_where_each_step_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for num_layers in (2, 3):
        operators, attention = _Operators(), _CausalAttention(num_kv_heads=2)
        kernels = Kernels(rotate=operators.as_one(TORCH.rotate), activate=operators.as_one(TORCH.activate))
        monkeypatch.setattr(merged_module, "rms_norm", operators.as_one(rms_norm))  # one kernel of CUDA
        monkeypatch.setattr(attention, "attend", operators.as_one(attention.attend))
        model = _make_model(num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_hidden_layers=num_layers)
        merged = MergedLayers(model, kernels=kernels)
        with operators:
            merged(torch.randn(9, 48), torch.arange(9), attention)
        counts.append(operators.number)
    # of the attention's test double: zeros for keys and values, and the rows
    assert counts[1] - counts[0] == 9 + 3


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernels_of_triton_give_the_results_of_torch(dtype: torch.dtype) -> None:
    sizes = {"num_heads": 15, "num_kv_heads": 5, "head_dim": 64}
    chosen = choose_kernels(torch.zeros(0, dtype=dtype, device="cuda"), **sizes)
    assert chosen is not TORCH
    assert not compare_kernels(chosen, dtype=dtype, device=torch.device("cuda"), num_tokens=70, **sizes)


def test_other_results_of_a_kernel_are_found() -> None:
    def rotate_back(states: Tensor, cos: Tensor, sin: Tensor, *cache: Tensor) -> Tensor:
        return TORCH.rotate(states, cos, -sin, *cache)

    wrong = replace(TORCH, rotate=rotate_back, activate=lambda gate_up: TORCH.activate(gate_up) * torch.nan)
    sizes = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 8}
    found = compare_kernels(wrong, dtype=torch.float32, device=torch.device("cpu"), **sizes)
    assert list(found) == ["queries", "keys", "SiLU times up"]
