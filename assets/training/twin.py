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
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepscope.assets.scenes.scene import FPS
from stepscope.assets.training.build import TRAIN_SEED, draw_scenes, train_scene, training_clip
from stepscope.engine.io.files import atomic_write, write_json
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import feature_info, write_features
from stepscope.engine.model.features.frame_encoder import encode
from stepscope.engine.model.files.checkpoint_files import ADAPTER_CONFIG, read_object
from stepscope.engine.training.config import Schedule, TrainConfig
from stepscope.engine.training.curves import WORK_FOLDER
from stepscope.engine.video.reader import Frame
from stepscope.eval.cli.train_command import train
from stepscope.eval.training.options import TrainOptions

SILENT_TOKEN: Final = ","
"""The token that means silence, as in VideoLLM-online. It is a comma within sentences as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinConfig:
    """Sizes and rates of the twin's training."""

    work: Path
    """Folder for the clips and the training state; an interrupted training continues there."""
    scenes: int = 600
    """Scenes of the training split."""
    steps: int = 250
    """Optimiser steps."""
    interval: int = 50
    """Steps between two saved states."""
    processes: int = 2
    """Number of drawing processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerConfig(TwinConfig):
    """Sizes of the training of the adapter."""

    scenes: int = 900
    steps: int = 800
    interval: int = 100


def train_twin(config: TwinConfig, *, base: Path, out: Path) -> None:
    """Train the twin, and write its files to the folder ``out``. Raises ``ValueError`` if the training diverged."""
    _train(
        config,
        base=base,
        out=out,
        method="full",
        decisions="silent-token",
        silent_token=SILENT_TOKEN,
        train=TrainConfig(num_steps=config.steps, learning_rate=5e-4, decision_weight=1.0, positive_weight=1.0),
    )


def train_answers(config: AnswerConfig, *, base: Path, out: Path) -> None:
    """Train the adapter, and write its files to ``out`` beside ``base``. Raises as ``train_twin``."""
    _train(
        config,
        base=base,
        out=out,
        method="lora",
        decisions="answer",
        batch_size=4,
        train=TrainConfig(num_steps=config.steps, learning_rate=2e-3, positive_weight=1.0, negative_rate=0.06),
    )
    settings = read_object(out / ADAPTER_CONFIG)
    write_json(out / ADAPTER_CONFIG, {**settings, "base_model_name_or_path": os.path.relpath(base, out)})


def _train(config: TwinConfig, *, base: Path, out: Path, **options: Any) -> None:
    """Draw the clips, train on them, and write the files of the checkpoint to the folder ``out``."""
    clips = write_clips(
        load_model(base, device="cpu"), config.work / "clips", num_scenes=config.scenes, processes=config.processes
    )
    result = config.work / "model"
    whole = TrainOptions(
        split=clips,
        out=result,
        checkpoint=str(base),
        device="cpu",
        schedule=Schedule(interval=config.interval),
        resume=(result / WORK_FOLDER).is_dir(),
        **options,
    )
    if train(whole):
        raise ValueError(f"the training in {result} failed; {out} stays as it was")
    own = shutil.ignore_patterns(WORK_FOLDER, "README.md", ".*")  # it has a model card of its own
    shutil.copytree(result, out, ignore=own, dirs_exist_ok=True)


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
