"""The dtype that a checkpoint gets, and the memory that it needs, both known before its weights are read."""

from pathlib import Path

import pytest
import torch

from stepscope.app.cli.stepscope import main
from stepscope.engine.errors import CheckpointError
from stepscope.engine.loading import load_model
from stepscope.engine.model.devices import resolve_dtype
from stepscope.engine.model.files.bundled import BUNDLED_CHECKPOINTS
from stepscope.engine.model.memory import StoredWeights, check_memory, read_stored_weights
from tests.support.paths import ROOT
from tests.support.streams.hub import write_hub
from tests.support.streams.published_hub import write_published_hub

pytestmark = pytest.mark.filterwarnings("ignore:.*generation_config.*")
CPU = torch.device("cpu")
TWO_BILLION = StoredWeights(dtype="BF16", num_values=2 * 10**9, num_text_values=10**9, token_values=2000)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.engine.model.memory.known_free_memory", lambda: 5 * 10**9)


def has_bfloat16(monkeypatch: pytest.MonkeyPatch, value: bool) -> None:
    monkeypatch.setattr("stepscope.engine.model.devices.multiplies_bfloat16", lambda: value)


def test_weights_in_bfloat16_keep_it_on_a_cpu_that_multiplies_it(monkeypatch: pytest.MonkeyPatch) -> None:
    has_bfloat16(monkeypatch, True)
    assert resolve_dtype("auto", CPU, stored="BF16") == torch.bfloat16
    assert resolve_dtype("float32", CPU, stored="BF16") == torch.float32, "an explicit dtype wins"
    assert {resolve_dtype("auto", CPU, stored=kind) for kind in ("F32", "F16", "")} == {torch.float32}
    has_bfloat16(monkeypatch, False)
    assert resolve_dtype("auto", CPU, stored="BF16") == torch.float32


def test_a_published_model_is_loaded_as_it_is_stored_and_the_bundled_one_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_bfloat16(monkeypatch, True)
    folder = write_published_hub(tmp_path / "qwen2_vl", "qwen2_vl")
    assert load_model(folder, device="cpu").model.dtype == torch.bfloat16
    assert load_model(folder, device="cpu", dtype="float32").model.dtype == torch.float32
    for name in BUNDLED_CHECKPOINTS:
        assert load_model(name, device="cpu").model.dtype == torch.float32


def test_the_headers_give_the_size_of_the_weights_and_of_a_token_in_the_cache(tmp_path: Path) -> None:
    folder = write_hub(tmp_path / "internvl", "internvl")
    stored = read_stored_weights([folder])
    model = load_model(folder, device="cpu").model
    assert stored.dtype == "F32"
    assert stored.num_values == sum(parameter.numel() for parameter in model.vlm.parameters())
    assert stored.token_values == 3 * 2 * 2 * 8, "3 layers, a key and a value, 2 heads of 8 values"


def test_a_model_that_does_not_fit_is_refused_with_the_cures_that_fit(free: None) -> None:
    # float32: 2e9 * 4 * 1.1 = 8.8 GB, and 4096 * 2000 * 4 = 33 MB of context; bfloat16: half of both
    message = (
        r"big needs about 8\.8 GB of memory in float32, and 5\.0 GB are free; choose --dtype bfloat16 \(4\.4 GB\), "
        r"a smaller model, or end other programs"
    )
    with pytest.raises(CheckpointError, match=message):
        check_memory("big", TWO_BILLION, dtype=torch.float32, device=CPU, quantizes=False)
    check_memory("big", TWO_BILLION, dtype=torch.bfloat16, device=CPU)


def test_fewer_bits_are_a_cure_only_where_a_text_model_can_have_them(free: None) -> None:
    larger = StoredWeights(dtype="BF16", num_values=4 * 10**9, num_text_values=4 * 10**9, token_values=0)
    with pytest.raises(CheckpointError, match=r"choose --quantize 8bit \(4\.4 GB\), --quantize 4bit \(2\.2 GB\), a s"):
        check_memory("larger", larger, dtype=torch.float32, device=CPU)


def test_copies_in_several_processes_are_counted(free: None) -> None:
    message = "2 processes with big need about 8.8 GB .* or fewer processes"
    with pytest.raises(CheckpointError, match=message):
        check_memory("big", TWO_BILLION, dtype=torch.bfloat16, device=CPU, num_copies=2)


def test_nothing_is_refused_where_the_free_memory_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.engine.model.memory.known_free_memory", lambda: None)
    check_memory("big", TWO_BILLION, dtype=torch.float32, device=CPU)


@pytest.mark.parametrize(
    "command",
    [
        ["run", str(ROOT / "assets/demo/boat.mp4"), "--out", "OUT/x.jsonl"],
        ["eval", str(ROOT / "assets/demo/test.json"), "--out", "OUT/run", "--devices", "cpu"],
        ["sweep", str(ROOT / "assets/demo/val.json"), "--out", "OUT/sweep", "--device", "cpu"],
        ["demo", "--port", "7913", "--runs", "OUT/runs"],
        ["check"],
    ],
    ids=lambda command: str(command[0]),
)
def test_every_command_that_loads_a_model_checks_the_memory_first_and_takes_a_dtype(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_hub(tmp_path / "hub", "smolvlm")
    monkeypatch.setattr("stepscope.engine.model.memory.known_free_memory", lambda: 1000)
    words = [word.replace("OUT", str(tmp_path)) for word in command]
    model = [str(folder)] if command == ["check"] else ["--checkpoint", str(folder)]
    assert main([*words, *model, "--dtype", "bfloat16"]) == 2
    assert "of memory in bfloat16, and 0.0 GB are free; choose" in capsys.readouterr().err
