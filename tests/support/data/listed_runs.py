"""Run folders as a list of runs reads them, without videos."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepscope.eval.runs.notes import RunNotes, change_notes


def write_run(
    folder: Path, *, created: str = "2026-11-01T10:00:00+00:00", f1: float | None = 0.5, **changes: Any
) -> Path:
    folder.mkdir(parents=True)
    settings = {"split": "/data/val.json", "checkpoint": "/models/tiny", "config": {"seed": 0}, "created": created}
    (folder / "run.json").write_text(json.dumps({**settings, **changes}))
    intervals = {"F1": {"low": 0.4, "high": 0.6}}
    metrics = {"num_videos": 2, "scores": {"F1": f1, "missing_rate": 0.25}, "intervals": intervals, "errors": {}}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    return folder


def set_notes(run: Path, **changes: Any) -> RunNotes:
    return change_notes(run, lambda notes: replace(notes, **changes))
