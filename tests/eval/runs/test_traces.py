import csv
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.records import FrameOutput
from stepscope.eval.recorder import RunRecorder
from stepscope.eval.runs.folder import FILES, build_schema
from stepscope.eval.runs.provenance import PROVENANCE_COLUMNS, TRACE_COLUMNS, Provenance, VideoTraces, write_traces
from tests.support.paths import ROOT

SETTINGS = {
    "split": "/data/test.json",
    "checkpoint": "assets/checkpoint",
    "model_digest": "0123456789abcdef",
    "device": "cpu",
    "config": asdict(StreamConfig(speak_threshold=0.3, max_new_tokens=8)),
    "text_encoder": "letters",
    "text_encoder_version": "fakes 1",
    "text_encoder_digest": "feed",
    "zero_cost": "keep",
    "versions": {"python": "3.11"},
}
OUTPUT = FrameOutput(
    frame_index=0,
    time_s=0.5,
    speak_prob=0.75,
    update_prob=0.25,
    response="=HYPERLINK(1)\r\nnext",
    updates=("S1->start", "+S2"),
    dst_state={"S1": "in_progress"},
    cache_tokens=9,
    refreshed=True,
    latency_ms=1.5,
)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_per_frame_says_what_was_decided_written_and_believed(tmp_path: Path) -> None:
    silent = replace(
        OUTPUT,
        frame_index=1,
        speak_prob=math.nan,
        response=None,
        updates=(),
        cache_tokens=0,
        refreshed=False,
        latency_ms=math.nan,
    )
    path = tmp_path / "traces.csv"
    write_traces(path, [VideoTraces(video_id="@a", outputs=(OUTPUT, silent), run="demo")])
    first, second = read(path)
    assert tuple(first) == TRACE_COLUMNS
    assert first["video_id"] == "'@a"
    assert first["response"] == "'=HYPERLINK(1)\r\nnext", "no formula for a spreadsheet"
    assert (first["spoke"], first["updated"], first["refreshed"]) == ("1", "1", "1")
    assert json.loads(first["updates"]) == ["S1->start", "+S2"]
    assert json.loads(first["states"]) == {"S1": "in_progress"}
    assert [float(first[name]) for name in ("time_s", "speak_prob", "update_prob", "cache_tokens", "latency_ms")] == [
        0.5, 0.75, 0.25, 9, 1.5
    ]  # fmt: skip
    assert (second["spoke"], second["updated"], second["refreshed"]) == ("0", "0", "0")
    unknown = ("speak_prob", "cache_tokens", "latency_ms", "first_token_ms")
    assert [second[name] for name in unknown] == [""] * 4
    assert first["run"] == second["run"] == "demo"
    assert not set(first) & {"provenance", *PROVENANCE_COLUMNS} - {"run"}, "the origin is in provenance.json"


def test_the_provenance_names_model_device_thresholds_settings_and_encoder() -> None:
    source = Provenance.of_settings("demo", SETTINGS)
    assert source.split == "test.json"
    model = "model 0123456789ab · cpu · speak 0.3 · update 0.5"
    assert source.summary == f"run demo · split test.json · {model} · text encoder letters"
    rows = dict(source.rows())
    assert rows["model"] == "assets/checkpoint 0123456789abcdef"
    assert rows["settings that are not the default"] == "max_new_tokens 8"
    assert rows["text encoder"] == "letters (fakes 1, feed)"
    assert set(source.columns()) == set(PROVENANCE_COLUMNS)
    assert json.loads(str(source.columns()["settings"]))["zero_cost"] == "keep"


def test_named_signals_and_the_state_of_the_assistant_have_columns(tmp_path: Path) -> None:
    specs = (SignalSpec(name="=cmd, \ud800"), SignalSpec(name="yes"))
    output = replace(OUTPUT, signals={"yes": 0.25, "=cmd, \ud800": math.nan}, state="standby")
    video = VideoTraces(video_id="a", outputs=(output, OUTPUT), run="x")
    write_traces(tmp_path / "t.csv", [video], signals=specs)
    first, second = read(tmp_path / "t.csv")
    assert tuple(first) == (*TRACE_COLUMNS, "signal_=cmd, ?", "signal_yes")
    assert (first["state"], first["signal_yes"], first["signal_=cmd, ?"]) == ("standby", "0.25", "")
    assert (second["state"], second["signal_yes"]) == ("", "")


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
    for line in outputs[0].read_text(encoding="utf-8").splitlines()[:5]:
        check("frame", json.loads(line))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("frame", {"speak_prob": 1.5}),
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
