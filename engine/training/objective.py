"""The objectives of streaming: the loss of the turns and of both decisions, over batches of sequences."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from stepscope.engine.model.smolvlm import StreamingModel
from stepscope.engine.model.vision_language import VisionLanguageModel
from stepscope.engine.training.config import TrainConfig
from stepscope.engine.training.curves import LOSS_NAMES
from stepscope.engine.training.losses import Labels, draw_labels, sum_losses
from stepscope.engine.training.packed import BranchLabels, draw_branches, sum_branch_losses
from stepscope.engine.training.processes import Processes
from stepscope.engine.training.sequences import IGNORE_INDEX, TrainingSequence
from stepscope.engine.training.trainer import Objective, StepLosses

Features = Sequence[Tensor]
"""For each sequence, the features ``[n, I, F]`` of its frames, or ``[n, rows, columns, F]``."""
Batch = tuple[Sequence[TrainingSequence], Any]
"""Sequences, and the features ``[N, ...]`` of their image tokens in order, or ``Features`` for ``BranchObjective``."""


class _Objective(Objective[Batch]):
    """The sum of the losses of a batch, weighed by the settings; subclasses compute the losses of sequences."""

    model: VisionLanguageModel
    loss_names: tuple[str, ...] = LOSS_NAMES

    def __init__(self, model: VisionLanguageModel, config: TrainConfig) -> None:
        self.model, self.config = model, config
        self.guess_loss = math.log(model.text_model.config.vocab_size)
        if config.gradient_checkpointing:
            text = model.text_model  # transformers 5.17 has the second name only
            enable = getattr(text, "activation_checkpointing_enable", None) or text.gradient_checkpointing_enable
            enable({"use_reentrant": False})

    @abstractmethod
    def _draw_labels(self, sequences: Sequence[TrainingSequence], random: torch.Generator) -> Any:
        """Return the labels that the losses count, ``Labels`` or ``BranchLabels``."""

    @abstractmethod
    def _sum_part(self, sequences: Sequence[TrainingSequence], labels: Any, features: Any) -> Tensor:
        """Return the sums of the losses of sequences, ``[3]``."""

    @abstractmethod
    def _count_features(self, sequence: TrainingSequence) -> int:
        """Return the number of items of ``features`` for a sequence."""

    def backward(self, batch: Batch, *, seed: int, processes: Processes) -> StepLosses:
        """Add the gradient of the share of this process in a batch; see ``engine.training.trainer.Objective``."""
        sequences, features = batch
        random = torch.Generator().manual_seed(seed)
        labels = self._draw_labels(sequences, random)
        counts = labels.count(self.model.device)
        total = torch.zeros(len(LOSS_NAMES), device=self.model.device)
        for rows, part in processes.share(list(self._split(sequences, features, processes.count))):
            with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.config.autocast == "bfloat16"):
                sums = self._sum_part(sequences[rows], labels.rows(rows), part)
            self._weigh(sums, counts).backward()
            total += sums.detach()
        total = processes.add(total)
        parts = dict(zip(LOSS_NAMES, (total / counts).tolist(), strict=True))  # nan without labels
        return StepLosses(total=float(self._weigh(total, counts)), parts=parts)

    def _split(
        self, sequences: Sequence[TrainingSequence], features: Any, num_processes: int
    ) -> Iterator[tuple[slice, Any]]:
        """Yield the rows of each forward pass with their features."""
        size = self.config.micro_batch_size or -(-len(sequences) // num_processes)
        if size >= len(sequences):
            yield slice(0, len(sequences)), features
            return
        start = 0
        for first in range(0, len(sequences), size):
            rows = slice(first, first + size)
            count = sum(map(self._count_features, sequences[rows]))
            yield rows, features[start : start + count]
            start += count

    def _weigh(self, sums: Tensor, counts: Tensor) -> Tensor:
        """Return the loss to minimise: means over the labels of the whole batch; a part without labels is 0."""
        text, speak, update = sums / counts.clamp(min=1)
        weighed: Tensor = text + self.config.decision_weight * (speak + update)
        return weighed


class StreamObjective(_Objective):
    """The losses of ``engine.training.losses``, weighed by the settings.

    ``embed`` turns the features of a batch into embeddings ``[N, D]``, by default by the model's projector. With
    ``silent_id``, that token is trained instead of the heads; then ``response_id``, which opens a response, is needed.
    """

    def __init__(
        self,
        model: StreamingModel,
        config: TrainConfig,
        *,
        embed: Callable[[Tensor], Tensor] | None = None,
        silent_id: int | None = None,
        response_id: int = 0,
    ) -> None:
        super().__init__(model, config)
        self._streaming, self._embed = model, embed or model.embed_frames
        self._silent_id, self._response_id = silent_id, response_id

    def _draw_labels(self, sequences: Sequence[TrainingSequence], random: torch.Generator) -> Labels:
        return draw_labels(sequences, negative_rate=self.config.negative_rate, random=random)

    def _sum_part(self, sequences: Sequence[TrainingSequence], labels: Labels, features: Tensor) -> Tensor:
        images = self._embed(features)
        return sum_losses(
            self._streaming,
            sequences,
            labels,
            images,
            positive_weight=self.config.positive_weight,
            silent_id=self._silent_id,
            response_id=self._response_id,
        )

    def _count_features(self, sequence: TrainingSequence) -> int:
        return sum(frame != IGNORE_INDEX for frame in sequence.frames)


class BranchObjective(_Objective):
    """The losses of ``engine.training.packed``: decisions are answers in branches behind the frames, or states."""

    def _draw_labels(self, sequences: Sequence[TrainingSequence], random: torch.Generator) -> BranchLabels:
        return draw_branches(sequences, negative_rate=self.config.negative_rate, random=random)

    def _sum_part(self, sequences: Sequence[TrainingSequence], labels: BranchLabels, features: Features) -> Tensor:
        weight = self.config.positive_weight
        return sum_branch_losses(self.model, sequences, labels, features, positive_weight=weight)

    def _count_features(self, sequence: TrainingSequence) -> int:
        return 1
