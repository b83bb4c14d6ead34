"""The losses of sequences with branches, in one pass in which each branch sees its context and itself.

As in ``engine.inference.runner``, the tokens of all sequences and branches run as one sequence ``[N, D]`` through
everything except attention. So questions are learned as the stream asks them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from stepscope.engine.model.attention import forward_layers
from stepscope.engine.model.vision_language import VisionLanguageModel
from stepscope.engine.training.sequences import IGNORE_INDEX, TrainingBranch, TrainingSequence


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BranchLabels:
    """The labels of a batch that the losses count, by sequence."""

    targets: Sequence[Sequence[int]]
    """The next token to predict at each token; -100 for no target."""
    branches: Sequence[Sequence[TrainingBranch]]
    speak: Sequence[Sequence[int]]
    """At a token whose target is that of a state: 1 for a response, 0 for silence; -100 elsewhere."""

    def rows(self, rows: slice) -> "BranchLabels":
        """Return the labels of some of the sequences."""
        return BranchLabels(targets=self.targets[rows], branches=self.branches[rows], speak=self.speak[rows])

    def count(self, device: torch.device) -> Tensor:
        """Return the numbers of labels ``[3]``."""
        tokens = [
            speak != IGNORE_INDEX
            for targets, labels in zip(self.targets, self.speak, strict=True)
            for target, speak in zip(targets, labels, strict=True)
            if target != IGNORE_INDEX
        ]
        signals = [branch.signal for branches in self.branches for branch in branches]
        counts = (tokens.count(False), tokens.count(True) + signals.count("speak"), signals.count("update"))
        return torch.tensor(counts, device=device, dtype=torch.float32)


def draw_branches(
    sequences: Sequence[TrainingSequence], *, negative_rate: float, random: torch.Generator
) -> BranchLabels:
    """Return the labels of sequences; others than the kept ones count with probability ``negative_rate``."""
    targets, branches = list[list[int]](), list[list[TrainingBranch]]()
    for sequence in sequences:
        drawn = torch.rand(len(sequence.branches), generator=random).tolist()
        pairs = zip(sequence.branches, drawn, strict=True)
        branches.append([branch for branch, number in pairs if branch.is_kept or number < negative_rate])
        dropped = (torch.rand(len(sequence.ids), generator=random) >= negative_rate).tolist()
        labels = zip(sequence.targets, sequence.speak, dropped, strict=True)
        targets.append([IGNORE_INDEX if speak == 0 and is_dropped else one for one, speak, is_dropped in labels])
    return BranchLabels(targets=targets, branches=branches, speak=[sequence.speak for sequence in sequences])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The tokens of a sequence, or of a branch behind it."""

    length: int
    seen: int = 0
    """For a branch, the tokens that it sees of the last sequence before it."""
    mask: Tensor | None = None
    """For a branch, the visible keys ``[length, seen + length]``; a sequence is causal."""


class _TrainingAttention:
    """Attention of each part over its own tokens, and of a branch also over its context, as a ``LayerAttention``."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts, self._lengths = parts, [part.length for part in parts]

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
        attended, context = list[Tensor](), (keys, values)
        split = (states.split(self._lengths, dim=1) for states in (queries, keys, values))
        for part, query, key, value in zip(self._parts, *split, strict=True):
            if part.mask is None:
                context = (key, value)
            else:
                key = torch.cat([context[0][:, : part.seen], key], 1)
                value = torch.cat([context[1][:, : part.seen], value], 1)
            found = scaled_dot_product_attention(
                query[None],
                key[None],
                value[None],
                part.mask,
                is_causal=part.mask is None,
                scale=scale,
                enable_gqa=True,
            )
            attended.append(found[0].transpose(0, 1).flatten(1))
        return torch.cat(attended)


def sum_branch_losses(
    model: VisionLanguageModel,
    sequences: Sequence[TrainingSequence],
    labels: BranchLabels,
    features: Sequence[Tensor],
    *,
    positive_weight: float,
) -> Tensor:
    """Return the sums of the losses of sequences, ``[3]``; ``features`` are those of the frames of each."""
    parts, embedded, positions = list[_Part](), list[Tensor](), list[Tensor]()
    targets, weights = list[int](), list[list[float]]()  # per token; its weights in the losses of text, speak, update
    weight_of = {IGNORE_INDEX: [1.0, 0.0, 0.0], 0: [0.0, 1.0, 0.0], 1: [0.0, positive_weight, 0.0]}
    by_sequence = zip(sequences, features, labels.targets, labels.branches, labels.speak, strict=True)
    for sequence, frames, own_targets, branches, speak in by_sequence:
        images = model.embed_frames(frames)
        inputs = model.embed_tokens(torch.tensor(sequence.ids, device=model.device)).clone()
        inputs[torch.tensor(sequence.frames) != IGNORE_INDEX] = images.flatten(0, 1).to(inputs.dtype)
        place = model.place(_list_pieces(sequence, frames, per_frame=images.shape[1]), 0)
        embedded.append(inputs)
        positions.append(torch.arange(len(inputs), device=model.device) if place is None else place[0])
        parts.append(_Part(length=len(inputs)))
        targets += own_targets
        weights += [weight_of[label] for label in speak]
        for branch in branches:
            seen, length = branch.position + 1, len(branch.ids)
            behind = None if place is None else model.place(branch.ids, place[1][branch.position])
            embedded.append(model.embed_tokens(torch.tensor(branch.ids, device=model.device)))
            positions.append(torch.arange(seen, seen + length, device=model.device) if behind is None else behind[0])
            mask = torch.ones(length, seen + length, dtype=torch.bool, device=model.device).tril(seen)
            parts.append(_Part(length=length, seen=seen, mask=mask))
            targets += branch.targets
            weight = positive_weight if branch.is_positive else 1.0
            weights += [[0.0, weight, 0.0] if branch.signal == "speak" else [0.0, 0.0, weight]] * length
    wanted = torch.tensor(targets, device=model.device)
    rows = (wanted != IGNORE_INDEX).nonzero()[:, 0]
    hidden = forward_layers(
        model.text_model, torch.cat(embedded), torch.cat(positions, -1), _TrainingAttention(parts), read_rows=rows
    )
    nll = cross_entropy(model.token_logits(hidden), wanted[rows], reduction="none")
    weighed = nll[:, None] * torch.tensor(weights, device=model.device)[rows]
    return weighed.sum(0)


def _list_pieces(sequence: TrainingSequence, frames: Tensor, *, per_frame: int) -> list[int | Tensor]:
    """Return the tokens of a sequence, with one piece for all tokens of a frame."""
    pieces = list[int | Tensor]()
    first = min(at for at in sequence.frames if at != IGNORE_INDEX)
    for token, at in zip(sequence.ids, sequence.frames, strict=True):
        if at == IGNORE_INDEX:
            pieces.append(token)
        elif at % per_frame == 0:
            pieces.append(frames[(at - first) // per_frame])
    return pieces
