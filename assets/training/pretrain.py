"""Stage 1: pre-train the vision tower to recognise the part in the hand, with two auxiliary probes.

One probe reads the pooled embedding; the other reads each patch, without which the tower learns much more slowly. Every
frame is generated once. Sizes: ``B`` frames, ``G`` patches per side, ``C`` nouns.
"""

import signal
from collections.abc import Iterator, Mapping
from multiprocessing import get_context
from multiprocessing.pool import Pool
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, smooth_l1_loss

from stepscope.assets.scenes.draw import draw_frame
from stepscope.assets.scenes.labels import HAND_STATES, PART_STATES, frame_labels
from stepscope.assets.scenes.recipes import NOUNS
from stepscope.assets.scenes.scene import Difficulty, Scene, make_scene
from stepscope.assets.training.tiny import IMAGE_SIZE, PATCH_SIZE, SCALE_FACTOR, TEXT_WIDTH, VISION_WIDTH
from stepscope.engine.model.preprocessing import Normalization, normalize_images
from stepscope.engine.model.smolvlm import StreamingModel
from stepscope.engine.training.config import TrainConfig
from stepscope.engine.training.processes import Processes
from stepscope.engine.training.trainer import Objective, StepLosses

GRID = IMAGE_SIZE // PATCH_SIZE
DRAWN_SIZE = (90, 120)  # height, width: 4:3 like the videos, then squeezed to the square input of the tower
FRAMES_PER_SCENE = 16
BATCH_SIZE = 128

Examples = dict[str, NDArray[Any]]
"""``images`` [B, 96, 96, 3] and the arrays of ``FrameLabels``, stacked."""


def tower_image(scene: Scene, time_s: float) -> NDArray[np.uint8]:
    """Return a frame at the input size of the vision tower, squeezed to a square."""
    drawn = draw_frame(scene, time_s, height=DRAWN_SIZE[0], width=DRAWN_SIZE[1])
    return cv2.resize(drawn, (IMAGE_SIZE, IMAGE_SIZE), interpolation=cv2.INTER_AREA).astype(np.uint8)


def compressed(image: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Return an image after a JPEG round trip with the given quality."""
    _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert decoded is not None, "it was just encoded"
    return decoded.astype(np.uint8)


def draw_examples(seed: int) -> Examples:
    """Draw frames of one scene: half at random times, half around events; 30 % are JPEG-compressed."""
    rng = np.random.default_rng([seed, 11])
    difficulty = Difficulty.hard() if rng.random() < 0.5 else Difficulty.easy()
    scene = make_scene(seed, difficulty=difficulty)
    examples: list[dict[str, object]] = []
    for index in range(FRAMES_PER_SCENE):
        time_s = float(rng.uniform(0, scene.duration_s))
        if index % 2 and scene.events:
            event = scene.events[int(rng.integers(len(scene.events)))]
            time_s = float(np.clip(event.time_s + rng.uniform(-1.2, 2.0), 0, scene.duration_s))
        image = tower_image(scene, time_s)
        if rng.random() < 0.3:
            image = compressed(image, int(rng.integers(45, 95)))
        labels = frame_labels(scene, time_s, grid=GRID)
        examples.append({"images": image} | {name: getattr(labels, name) for name in labels.__dataclass_fields__})
    return {name: np.stack([np.asarray(example[name]) for example in examples]) for name in examples[0]}


def drawing_pool(processes: int) -> Pool:
    """Return processes that draw, with one thread each. Ctrl-C does not reach them: it stops the main process."""
    return get_context("spawn").Pool(processes, initializer=_prepare_process)


def _prepare_process() -> None:
    cv2.setNumThreads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Probes(nn.Module):
    """The two auxiliary probes."""

    def __init__(self) -> None:
        super().__init__()
        classes = len(NOUNS) + 1
        self.hand_parts = (1, 2, 1, classes)  # presence, x and y, closed, held noun
        self.patch_parts = (classes, len(PART_STATES), len(HAND_STATES))
        self.norm = nn.LayerNorm(TEXT_WIDTH)
        self.pooled = nn.Linear(TEXT_WIDTH, 2 * sum(self.hand_parts) + 2 + len(NOUNS))
        self.patch = nn.Linear(VISION_WIDTH, sum(self.patch_parts))

    def forward(self, pooled: Tensor, patches: Tensor, labels: Mapping[str, Tensor]) -> Tensor:
        """Return the loss of predicting ``labels`` from pooled ``[B, D]`` and patches ``[B, G * G, V]``."""
        answers = self.pooled(self.norm(pooled))
        per_hand = sum(self.hand_parts)
        hands = [self._hand_loss(answers[:, hand * per_hand : (hand + 1) * per_hand], labels, hand) for hand in (0, 1)]
        loose, count, placed = answers[:, 2 * per_hand :].split((1, 1, len(NOUNS)), dim=1)
        rest = (
            binary_cross_entropy_with_logits(loose[:, 0], labels["is_loose"].float())
            + 0.3 * smooth_l1_loss(count[:, 0], labels["num_placed"].float())
            + 2 * binary_cross_entropy_with_logits(placed, labels["placed"])
        )
        loss: Tensor = hands[0] + hands[1] + rest + self._patch_loss(self.patch(patches), labels)
        return loss

    def _hand_loss(self, answers: Tensor, labels: Mapping[str, Tensor], hand: int) -> Tensor:
        present, place, closed, noun = answers.split(self.hand_parts, dim=1)
        there = labels["hand_present"][:, hand]
        away = smooth_l1_loss(place, labels["hand_xy"][:, hand], reduction="none", beta=0.05).mean(1)
        grip = binary_cross_entropy_with_logits(closed[:, 0], labels["hand_closed"][:, hand], reduction="none")
        return (
            0.3 * binary_cross_entropy_with_logits(present[:, 0], there)
            + 5 * (away * there).mean()
            + (grip * there).mean()
            + cross_entropy(noun, labels["hand_noun"][:, hand])
        )

    def _patch_loss(self, answers: Tensor, labels: Mapping[str, Tensor]) -> Tensor:
        names = ("patch_noun", "patch_state", "patch_hand")
        loss = answers.new_zeros(())
        for name, logits in zip(names, answers.split(self.patch_parts, dim=2), strict=True):
            weight = torch.ones(logits.shape[2])
            weight[0] = 0.1  # most patches are empty
            loss = loss + cross_entropy(logits.flatten(0, 1), labels[name].flatten().long(), weight=weight)
        return loss


def shuffled_mean(model: StreamingModel, images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the connector's input averaged over its tokens ``[B, V * S * S]``, and the patches ``[B, G * G, V]``.

    The connector is linear without bias, so the projection of the mean equals the mean of the projections. Frames can
    therefore be cached before the connector, and the connector can be trained on the cache.
    """
    patches: Tensor = model.vlm.model.vision_model(pixel_values=images).last_hidden_state
    shuffled: Tensor = model.vlm.model.connector.pixel_shuffle(patches, SCALE_FACTOR)
    return shuffled.mean(1), patches


def project(model: StreamingModel, means: Tensor) -> Tensor:
    """Project cached means ``[..., V * S * S]`` to text embeddings ``[..., D]``."""
    projected: Tensor = model.vlm.model.connector.modality_projection(means)
    return projected


class VisionObjective(Objective[Examples]):
    """The loss of the probes, which trains the tower, the connector and the probes themselves.

    ``config.seed`` also draws the initial weights of the probes.
    """

    loss_names = ("probes",)

    def __init__(self, model: StreamingModel, config: TrainConfig) -> None:
        torch.manual_seed(config.seed)
        self.config, self._streaming, self._probes = config, model, Probes()
        self.model = nn.ModuleList([model.vlm.model.vision_model, model.vlm.model.connector, self._probes])

    def backward(self, batch: Examples, *, seed: int, processes: Processes) -> StepLosses:
        """Add the gradient of a batch, which one process computes; return its loss."""
        assert processes.count == 1
        images = normalize_images(batch["images"], size=(IMAGE_SIZE, IMAGE_SIZE), normalization=Normalization())
        labels = {name: torch.from_numpy(values) for name, values in batch.items() if name != "images"}
        means, patches = shuffled_mean(self._streaming, _jitter(images, seed))
        loss = self._probes(project(self._streaming, means), patches, labels)
        loss.backward()
        total = float(loss.detach())
        return StepLosses(total=total, parts={"probes": total})


def vision_batches(seed: int, num_scenes: int, *, processes: int, first_step: int = 0) -> Iterator[Examples]:
    """Yield shuffled batches of frames of the scenes of ``num_scenes`` consecutive seeds from ``seed`` on.

    They are drawn in ``processes`` processes; a batch has frames of many scenes. The batches are those from
    ``first_step`` on.
    """
    rng = np.random.default_rng(seed)
    scenes_per_round = 32 * BATCH_SIZE // FRAMES_PER_SCENE
    with drawing_pool(processes) as pool:
        for start in range(seed, seed + num_scenes, scenes_per_round):
            seeds = range(start, min(start + scenes_per_round, seed + num_scenes))
            order = rng.permutation(len(seeds) * FRAMES_PER_SCENE)
            starts = range(0, len(order) - BATCH_SIZE + 1, BATCH_SIZE)
            skipped, first_step = starts[:first_step], max(0, first_step - len(starts))
            if len(skipped) == len(starts):
                continue
            drawn = pool.map(draw_examples, seeds, chunksize=8)
            frames = {name: np.concatenate([examples[name] for examples in drawn]) for name in drawn[0]}
            for first in starts[len(skipped) :]:
                yield {name: values[order[first : first + BATCH_SIZE]] for name, values in frames.items()}


def _jitter(images: Tensor, seed: int) -> Tensor:
    """Randomly change the brightness by up to 25 % and the tint by up to 5 % per image ``[B, 3, H, W]``."""
    random = torch.Generator().manual_seed(seed)
    gain = 0.75 + 0.5 * torch.rand(len(images), 1, 1, 1, generator=random)
    tint = 1 + 0.1 * (torch.rand(len(images), 3, 1, 1, generator=random) - 0.5)
    return ((images + 1) * gain - 1) * tint
