"""Each form's example of docs/result-files.md is read as documented, and becomes a run without a split."""

import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.eval.__main__ import main
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.imports.import_results import import_without_split, read_result
from stepscope.eval.runs.imports.recognition import FORMS
from stepscope.eval.runs.imports.system_output import ResultForm, SignalRule
from tests.support.data.batches import no_java
from tests.support.data.damage import mutate
from tests.support.paths import ROOT

DATA = ROOT / "tests" / "data" / "imports"
DOCUMENT = (ROOT / "docs" / "result-files.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in DOCUMENT.split("\n## ")[1:]}
EXAMPLES = {form.name: re.findall(r"```json\n(.*?)```", SECTIONS[form.name], re.DOTALL)[0] for form in FORMS}
TABLE = dict(re.findall(r"^\| ([a-z ]+) \| (?:all but )?(.+) \|$", DOCUMENT, re.MULTILINE))
KETTLE = read_split(DATA / "gold.json").samples[0]
EXPECTED = {
    "ProAssist": (10, {4.5: "The kettle boils now."}),
    "VideoLLM-online": (10, {4.5: "The kettle boils now."}),
    "MMDuet": (10, {4.5: "The kettle boils now."}),
    "ProactiveVideoQA": (20, {5.0: "The kettle boils. Steam rises."}),
    "MiniCPM-o-Demo": (4, {1.0: "The kettle boils now."}),
    "MiniCPM-o-Demo stream": (4, {1.0: "The kettle boils now."}),
    "Streamo": (20, {4.0: "The kettle boils now."}),
    "Streamo or JoyAI-VL": (10, {4.0: "The kettle boils now."}),
    "Qualcomm Interactive Cooking": (20, {1.0: "Fill the kettle.", 5.0: "Well done."}),
    "QEVD": (20, {1.0: "Nice."}),
    "EgoProactive": (16, {4.0: "The kettle boils now."}),
    "OmniPro": (20, {4.0: "The kettle boils now."}),
    "SPOT-Bench": (20, {4.0: "The kettle boils now."}),
    "StreamingVLM": (4, {1.0: "The kettle boils now."}),
    "Em-Garde": (9, {4.0: "The kettle boils now."}),
    "Omni-DuplexEval": (20, {1.0: "Water is poured.", 5.0: "The kettle boils now."}),
}
"""Per form, the number of frames of its example, and the messages by time."""


def place(folder: Path, form: str) -> Path:
    """Return the path of the example of a form, named like its video."""
    path = folder / "kettle" / ("recording.json" if form == "MiniCPM-o-Demo" else "kettle.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(EXAMPLES[form], encoding="utf-8")
    return path


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_example_of_a_form_is_read_as_documented_and_becomes_a_run_of_its_own_length(
    tmp_path: Path, form: ResultForm
) -> None:
    path = place(tmp_path, form.name)
    found = read_result(path, KETTLE)
    messages = {output.time_s: output.response for output in found.outputs if output.response is not None}
    assert (len(found.outputs), messages) == EXPECTED[form.name]
    listed = {value for value, systems in TABLE.items() if form.name in systems.split(", ")}
    assert any(output.signals for output in found.outputs) == any("signals" in value for value in listed)
    assert any(output.state for output in found.outputs) == ("state of the assistant" in listed)
    assert any(output.latency_ms >= 0 for output in found.outputs) == ("latency" in listed)
    assert any(output.cache_tokens for output in found.outputs) == ("cache length" in listed)
    assert not ("cache length" in listed and "cache lengths" in form.missing)
    assert ("the last frame" in form.missing) == ("last frame" in listed)
    out = tmp_path / "run"
    assert import_without_split(out, [path], {}) == {}
    run = RunFolder(out)
    (sample,) = read_split(run.split_path()).samples
    outputs = run.outputs(sample)
    assert sample.video_id == ("0" if form.name == "Em-Garde" else "kettle")
    assert not sample.has_reference
    assert len(outputs) == sample.num_frames <= 24
    assert [output.response for output in outputs if output.response]
    settings = run.settings() or {}
    assert settings["missing"] == {form.name: form.missing}


def test_a_folder_can_be_moved_and_its_video_is_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "kettle.mp4").write_bytes(b"")
    content = {"question_id": "q7", "video": "kettle.mp4", "model_response_list": [{"time": 4, "content": "Now."}]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    import_without_split(tmp_path / "run", [tmp_path / "a.json"], {})
    shutil.move(tmp_path / "run", tmp_path / "moved")
    run = RunFolder(tmp_path / "moved")
    (sample,) = read_split(run.split_path()).samples
    assert (sample.video_id, sample.fps, sample.num_frames) == ("q7", 2.0, 9)
    assert sample.video_path == tmp_path / "kettle.mp4"


def test_the_rate_is_that_of_the_file_or_the_given_one(tmp_path: Path) -> None:
    content = {"video_path": "kettle.mp4", "frame_fps": 5, "conversation": [{"time": 1.0, "cost": 0.1}]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    import_without_split(tmp_path / "run", [tmp_path / "a.json"], {})
    assert [one.fps for one in read_split(tmp_path / "run" / "split.json").samples] == [5.0]
    scores = [{"time": frame / 10, "informative_score": 0.5} for frame in range(10)]
    content = {"question_id": "q", "model_response_list": [], "debug_data": scores}
    (tmp_path / "b.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"b\.json: debug_data\[1\].time must be in a frame of its own, at 2 frames"):
        import_without_split(tmp_path / "other", [tmp_path / "b.json"], {})
    assert not (tmp_path / "other").exists()
    rule = SignalRule(threshold=0.4, signal="informative_score")
    import_without_split(tmp_path / "other", [tmp_path / "b.json"], {}, fps=10.0, rule=rule)
    (sample,) = read_split(tmp_path / "other" / "split.json").samples
    assert (sample.fps, sample.num_frames) == (10.0, 10)
    assert [spec.threshold for spec in RunFolder(tmp_path / "other").signals()] == [0.4, None]


def test_the_command_imports_without_a_split_and_scores_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stepscope.eval.cli.finished_runs.TextScorer", no_java)
    run = str(tmp_path / "run")
    assert main(["import", str(DATA / "proactive_videoqa.jsonl"), "--out", run]) == 1
    shown = capfd.readouterr()
    assert f"1 video in {run}, without references and scores; give them with `stepscope score --split`" in shown.out
    assert "ProactiveVideoQA files hold no probabilities" in shown.out
    assert "has no entry of toast, so that its length is not known; give a split" in shown.err
    assert main(["score", run, "--split", str(DATA / "gold.json")]) == 1  # toast has not been run
    assert "PAUC_w0.5" in capfd.readouterr().out
    slow = str(tmp_path / "slow")
    main(["import", str(DATA / "proactive_videoqa.jsonl"), "--out", slow, "--fps", "1"])
    assert main(["score", slow, "--split", str(DATA / "gold.json")]) == 1
    assert "kettle: has 1 frames/s in the run, but 2 in the split; run it with this split" in capfd.readouterr().err
    assert main(["import", str(DATA / "kettle.json"), "--out", str(tmp_path / "b"), "--fps", "0"]) == 2
    assert "--fps must be a number from 0.001 to 1000; got 0" in capfd.readouterr().err
    command = ["import", str(DATA / "kettle.json"), "--out", str(tmp_path / "b"), "--fps", "2"]
    assert main([*command, "--split", str(DATA / "gold.json")]) == 2
    assert "--fps is that of --split; leave one out" in capfd.readouterr().err


@given(st.data(), st.sampled_from(sorted(EXAMPLES)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_damage_is_an_error_that_is_named_or_a_run_that_can_be_read(
    tmp_path: Path, data: st.DataObject, form: str
) -> None:
    path, out = tmp_path / "kettle.json", tmp_path / "run"
    shutil.rmtree(out, ignore_errors=True)
    text = EXAMPLES[form]
    is_lines = form == "MiniCPM-o-Demo stream"
    value = [json.loads(line) for line in text.splitlines()] if is_lines else json.loads(text)
    path.write_text(json.dumps(mutate(value, data.draw)))
    problem = ""
    try:
        import_without_split(out, [path], {})
    except ValueError as error:
        problem = str(error)
    if problem:
        assert problem.startswith(str(path))
        assert not out.exists()
        return
    for sample in read_split(out / "split.json").samples:
        assert len(RunFolder(out).outputs(sample)) == sample.num_frames
