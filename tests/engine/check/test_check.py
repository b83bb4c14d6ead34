"""``stepscope check``: a checkpoint in its published form, against transformers' own processor and ``generate``."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.check.comparisons import check_checkpoint, list_presets
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.hub.families import MODEL_TYPES
from stepscope.engine.model.preprocessing import Normalization
from tests.support.streams.hub import write_hub
from tests.support.streams.hub_runs import hub_parts
from tests.support.streams.published import write_online
from tests.support.streams.published_hub import write_published_hub

pytestmark = pytest.mark.filterwarnings("ignore:.*generation_config.*", "ignore:.*generation settings.*")
NAMES = (
    *("ids, pictures and a reply", "ids, texts only", "ids, several turns", "tokens of a picture", "pixels"),
    *("next token", "greedy text", "end tokens", "memory and time", "presets that fit"),
)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_a_published_folder_gives_what_its_processor_and_generate_give(
    model_type: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_published_hub(tmp_path / model_type, model_type)
    code = main(["check", str(folder), "--device", "cpu", "--dtype", "float32"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert [line[:27].strip() for line in printed.splitlines()[:-1]] == list(NAMES)
    assert "differs" not in printed
    assert printed.endswith("ok: no difference matters\n")


def test_a_folder_that_transformers_5_saved_passes_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_published_hub(tmp_path / "saved", "idefics3", is_v5=True)
    assert main(["check", str(folder), "--device", "cpu", "--dtype", "float32"]) == 0, capsys.readouterr().out


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = write_published_hub(tmp_path_factory.mktemp("hub") / "smolvlm", "smolvlm")
    return load_model(folder, device="cpu", dtype="float32")


def find_wrong(checkpoint: Checkpoint) -> list[str]:
    return [line.name for line in check_checkpoint(checkpoint) if line.verdict == "matters"]


def test_pixels_of_another_normalisation_are_found_where_they_change_the_answer(checkpoint: Checkpoint) -> None:
    dark = replace(checkpoint, normalization=Normalization(mean=(9.0, 9.0, 9.0)))
    assert "pixels" in find_wrong(dark)


def test_another_opening_of_a_reply_is_found_in_all_ids(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, prompt = hub_parts(checkpoint)
    monkeypatch.setattr(prompt, "_text_reply", (*prompt._text_reply, prompt.eos_id))
    assert {"ids, pictures and a reply"} <= set(find_wrong(checkpoint))


def test_an_end_token_that_a_stream_ignores_is_found(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    model, prompt = hub_parts(checkpoint)
    other = int(prompt.tokenizer.convert_tokens_to_ids("<|endoftext|>"))
    monkeypatch.setattr(model.vlm.generation_config, "eos_token_id", [prompt.eos_id, other])
    lines = {line.name: line for line in check_checkpoint(checkpoint)}
    assert lines["end tokens"].verdict == "matters"
    assert "<|endoftext|> of generation_config.json does not end a reply" in lines["end tokens"].detail


def test_a_folder_without_the_files_of_its_processor_is_an_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_published_hub(tmp_path / "llava", "llava")
    (folder / "processor_config.json").write_text(json.dumps({"processor_class": "LlavaProcessor"}))
    assert main(["check", str(folder), "--device", "cpu"]) == 2
    assert "error: the processor cannot write a conversation" in capsys.readouterr().err


def test_a_smolvlm_with_heads_is_checked_as_far_as_a_processor_applies(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "bundled", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "next token                 ok" in printed
    assert "ids, pictures, text        n.a." in printed


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's
def test_a_published_assistant_is_checked_without_a_processor(tmp_path: Path) -> None:
    published = load_model(write_online(tmp_path / "online"), device="cpu")
    verdicts = {line.name: line.verdict for line in check_checkpoint(published)}
    assert verdicts["next token"] == "ok"
    assert verdicts["ids, pictures, text"] == "n.a."


def test_presets_with_pixels_fit_models_of_any_size_only(checkpoint: Checkpoint) -> None:
    assert "streamo" not in list_presets(checkpoint)
    assert "streamo" in list_presets(replace(checkpoint, frame_pixels=50176))


@pytest.mark.parametrize("threshold", ["1", "0"])
def test_a_run_without_a_decision_of_an_untrained_model_names_the_sweep(
    threshold: str, demo_manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, video = write_hub(tmp_path / "hub", "smolvlm"), demo_manifest.with_name("truck-1.mp4")
    words = ["run", str(video), "--checkpoint", str(folder), "--device", "cpu", "--out", str(tmp_path / "x.jsonl")]
    thresholds = ["--speak-threshold", threshold, "--update-threshold", "1", "--max-new-tokens", "1"]
    assert main([*words, *thresholds]) == 0
    printed = capsys.readouterr()
    assert ("stepscope sweep on labelled videos" in printed.out) == (threshold == "1")
    assert "float32, " in printed.err, "the progress bar names the dtype"
