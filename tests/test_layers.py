"""Modules load without the libraries that they do not need."""

import subprocess
import sys

LIGHT = (
    "stepscope.engine.records",
    "stepscope.engine.dialogue",
    "stepscope.engine.config",
    "stepscope.engine.control.controller",
    "stepscope.eval.data.samples",
    "stepscope.eval.reports.scoring",
    "stepscope.eval.runs.folder",
    "stepscope.eval.cli.run_tables",
    "stepscope.app.exports.commands",
)


def test_records_and_control_load_without_torch() -> None:
    program = f"import sys, {', '.join(LIGHT)}; print(*({{'torch', 'transformers', 'gradio'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout == "\n"


def test_the_engine_loads_without_the_page_and_libraries_of_adapters_and_scores() -> None:
    page = "{'gradio', 'stepscope.app', 'stepscope.eval', 'peft', 'sentence_transformers'}"
    imported = "sys, stepscope.engine.cli.commands, stepscope.engine.training.dataset"
    program = f"import {imported}; sys.exit(bool({page} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_leading_process_of_a_run_loads_without_the_libraries_of_its_workers() -> None:
    heavy = "{'gradio', 'transformers', 'sentence_transformers', 'sklearn'}"
    program = f"import sys, stepscope.eval.cli.run_command; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
