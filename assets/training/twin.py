"""Checkpoints that decide otherwise than the bundled one, from which they are trained further: two more stages.

The twin decides by a silent token, with the streaming-EOS loss. The other one is an adapter that answers the questions
of the policy ``answer``. ``eval.training`` trains both, as ``stepscope train`` does, on the first scenes of the bundled
training split.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from transformers.utils import logging as transformers_logging

from stepscope.assets.scenes.scene import FPS
from stepscope.assets.training.build import TRAIN_SEED, draw_scenes, train_scene, training_clip
from stepscope.engine.cli.program import Options
from stepscope.engine.io.files import atomic_write, write_json
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import feature_info, write_features
from stepscope.engine.model.features.frame_encoder import encode
from stepscope.engine.model.files.bundled import ASSETS
from stepscope.engine.model.files.checkpoint_files import ADAPTER_CONFIG, read_object
from stepscope.engine.training.config import Schedule, TrainConfig
from stepscope.engine.training.curves import WORK_FOLDER
from stepscope.engine.video.reader import Frame
from stepscope.eval.cli.train_command import train
from stepscope.eval.training.options import TrainOptions

SILENT_TOKEN: Final = ","
"""The token that means silence, as in VideoLLM-online. It is a comma within sentences as well."""


@dataclass(frozen=True, kw_only=True)
class TwinOptions(Options):
    """Train the twin of the bundled checkpoint that decides by a silent token; resumes after an interruption."""

    out: Path = ASSETS / "checkpoint-silent-token"
    """Folder of the checkpoint."""
    base: Path = ASSETS / "checkpoint"
    """Folder of the checkpoint that it is trained from."""
    work: Path = Path("build/assets/twin")
    """Folder for the clips and the training state; an interrupted training continues there."""
    scenes: int = 600
    """Scenes of the training split."""
    steps: int = 250
    """Optimiser steps."""
    interval: int = 50
    """Steps between two saved states."""
    processes: int = 2
    """Number of drawing processes."""

    stop_message: ClassVar[str] = "stopped; {0.work} keeps the training state, the same command continues it"


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(TwinOptions):
    """Train the adapter of the bundled checkpoint that answers questions; resumes after an interruption."""

    out: Path = ASSETS / "checkpoint-answer"
    """Folder of the adapter."""
    work: Path = Path("build/assets/answers")
    scenes: int = 900
    steps: int = 800
    interval: int = 100


def train_twin(options: TwinOptions) -> None:
    """Train and write the twin. Raises ``ValueError`` if the training diverged."""
    _train(
        options,
        method="full",
        decisions="silent-token",
        silent_token=SILENT_TOKEN,
        train=TrainConfig(num_steps=options.steps, learning_rate=5e-4, decision_weight=1.0, positive_weight=1.0),
    )


def train_answers(options: AnswerOptions) -> None:
    """Train and write the adapter, beside its base. Raises as ``train_twin``."""
    _train(
        options,
        method="lora",
        decisions="answer",
        batch_size=4,
        train=TrainConfig(num_steps=options.steps, learning_rate=2e-3, positive_weight=1.0, negative_rate=0.06),
    )
    path = options.out / ADAPTER_CONFIG
    write_json(path, {**read_object(path), "base_model_name_or_path": os.path.relpath(options.base, options.out)})


def _train(options: TwinOptions, **training: Any) -> None:
    """Draw the clips, train on them, and write the files of the checkpoint."""
    transformers_logging.disable_progress_bar()
    base, clips = load_model(options.base, device="cpu"), options.work / "clips"
    result = options.work / "model"
    whole = TrainOptions(
        split=write_clips(base, clips, num_scenes=options.scenes, processes=options.processes),
        out=result,
        checkpoint=str(options.base),
        device="cpu",
        schedule=Schedule(interval=options.interval),
        resume=(result / WORK_FOLDER).is_dir(),
        **training,
    )
    if train(whole):
        raise ValueError(f"the training in {result} failed; {options.out} stays as it was")
    own = shutil.ignore_patterns(WORK_FOLDER, "README.md", ".*")  # it has a model card of its own
    shutil.copytree(result, options.out, ignore=own, dirs_exist_ok=True)


def write_clips(checkpoint: Checkpoint, folder: Path, *, num_scenes: int, processes: int) -> Path:
    """Draw and encode scenes of the training split, and return the JSON lines of their clips.

    Scenes that the folder has already are kept.
    """
    info = feature_info(checkpoint, fps=FPS)
    seeds = range(TRAIN_SEED, TRAIN_SEED + num_scenes)
    missing = [seed for seed in seeds if not (folder / f"{seed}.safetensors").is_file()]
    folder.mkdir(parents=True, exist_ok=True)
    for seed, images in draw_scenes(missing, processes=processes, label="clips"):
        write_features(folder / f"{seed}.safetensors", encode(checkpoint, _frames(images)), info)
    path = folder / "clips.jsonl"
    with atomic_write(path) as file:
        file.writelines(json.dumps(_record(seed)) + "\n" for seed in seeds)
    return path


def _frames(images: NDArray[np.uint8]) -> Iterator[Frame]:
    for index, image in enumerate(images):
        yield Frame(index=index, time_s=index / FPS, image=image)


def _record(seed: int) -> dict[str, Any]:
    """Return the clip of one scene as ``engine.training.dataset`` reads it."""
    clip = training_clip(train_scene(seed))
    return {
        "features": f"{seed}.safetensors",
        "goal": clip.goal,
        "steps": [asdict(step) for step in clip.steps],
        "turns": [asdict(turn) for turn in clip.turns],
    }
