"""Build the bundled checkpoint in four stages: vision, lookups, features, stream.

Each stage writes a file to the work folder and is skipped if the file exists; delete a file to repeat its stage. The
stages that train run in sessions, as ``stepscope train`` does, and an interrupted one continues at its last saved step.
Training seeds start at ``TRAIN_SEED`` and are disjoint from those of the bundled and the scored videos.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from tqdm import tqdm
from transformers.utils import logging as transformers_logging

from stepscope.assets.scenes.annotate import annotate
from stepscope.assets.scenes.labels import frame_labels
from stepscope.assets.scenes.recipes import NOUNS, RECIPES
from stepscope.assets.scenes.scene import FPS, Difficulty, Scene, make_scene
from stepscope.assets.training.lookups import LookupObjective, Lookups, embed_nouns
from stepscope.assets.training.pretrain import (
    BATCH_SIZE,
    FRAMES_PER_SCENE,
    VisionObjective,
    compressed,
    drawing_pool,
    project,
    shuffled_mean,
    tower_image,
    vision_batches,
)
from stepscope.assets.training.tiny import IMAGE_SIZE, build_tiny, train_tokenizer
from stepscope.engine.cli.interrupts import deferred_interrupts
from stepscope.engine.cli.program import Options
from stepscope.engine.dialogue import STATES
from stepscope.engine.io.files import atomic_write, digest_file
from stepscope.engine.model.files.bundled import ASSETS
from stepscope.engine.model.files.checkpoint_files import write_tensors
from stepscope.engine.model.preprocessing import Normalization, normalize_images
from stepscope.engine.model.prompt import Prompt, schema_text
from stepscope.engine.model.saving import save_model
from stepscope.engine.model.smolvlm import StreamingModel
from stepscope.engine.records import Step
from stepscope.engine.training.config import Schedule, TrainConfig
from stepscope.engine.training.objective import Batch, StreamObjective
from stepscope.engine.training.sequences import TrainingClip, TrainingTurn, build_sequence
from stepscope.engine.training.session import Session, prepare_folder
from stepscope.engine.training.trainer import B, StepLosses, Trainer

VISION_SEED = 1_000_000
TRAIN_SEED = 2_000_000
CORPUS_SEED = 3_000_000
ALIGNED_SCENES = 300
SAVE_INTERVAL = 100
_TIED = "vlm.lm_head.weight"  # tied to the token embeddings


@dataclass(frozen=True, kw_only=True)
class BuildOptions(Options):
    """Train and write the checkpoint; resumes after an interruption."""

    out: Path = ASSETS / "checkpoint"
    """Folder of the checkpoint."""
    work: Path = Path("build/assets")
    """Folder for the files of the stages."""
    seed: int = 0
    vision_scenes: int = 20_000
    """With 16 frames each."""
    lookup_steps: int = 900
    """Optimiser steps of the lookups; likewise ``stream_steps``."""
    stream_scenes: int = 2600
    stream_steps: int = 2200
    permuted_rate: float = 0.7
    """Fraction of stream sequences with permuted step ids."""
    mid_start_rate: float = 0.3
    """Fraction of stream sequences that start mid-video, as after a context refresh."""
    processes: int = 2
    """Number of drawing processes, and of training threads."""

    stop_message: ClassVar[str] = "stopped; {0.work} keeps the stages, the same command continues them"


def build_checkpoint(config: BuildOptions) -> None:
    """Run the missing stages and write the checkpoint."""
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(config.processes)
    config.work.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(corpus())
    model, prompt = build_tiny(tokenizer, seed=config.seed), Prompt(tokenizer)
    for name, run in (("vision", _vision), ("lookups", _lookups), ("stream", _stream)):
        path = config.work / f"{name}.safetensors"
        if path.is_file():
            state = load_file(path)
            model.load_state_dict(state | {_TIED: state["vlm.model.text_model.embed_tokens.weight"]})
        else:
            run(model, prompt, config)
            write_tensors(path, {key: value for key, value in model.state_dict().items() if key != _TIED}, {})
            shutil.rmtree(config.work / name)  # the saved state of a stage that is complete
    save_model(config.out, model, tokenizer)


def corpus() -> Iterator[str]:
    """Yield the training texts of the tokenizer: prompts in random states, turns of generated scenes, and recipes."""
    rng = np.random.default_rng(CORPUS_SEED)
    for seed in range(CORPUS_SEED, CORPUS_SEED + 400):
        scene = make_scene(seed, difficulty=Difficulty.hard(), permute_ids=True)
        state = {step.id: str(rng.choice(STATES)) for step in scene.steps}
        yield "System: " + schema_text(goal=scene.goal, steps=scene.steps, state=state)
        for turn in annotate(scene):
            yield f"User: {turn.text}" if turn.role == "user" else turn.text
    for recipe in RECIPES.values():
        yield f"build the {recipe.name}. " + " ".join(f" the {part.noun}. {part.step_name}." for part in recipe.parts)


def training_clip(scene: Scene) -> TrainingClip:
    """Return a scene's reference dialogue as a training clip at 2 fps.

    It always has two user questions, because answers are learned last.
    """
    turns = tuple(
        TrainingTurn(frame_index=round(turn.time_s * FPS), role=turn.role, text=turn.text)
        for turn in annotate(scene, num_questions=2)
    )
    return TrainingClip(goal=scene.goal, steps=scene.steps, turns=turns, num_frames=scene.num_frames)


def draw_scenes(seeds: Sequence[int], *, processes: int, label: str) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield each seed of the training split with the frames of its scene, drawn in ``processes`` processes.

    A progress bar has the ``label``.
    """
    with drawing_pool(processes) as pool:
        drawn = pool.imap(draw_frames, seeds, chunksize=4)
        yield from zip(seeds, tqdm(drawn, total=len(seeds), desc=label, unit="scene"), strict=True)


def run_stage(
    folder: Path, trainer: Trainer[B], make_batches: Callable[[int], Iterator[B]], *, settings: Mapping[str, Any]
) -> None:
    """Train to the last step of a trainer, with a progress bar.

    The session saves its state at intervals and at a signal, continues exactly, and ends at a divergence. The name of
    its folder is that of the stage. ``make_batches`` takes the first step; ``settings`` must be equal to continue,
    beside those of the trainer.

    Raises:
        ValueError: The folder has a state of different settings.
        DivergedError: The loss is not finite, or far above its start.
    """
    prepare_folder(folder, needed_bytes=0, resume=True)
    with (
        deferred_interrupts() as check_stop,
        tqdm(total=trainer.config.num_steps, desc=folder.name, unit="step") as bar,
    ):
        session = Session(
            trainer,
            folder=folder,
            settings={**asdict(trainer.config), **settings},
            schedule=Schedule(interval=SAVE_INTERVAL),
            validate=None,
            export=lambda: None,
            check_stop=check_stop,
        )
        with closing(session.run(make_batches)) as events:
            for event in events:
                bar.update(trainer.num_steps_done - bar.n)
                if isinstance(event, StepLosses):
                    bar.set_postfix_str(str(event), refresh=False)


def _vision(model: StreamingModel, _: Prompt, config: BuildOptions) -> None:
    num_scenes = config.vision_scenes
    num_steps = num_scenes * FRAMES_PER_SCENE // BATCH_SIZE
    settings = TrainConfig(num_steps=num_steps, learning_rate=1.5e-3, weight_decay=0.03, seed=VISION_SEED)
    run_stage(
        config.work / "vision",
        Trainer(VisionObjective(model, settings), warmup=0.1),
        lambda first: vision_batches(VISION_SEED, num_scenes, processes=config.processes, first_step=first),
        settings={"start": config.seed},
    )


def _lookups(model: StreamingModel, prompt: Prompt, config: BuildOptions) -> None:
    parts = nn.ModuleList([model.vlm.model.vision_model, model.vlm.model.connector]).requires_grad_(False)
    lookups = Lookups(prompt, batch_size=64, seed=config.seed)
    settings = TrainConfig(num_steps=config.lookup_steps, learning_rate=1e-3, weight_decay=0.02, seed=config.seed)
    run_stage(
        config.work / "lookups",
        Trainer(LookupObjective(model, settings, lookups)),
        lambda _: iter(lookups),  # its position is a part of the saved state
        settings={"start": digest_file(config.work / "vision.safetensors")},
    )
    parts.requires_grad_(True)


def draw_frames(seed: int) -> NDArray[np.uint8]:
    """Draw all sampled frames of one training scene; half of the scenes are JPEG-compressed."""
    scene, rng = train_scene(seed), np.random.default_rng([seed, 13])
    frames = [tower_image(scene, index / FPS) for index in range(scene.num_frames)]
    if rng.random() < 0.5:
        quality = int(rng.integers(50, 95))
        frames = [compressed(frame, quality) for frame in frames]
    return np.stack(frames)


def _features(model: StreamingModel, config: BuildOptions) -> list[tuple[TrainingClip, Tensor]]:
    """Return the stream stage's clips with their encoded frames ``[T, C]`` (see ``shuffled_mean``)."""
    path = config.work / "features.safetensors"
    seeds = range(TRAIN_SEED, TRAIN_SEED + config.stream_scenes)
    if not path.is_file():
        means: dict[str, Tensor] = {}
        for seed, frames in draw_scenes(seeds, processes=config.processes, label="features"):
            means[str(seed)] = _encode(model, frames)
        write_tensors(path, means, {})
    stored = load_file(path)
    return [(training_clip(train_scene(seed)), stored[str(seed)]) for seed in seeds]


def write_train_split(config: BuildOptions, manifest: Path) -> None:
    """Write the manifest of the training split: stream scenes, and vision seeds. The scenes can be redrawn from it."""
    scenes = [train_scene(seed) for seed in range(TRAIN_SEED, TRAIN_SEED + config.stream_scenes)]
    rows = [{"seed": scene.seed, "family": scene.family, "num_frames": scene.num_frames} for scene in scenes]
    vision = {"first_seed": VISION_SEED, "num_scenes": config.vision_scenes}
    lines = ",\n".join(map(json.dumps, rows))
    with atomic_write(manifest) as file:
        file.write(f'{{"split": "train", "vision": {json.dumps(vision)}, "scenes": [\n{lines}\n]}}\n')


def train_scene(seed: int) -> Scene:
    """Return the scene of a training seed; half of the scenes are hard, and half have parts of all recipes."""
    is_hard, has_mixed_parts = np.random.default_rng([seed, 12]).random(2) < 0.5
    difficulty = Difficulty.hard() if is_hard else Difficulty.easy()
    return make_scene(seed, difficulty=difficulty, has_mixed_parts=bool(has_mixed_parts))


@torch.no_grad()
def _encode(model: StreamingModel, frames: NDArray[np.uint8]) -> Tensor:
    images = normalize_images(frames, size=(IMAGE_SIZE, IMAGE_SIZE), normalization=Normalization())
    with torch.autocast("cpu", torch.bfloat16):
        return torch.cat([shuffled_mean(model, part)[0].float() for part in images.split(64)]).half()


def _stream(model: StreamingModel, prompt: Prompt, config: BuildOptions) -> None:
    clips = _features(model, config)
    scenes = [train_scene(seed) for seed in range(TRAIN_SEED, TRAIN_SEED + min(ALIGNED_SCENES, len(clips)))]
    held = [frame_labels(scene, index / FPS).hand_noun for scene in scenes for index in range(scene.num_frames)]
    means = torch.cat([means for _, means in clips[: len(scenes)]])
    align_connector(model, prompt, means.float(), torch.from_numpy(np.stack(held)))
    model.vlm.model.vision_model.requires_grad_(False)
    settings = TrainConfig(num_steps=config.stream_steps, learning_rate=1e-3, seed=config.seed)
    objective = StreamObjective(model, settings, embed=lambda means: project(model, means))
    run_stage(
        config.work / "stream",
        Trainer(objective, rates={"vlm.model.connector": 0.3}),
        lambda first: islice(_stream_batches(clips, prompt, config), first, None),
        settings={
            "start": digest_file(config.work / "lookups.safetensors"),
            "permuted_rate": config.permuted_rate,
            "mid_start_rate": config.mid_start_rate,
            "scenes": config.stream_scenes,
        },
    )
    model.vlm.model.vision_model.requires_grad_(True)


def _stream_batches(clips: list[tuple[TrainingClip, Tensor]], prompt: Prompt, config: BuildOptions) -> Iterator[Batch]:
    """Yield batches of clips of similar length indefinitely, with permuted ids and mid-video starts as configured."""
    rng, batch_size = np.random.default_rng([config.seed, 31]), 8
    while True:
        order = rng.permutation(len(clips))
        for pool in np.array_split(order, max(1, len(order) // (8 * batch_size))):
            by_length = sorted(pool, key=lambda index: clips[index][0].num_frames)
            groups = [by_length[start : start + batch_size] for start in range(0, len(by_length), batch_size)]
            for group in rng.permutation(len(groups)):
                sequences, means = [], []
                for index in groups[group]:
                    clip, clip_means = clips[index]
                    if rng.random() < config.permuted_rate:
                        clip = permute_ids(clip, rng)
                    first = int(rng.integers(5, clip.num_frames - 15)) if rng.random() < config.mid_start_rate else 0
                    sequences.append(build_sequence(clip, prompt, first_frame=first))
                    means.append(clip_means[first:])
                yield sequences, torch.cat(means).float()


def permute_ids(clip: TrainingClip, rng: np.random.Generator) -> TrainingClip:
    """Return the clip with randomly permuted step ids; the steps stay in recipe order.

    With the permutation S1 -> S2, S2 -> S1, the update ``S1->start`` becomes ``S2->start``.
    """
    ids = [step.id for step in clip.steps]
    new = dict(zip(ids, (ids[index] for index in rng.permutation(len(ids))), strict=True))

    def rename(turn: TrainingTurn) -> TrainingTurn:
        step_id, _, transition = turn.text.partition("->")
        return replace(turn, text=f"{new[step_id]}->{transition}") if turn.role == "update" else turn

    steps = tuple(Step(id=new[step.id], name=step.name) for step in clip.steps)
    return replace(clip, steps=steps, turns=tuple(map(rename, clip.turns)))


RIDGE = 10.0


@torch.no_grad()
def align_connector(model: StreamingModel, prompt: Prompt, means: Tensor, held: Tensor) -> None:
    """Replace the connector's weight.

    ``means`` are cached frames ``[N, C]`` (see ``assets.training.pretrain.shuffled_mean``), ``held [N, 2]`` has per
    frame and hand 1 + the index of the noun held, 0 for none.
    """
    words = embed_nouns(model, prompt, torch.arange(len(NOUNS)))
    image = model.embed_tokens(torch.tensor(prompt.image_id))
    nouns = torch.cat([torch.zeros_like(words[:1]), words - image])
    wanted = image + nouns[held].sum(1)
    gram = means.T @ means + RIDGE * torch.eye(means.shape[1])
    fitted = torch.linalg.solve(gram, means.T @ wanted).T
    weight = model.vlm.model.connector.modality_projection.proj.weight
    size = wanted.norm(dim=1).mean() / project(model, means).norm(dim=1).mean()
    weight.copy_(fitted + size * weight)
