"""The run folder that is bundled with the test videos, so that the page opens on a run."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from stepscope.engine.io.files import load_json, write_json
from stepscope.eval.cli.options import RunOptions
from stepscope.eval.cli.run_command import run

MOVABLE = {"split": "../test.json", "checkpoint": "assets/checkpoint"}
"""Settings that would name folders of this machine; a relative split begins at the run folder."""


def write_demo_run(manifest: Path, checkpoint: Path, out: Path) -> None:
    """Stream and score the bundled videos, and replace the run folder ``out``. Raises ``ValueError`` if one fails."""
    with TemporaryDirectory(dir=out.parent) as name:
        new = Path(name) / out.name
        if run(RunOptions(split=manifest, checkpoint=str(checkpoint), out=new, devices="cpu:2")):
            raise ValueError(f"a video of {manifest} failed; {out} stays as it was")
        for file in (new / "run.json", new / "metrics.json"):
            write_json(file, {**load_json(file.read_text(encoding="utf-8")), **MOVABLE})
        if out.exists():
            shutil.rmtree(out)
        new.rename(out)
