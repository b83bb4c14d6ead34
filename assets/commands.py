"""The commands that draw, stream and score the bundled files."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from transformers.utils import logging as transformers_logging

from stepscope.assets.demo_videos import KINDS, TEST_VIDEOS, VAL_VIDEOS, Kind, draw_lesson, draw_split
from stepscope.assets.scenes.recipes import HELD_OUT_FAMILY
from stepscope.assets.score import HEADER, Baseline, Score, score_baseline, score_bundled, score_kind
from stepscope.assets.training.build import BuildOptions, write_train_split
from stepscope.engine.cli.program import Options
from stepscope.engine.io.files import load_json, write_json
from stepscope.engine.loading import load_model
from stepscope.eval.cli.options import EvalOptions
from stepscope.eval.cli.run_command import run as run_split

HERE = Path(__file__).parent
MOVABLE = {"split": "../test.json", "checkpoint": "assets/checkpoint"}
"""Settings of the bundled run that would name folders of this machine; a relative split begins at the run folder."""


@dataclass(frozen=True, kw_only=True)
class DrawOptions(Options):
    """Draw the bundled videos and write the manifests of all splits."""

    out: Path = HERE / "demo"
    """Folder of the videos."""


@dataclass(frozen=True, kw_only=True)
class DemoRunOptions(Options):
    """Stream and score the bundled test videos, and replace the bundled run folder."""

    out: Path = HERE / "demo" / "run"
    """Run folder, beside the folder's manifest ``test.json``."""


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(Options):
    """Score a checkpoint on newly generated scenes."""

    checkpoint: Path = HERE / "checkpoint"
    """Checkpoint folder."""
    videos: int = 50
    """Number of scenes per kind."""
    kinds: tuple[Kind, ...] = KINDS
    """Kinds of scenes."""


@dataclass(frozen=True, kw_only=True)
class LessonOptions(Options):
    """Draw the splits of the worked example in docs/training.md."""

    out: Path
    """Folder of the splits."""
    new: int = 200
    """Training videos of the held-out family."""
    kept: int = 100
    """Training videos of the other families."""


def draw(options: DrawOptions) -> None:
    """Draw the bundled videos and write the manifests of all splits."""
    draw_split(TEST_VIDEOS, options.out / "test.json")
    draw_split(VAL_VIDEOS, options.out / "val.json")
    write_train_split(BuildOptions(), options.out / "train.json")


def lesson(options: LessonOptions) -> None:
    """Draw the splits of the worked example."""
    draw_lesson(options.out, num_new=options.new, num_kept=options.kept)


def run(options: DemoRunOptions) -> None:
    """Stream and score the bundled test videos, and replace the bundled run folder.

    Raises ``ValueError`` if a video fails; the folder stays as it was.
    """
    manifest, out = options.out.with_name("test.json"), options.out
    with TemporaryDirectory(dir=out.parent) as name:
        new = Path(name) / out.name
        if run_split(EvalOptions(split=manifest, checkpoint=str(HERE / "checkpoint"), out=new, devices="cpu:2")):
            raise ValueError(f"a video of {manifest} failed; {out} stays as it was")
        for file in (new / "run.json", new / "metrics.json"):
            write_json(file, {**load_json(file.read_text(encoding="utf-8")), **MOVABLE})
        if out.exists():
            shutil.rmtree(out)
        new.rename(out)


def print_scores(options: ScoreOptions) -> None:
    """Print the table of scores: generated scenes, the held-out family, the bundled videos, and baselines."""
    transformers_logging.disable_progress_bar()
    checkpoint, kinds, num_videos = load_model(options.checkpoint), options.kinds, options.videos
    print(f"{'':22} {HEADER}")

    def show(name: str, score: Score) -> None:
        print(f"{name:22} {score.row()}", flush=True)

    for kind in kinds:
        show(kind, score_kind(checkpoint, kind, num_videos=num_videos))
    for kind in kinds:
        show(f"{HELD_OUT_FAMILY}, {kind}", score_kind(checkpoint, kind, num_videos=num_videos, family=HELD_OUT_FAMILY))
    show("bundled test videos", score_bundled(checkpoint, HERE / "demo"))
    for name in get_args(Baseline):
        show(f"{name}, {kinds[0]}", score_baseline(name, kinds[0], num_videos=num_videos))
