"""docs/result-files.md describes each form of result files by an example that is imported as it says."""

import json
import re
import time
from pathlib import Path

import pytest

from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.imports.import_results import read_result
from stepscope.eval.runs.imports.recognition import FORMS
from stepscope.eval.runs.imports.system_output import ResultForm
from tests.support.paths import ROOT

DOCUMENT = (ROOT / "docs" / "result-files.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in DOCUMENT.split("\n## ")[1:]}
KETTLE = read_split(ROOT / "tests" / "data" / "imports" / "gold.json").samples[0]
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


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_example_of_a_form_is_read_as_documented(tmp_path: Path, form: ResultForm) -> None:
    section = SECTIONS[form.name]
    (example,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    path = tmp_path / "kettle" / ("recording.json" if form.name == "MiniCPM-o-Demo" else "kettle.json")
    path.parent.mkdir()
    path.write_text(example, encoding="utf-8")
    found = read_result(path, KETTLE)
    messages = {output.time_s: output.response for output in found.outputs if output.response is not None}
    assert (len(found.outputs), messages) == EXPECTED[form.name]
    assert found.settings["missing"] == {form.name: form.missing}


def test_a_text_of_many_openings_is_read_in_linear_time(tmp_path: Path) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", SECTIONS["VideoLLM-online"], re.DOTALL)
    content, text = json.loads(example), "(Video Time = " * 40_000
    for step in content["conversation"]:
        if step.get("role") == "assistant":
            step["content"] = text
    path = tmp_path / "kettle.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    began = time.process_time()
    assert text.strip() in [output.response for output in read_result(path, KETTLE).outputs]
    assert time.process_time() - began < 2, "a search for an end from each opening takes 12 s"


def test_the_values_of_the_examples_are_those_of_the_table(tmp_path: Path) -> None:
    for form in FORMS:
        (row,) = re.findall(rf"^\| \[{re.escape(form.name)}\].*$", DOCUMENT, re.MULTILINE)
        _, signals, state, latency, cache, last_frame = (cell.strip() for cell in row.strip("|").split("|"))
        (example,) = re.findall(r"```json\n(.*?)```", SECTIONS[form.name], re.DOTALL)
        path = tmp_path / "kettle.json"
        path.write_text(example, encoding="utf-8")
        outputs = read_result(path, KETTLE).outputs
        assert bool(signals) == any(output.signals for output in outputs), form.name
        assert bool(state) == any(output.state for output in outputs), form.name
        assert bool(latency) == any(output.latency_ms >= 0 for output in outputs), form.name
        assert bool(cache) == any(output.cache_tokens for output in outputs), form.name
        assert not (cache and "cache lengths" in form.missing), form.name
        assert bool(last_frame) == ("the last frame" not in form.missing), form.name
