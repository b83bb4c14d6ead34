"""Doors open toward the engine only, and the page's libraries stay in the page."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "room",
    [
        "engine.records",
        "engine.dialogue",
        "engine.config",
        "engine.control.controller",
        "eval.data.samples",
        "eval.reports.report",
        "eval.runs.folder",
        "app.exports.commands",
    ],
)
def test_rooms_of_records_and_control_load_without_torch(room: str) -> None:
    program = f"import sys, {room}; sys.exit(bool({{'torch', 'transformers', 'gradio'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_engine_loads_without_the_page() -> None:
    page = "{'gradio', 'app', 'eval'}"
    program = f"import sys, engine.streamer, engine.training.dataset; sys.exit(bool({page} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
