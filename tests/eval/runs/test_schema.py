"""The JSON Schema of run folders: an independent validator accepts our folders, and refuses others."""

import json
import math
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from stepscope.engine.decisions.signals import SignalSpec
from stepscope.eval.recorder import RunRecorder
from stepscope.eval.runs.folder import FILES, build_schema
from tests.support.paths import ROOT

DEMO = ROOT / "assets" / "demo" / "run"
SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "run-folder.schema.json").read_text(encoding="utf-8"))


def check(name: str, content: object) -> None:
    """Raise ``JsonSchemaValueException`` unless the content fits; draft 7 has all keywords of the schema."""
    draft = "http://json-schema.org/draft-07/schema#"
    schema = {"$schema": draft, "allOf": [{"$ref": f"#/$defs/{name}"}], "$defs": SCHEMA["$defs"]}
    fastjsonschema.validate(schema, content)


def test_the_document_is_the_schema_of_the_readers() -> None:
    assert build_schema() == SCHEMA, "run: stepscope schema > docs/run-folder.schema.json"


@pytest.fixture(params=["demo", "recorded"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "demo":
        return DEMO
    specs = [SignalSpec(name="p", threshold=0.5, decides="speak"), SignalSpec(name="drop", low=0, high=100)]
    with RunRecorder(tmp_path, model="m", signals=specs) as run, run.video("boat", fps=2) as video:
        video.frame(0.0, signals={"p": math.nan, "drop": 3}, state="silent")
        video.frame(2.0, response="Go.", speak_prob=0.5)
    return tmp_path


def test_every_file_of_a_run_fits_the_schema(folder: Path) -> None:
    check("run", json.loads((folder / "run.json").read_text(encoding="utf-8")))
    records, outputs = list(folder.glob("*.record.json")), list(folder.glob("*.jsonl"))
    assert len(records) == len(outputs) > 0
    for path in records:
        check("record", json.loads(path.read_text(encoding="utf-8")))
    for line in outputs[0].read_text(encoding="utf-8").splitlines():
        check("frame", json.loads(line))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("frame", {"speak_prob": 1.5}),
        ("frame", {"signals": {"p": "high"}}),
        ("frame", {"state": 3}),
        ("frame", {"says": "Go."}),
        ("run", {"signals": [{"label": "without a name"}]}),
        ("record", {"num_frames": -1}),
    ],
)
def test_a_file_that_the_reader_refuses_does_not_fit(name: str, change: dict[str, Any]) -> None:
    first = next(DEMO.glob("*.record.json")).name.removesuffix(".record.json")
    path = {"run": DEMO / "run.json", "frame": DEMO / f"{first}.jsonl", "record": DEMO / f"{first}.record.json"}[name]
    text = path.read_text(encoding="utf-8")
    content = json.loads(text.splitlines()[0] if name == "frame" else text)
    check(name, content)
    with pytest.raises(fastjsonschema.JsonSchemaValueException):
        check(name, {**content, **change})


def test_every_kind_of_file_has_a_schema() -> None:
    assert set(FILES) <= set(SCHEMA["$defs"])
