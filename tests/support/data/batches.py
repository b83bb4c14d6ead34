"""Small splits of drawn videos for batches, and their tables without measured values."""

import csv
import io
import json
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.config import StreamConfig
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.metrics.text import TextScorer
from stepscope.eval.reports.scoring import ScoreSettings, score_run, write_tables
from stepscope.eval.runs.batch import FinishedVideo, run_batch
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.worker_messages import WorkerConfig
from stepscope.eval.sweeps.exact import SweepProgress, run_sweep
from stepscope.eval.sweeps.grid import Grid
from tests.support.streams.fakes import count_letters

MEASURED = {"reused_features", "batch_size", "wall_s", "peak_memory_mb", "in_time_share", "frames_per_s"}
SHORT = StreamConfig(lookahead=8, max_new_tokens=8, max_update_tokens=6, max_updates_per_frame=2)
NO_JAVA = Path("/nowhere/java")
SCORING = ScoreSettings(text_encoder="letters")


def write_split(folder: Path, *videos: object) -> Path:
    """Write a manifest."""
    (folder / "split.json").write_text(json.dumps({"videos": videos}), encoding="utf-8")
    return folder / "split.json"


def copies(demo_manifest: Path, folder: Path, number: int) -> list[dict[str, Any]]:
    """Return records of ``number`` videos of 6 s, each a separate file in ``folder``."""
    first = json.loads(demo_manifest.read_text(encoding="utf-8"))["videos"][0]
    videos = []
    for index in range(number):
        shutil.copy(demo_manifest.parent / first["video_path"], folder / f"v{index}.mp4")
        videos.append({**first, "video_id": f"v{index}", "video_path": f"v{index}.mp4", "fps": 2.0 + index})
        videos[-1]["num_frames"] = 6 * (2 + index)
    return videos


def make_worker_config(checkpoint: Path, **changes: Any) -> WorkerConfig:
    """Return the configuration of the tests: a tiny checkpoint and short responses."""
    return WorkerConfig(checkpoint=str(checkpoint), config=SHORT, **changes)


def run_to_end(split: Path, worker_config: WorkerConfig, out: Path, **options: Any) -> list[FinishedVideo]:
    """Run a batch and write its tables, as the command line does; return the finished videos."""
    options = {"devices": "cpu:2", **options}
    done = [
        event
        for event in run_batch(read_split(split), worker_config, out=out, **options)
        if isinstance(event, FinishedVideo)
    ]
    write_scores(split, out)
    return done


def sweep(split: Path, worker_config: WorkerConfig, grid: Grid, out: Path, **options: Any) -> list[SweepProgress]:
    """Sweep to the end; return the progress reports."""
    return list(begin_sweep(split, worker_config, grid, out, **options))


def begin_sweep(
    split: Path, worker_config: WorkerConfig, grid: Grid, out: Path, **options: Any
) -> Generator[SweepProgress]:
    """Start a sweep, with letter counts as embeddings."""
    options = {"scoring": SCORING, "encode": count_letters, "device": "cpu:1", **options}
    return run_sweep(read_split(split), worker_config, grid, out=out, **options)


def write_scores(split: Path, out: Path) -> None:
    """Write the tables of a run folder, with letter counts as embeddings and without Java."""
    with no_java() as scorer:
        scored = score_run(out, read_split(split), SCORING, encode=count_letters, scorer=scorer)
    write_tables(out, scored, RunFolder(out).settings() or {})


def load_letters(name: str) -> TextEncoder:
    """Return an encoder that embeds texts by their letters, in place of ``import_encoder``."""
    return TextEncoder(name=name, encode=count_letters)


@contextmanager
def no_java(**_: object) -> Iterator[TextScorer]:
    """Open a scorer that finds no Java, in place of ``TextScorer``."""
    with TextScorer(java=NO_JAVA, limit_s=1) as scorer:
        yield scorer


def tables(out: Path) -> dict[str, Any]:
    """Return the content of a run folder, without times and memory."""
    rows = list(csv.DictReader(io.StringIO((out / "videos.csv").read_text(encoding="utf-8"))))
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    metrics.pop("created", None)  # the time at which the run began
    for part in ("scores", "intervals", "num_undefined"):
        metrics[part] = without_measured(metrics[part])
    outputs = {
        path.name: [_without_times(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(out.glob("*.jsonl"))
    }
    records = {
        path.name: without_measured(json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(out.glob("*.record.json"))
    }
    return {
        "videos": [{name: _read_number(cell) for name, cell in without_measured(row).items()} for row in rows],
        "columns": (out / "columns.csv").read_text(encoding="utf-8"),
        "steps": (out / "steps.csv").read_text(encoding="utf-8"),
        "metrics": metrics,
        "outputs": outputs,
        "records": records,
    }


def like_tables(out: Path) -> Any:
    """Return ``tables``, which equal those of a run whose probabilities differ by at most 1e-4.

    Which videos share a pass depends on the moment, and the last digits of a probability on the shape of the pass.
    """
    return _approximate(tables(out))


def _approximate(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _approximate(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_approximate(part) for part in value]
    return pytest.approx(value, abs=1e-4, nan_ok=True) if isinstance(value, float) else value


def without_measured(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without the measured columns."""
    return {
        name: value
        for name, value in row.items()
        if name not in MEASURED and not name.startswith(("latency_", "first_token_"))
    }


def _read_number(cell: str) -> str | float:
    with suppress(ValueError):
        return float(cell)
    return cell


def _without_times(line: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(line).items() if not name.endswith("_ms")}
