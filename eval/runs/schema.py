"""JSON Schema of the files of a run folder, made from the records that read them."""

from typing import Any, Final

from pydantic import TypeAdapter

from stepscope.engine.records import FrameOutput
from stepscope.eval.runs.folder import VideoRecord
from stepscope.eval.runs.notes import RunNotes
from stepscope.eval.runs.output_folder import RunSettings

FILES: Final[dict[str, Any]] = {"run": RunSettings, "frame": FrameOutput, "record": VideoRecord, "notes": RunNotes}
"""Kind of record by its name under ``$defs``; ``build_schema`` names their files."""


def build_schema() -> dict[str, Any]:
    """Return one schema whose ``$defs`` hold the schemas of ``FILES``, with the types that they share."""
    inputs: list[tuple[Any, Any, Any]] = [(name, "validation", TypeAdapter(kind)) for name, kind in FILES.items()]
    found, shared = TypeAdapter.json_schemas(inputs, ref_template="#/$defs/{model}")
    definitions = shared.get("$defs", {})
    for kind in ("FrameOutput", "VideoRecord", "RunNotes"):
        definitions[kind]["additionalProperties"] = False  # as the reader refuses unknown fields
    named = {name: schema for (name, _), schema in found.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Files of a StepScope run folder",
        "description": "run: run.json; frame: a line of <video>.jsonl; record: <video>.record.json; notes: notes.json.",
        "$defs": {**definitions, **named},
    }
