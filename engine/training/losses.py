"""The losses of a batch of sequences: LM loss on the turns, and the loss of the decisions.

With the two heads the decisions have a binary cross-entropy each. With a silent token (``silent_id``) they have the
streaming-EOS loss: at the last image token of a frame the target is the silent token, or the opening of the response if
one follows; the update head has no loss. **Source**: VideoLLM-online (Chen et al. 2024), section 3.3, with ``w`` =
``TrainConfig.decision_weight``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from stepscope.engine.model.smolvlm import StreamingModel
from stepscope.engine.training.sequences import IGNORE_INDEX, TrainingSequence, collate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Losses:
    """The loss of the turns' tokens and of both decisions: means over the labels of a batch, nan without labels."""

    text: Tensor
    """Cross-entropy, in nats."""
    speak: Tensor
    """Loss of the decision to speak; likewise ``update``."""
    update: Tensor

    @classmethod
    def zero(cls, device: torch.device) -> "Losses":
        """Return sums of nothing."""
        return cls.unpack(torch.zeros(3, device=device))

    @classmethod
    def unpack(cls, values: Tensor) -> "Losses":
        """Return the losses of a tensor ``[3]`` of ``pack``."""
        return cls(text=values[0], speak=values[1], update=values[2])

    def pack(self) -> Tensor:
        """Return the three values as a tensor ``[3]`` in float32."""
        return torch.stack([self.text.float(), self.speak.float(), self.update.float()])

    def __add__(self, other: "Losses") -> "Losses":
        """Add sums of losses."""
        return Losses(text=self.text + other.text, speak=self.speak + other.speak, update=self.update + other.update)

    def __truediv__(self, counts: "Losses") -> "Losses":
        """Divide sums by numbers of labels; nan where there is none."""
        return Losses(text=self.text / counts.text, speak=self.speak / counts.speak, update=self.update / counts.update)

    def detach(self) -> "Losses":
        """Return the values without their graph."""
        return Losses(text=self.text.detach(), speak=self.speak.detach(), update=self.update.detach())


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLoss:
    """How decisions are weighted, and which token means silence."""

    positive_weight: float = 1.5
    """Weight of frames with a turn."""
    silent_id: int | None = None
    """Train the silent token instead of the heads."""
    response_id: int = 0
    """The token that opens a response; used with ``silent_id``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """The labels of ``B`` sequences ``[B, L]`` that the losses count; -100 for none."""

    targets: Tensor
    speak: Tensor
    update: Tensor

    def rows(self, rows: slice) -> "Labels":
        """Return the labels of some of the sequences."""
        return Labels(targets=self.targets[rows], speak=self.speak[rows], update=self.update[rows])

    def count(self, device: torch.device) -> Losses:
        """Return the numbers of labels."""
        text, speak, update = (
            (part != IGNORE_INDEX).sum().to(device) for part in (self.targets, self.speak, self.update)
        )
        return Losses(text=text, speak=speak, update=update)


def draw_labels(sequences: Sequence[TrainingSequence], *, negative_rate: float, random: torch.Generator) -> Labels:
    """Return the labels of sequences; a frame without a turn counts with probability ``negative_rate``."""
    targets, speak, update = (collate(sequences, name) for name in ("targets", "speak", "update"))
    for labels in (speak, update):
        drawn = torch.rand(labels.shape, generator=random)
        labels.masked_fill_((labels == 0) & (drawn >= negative_rate), IGNORE_INDEX)
    return Labels(targets=targets, speak=speak, update=update)


def sum_losses(
    model: StreamingModel,
    sequences: Sequence[TrainingSequence],
    labels: Labels,
    images: Tensor,
    *,
    decisions: DecisionLoss,
) -> Losses:
    """Return the sums of the losses of ``B`` sequences; ``images [N, D]`` are their image tokens in order."""
    ids = collate(sequences, "ids").to(model.device)
    inputs = model.embed_tokens(ids).clone()
    inputs[collate(sequences, "frames") != IGNORE_INDEX] = images.to(inputs.dtype)
    hidden = model(inputs)
    length = ids.shape[1]
    targets, speak, update = (
        part[:, :length].to(model.device) for part in (labels.targets, labels.speak, labels.update)
    )
    is_target = targets != IGNORE_INDEX
    text = cross_entropy(model.token_logits(hidden[is_target]), targets[is_target], reduction="sum")
    if decisions.silent_id is not None:
        silence = _sum_silence(model, hidden, speak, decisions)
        return Losses(text=text, speak=silence, update=torch.zeros_like(silence))
    weight = torch.tensor(decisions.positive_weight, device=model.device)
    sums = []
    for head, wanted in ((model.speaking_decision_head, speak), (model.dst_update_head, update)):
        counted = wanted != IGNORE_INDEX
        logits = head(hidden[counted].float())[:, 0]
        sums.append(
            binary_cross_entropy_with_logits(logits, wanted[counted].float(), pos_weight=weight, reduction="sum")
        )
    return Losses(text=text, speak=sums[0], update=sums[1])


def _sum_silence(model: StreamingModel, hidden: Tensor, speak: Tensor, decisions: DecisionLoss) -> Tensor:
    """Return the sum of the streaming-EOS loss."""
    counted = speak != IGNORE_INDEX
    is_spoken = speak[counted] == 1
    silent, opening = torch.tensor([decisions.silent_id, decisions.response_id], device=speak.device)
    nll = cross_entropy(model.token_logits(hidden[counted]), torch.where(is_spoken, opening, silent), reduction="none")
    return (nll * torch.where(is_spoken, decisions.positive_weight, 1.0)).sum()
