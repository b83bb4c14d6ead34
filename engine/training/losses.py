"""The losses of a batch of sequences: LM loss on the turns, and the loss of the decisions.

With the two heads the decisions have a binary cross-entropy each. With a silent token (``silent_id``) they have the
streaming-EOS loss: at the last image token of a frame the target is the silent token, or the opening of the response if
one follows; the update head has no loss. **Source**: VideoLLM-online (Chen et al. 2024), section 3.3, with ``w`` =
``TrainConfig.decision_weight``.

Losses and their numbers of labels are tensors ``[3]``, in the order of ``curves.LOSS_NAMES``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from stepscope.engine.model.smolvlm import StreamingModel
from stepscope.engine.training.sequences import IGNORE_INDEX, TrainingSequence, collate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """The labels of ``B`` sequences ``[B, L]`` that the losses count; -100 for none."""

    targets: Tensor
    speak: Tensor
    update: Tensor

    def rows(self, rows: slice) -> "Labels":
        """Return the labels of some of the sequences."""
        return Labels(targets=self.targets[rows], speak=self.speak[rows], update=self.update[rows])

    def count(self, device: torch.device) -> Tensor:
        """Return the numbers of labels ``[3]``."""
        counts = [(part != IGNORE_INDEX).sum() for part in (self.targets, self.speak, self.update)]
        return torch.stack(counts).to(device)


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
    positive_weight: float,
    silent_id: int | None = None,
    response_id: int = 0,
) -> Tensor:
    """Return the sums of the losses of ``B`` sequences, ``[3]``; ``images [N, D]`` are their image tokens in order.

    With ``silent_id``, that token is trained instead of the heads; ``response_id`` opens a response.
    """
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
    if silent_id is not None:
        counted = speak != IGNORE_INDEX
        is_spoken = speak[counted] == 1
        wanted = torch.where(is_spoken, response_id, silent_id)
        nll = cross_entropy(model.token_logits(hidden[counted]), wanted, reduction="none")
        silence = (nll * torch.where(is_spoken, positive_weight, 1.0)).sum()
        return torch.stack([text, silence, torch.zeros_like(silence)])
    weight = torch.tensor(positive_weight, device=model.device)
    sums = [text]
    for head, wanted in ((model.speaking_decision_head, speak), (model.dst_update_head, update)):
        counted = wanted != IGNORE_INDEX
        logits = head(hidden[counted].float())[:, 0]
        sums.append(
            binary_cross_entropy_with_logits(logits, wanted[counted].float(), pos_weight=weight, reduction="sum")
        )
    return torch.stack(sums)
