"""Fine-tunes a streaming model on annotated clips: LM loss on the turns, BCE on both heads.

A clip becomes one sequence like a stream's context. The LM labels are the tokens after an opening. The heads' labels
are at the last image token (does an update, a response follow) and at an update's ``<eos>`` (does one more update
follow). The labels of a frame with one update and one response::

    tokens   <image>  [DST]  S3          ->complete  <eos>  [ASST]  Good   <eos>
    targets  -        S3     ->complete  <eos>       -      Good    <eos>  -
    speak    1        -      -           -           -      -       -      -
    update   1        -      -           -           0      -       -      -
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from engine.dialogue import apply_update, initial_state
from engine.model.prompt import Prompt
from engine.model.smolvlm import StreamingModel
from engine.records import Step

IGNORE_INDEX = -100
"""Label that no loss counts, as in PyTorch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTurn:
    """One reference turn of a clip."""

    frame_index: int
    role: Literal["update", "user", "assistant"]
    """An update or a response, which follows the image of its frame, or a user turn, which precedes it."""
    text: str
    """The update, such as ``S3->start``, or the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingClip:
    """The annotation of one clip."""

    goal: str
    steps: tuple[Step, ...]
    turns: tuple[TrainingTurn, ...]
    """Reference turns in order; within a frame updates, user, assistant."""
    num_frames: int
    initial_state: Mapping[str, str] = field(default_factory=dict)
    """States of steps at the start; ``not_started`` for the rest."""


@dataclass(slots=True, kw_only=True)
class TrainingSequence:
    """A clip as tokens; all lists but ``ends`` have one entry per token."""

    ids: list[int] = field(default_factory=list)
    """Token ids; the image placeholder for the tokens of a frame."""
    frames: list[int] = field(default_factory=list)
    """Index of an image token in the clip's ``[T * I]`` features; -100 for text."""
    targets: list[int] = field(default_factory=list)
    """Next token to predict; -100 for no target."""
    speak: list[int] = field(default_factory=list)
    """Label of the speaking head, 1 or 0; -100 for no label. Likewise ``update``."""
    update: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Per frame, the number of tokens up to its end, including its turns."""

    def append(self, token: int, *, frame: int = IGNORE_INDEX) -> None:
        """Append one token without labels."""
        self.ids.append(token)
        self.frames.append(frame)
        for labels in (self.targets, self.speak, self.update):
            labels.append(IGNORE_INDEX)

    def append_turn(self, opening: int, words: Sequence[int], eos: int) -> None:
        """Append an assistant turn, with its words and ``<eos>`` as targets."""
        self.append(opening)
        for token in (*words, eos):
            self.targets[-1] = token
            self.append(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Training settings."""

    num_steps: int = 1000
    learning_rate: float = 1e-3
    """Peak of the one-cycle schedule."""
    weight_decay: float = 0.05
    decision_weight: float = 2.0
    """Weight of the two BCE losses relative to the LM loss."""
    positive_weight: float = 1.5
    """Weight of frames with a turn in the BCE."""
    negative_rate: float = 1.0
    """Fraction of the frames without a turn that the BCE counts, in (0, 1]."""
    clip_norm: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if a value is out of range."""
        if not (self.num_steps >= 0 and 0 <= self.learning_rate < 100):
            raise ValueError(
                f"num_steps and learning_rate must not be negative; got {self.num_steps}, {self.learning_rate}"
            )
        if not 0 < self.negative_rate <= 1:
            raise ValueError(f"negative_rate must be in (0, 1]; got {self.negative_rate}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Losses:
    """The loss of the turns' tokens and of both heads in one batch, each a mean over its labels; nan without labels."""

    text: Tensor
    """Cross-entropy, in nats."""
    speak: Tensor
    update: Tensor


def build_sequence(
    clip: TrainingClip, prompt: Prompt, *, tokens_per_frame: int = 1, first_frame: int = 0
) -> TrainingSequence:
    """Return a clip as tokens with labels, from ``first_frame`` on, with the system prompt of the state there."""
    state = initial_state(clip.steps, clip.initial_state)
    for turn in clip.turns:
        if turn.role == "update" and turn.frame_index < first_frame:
            state = dict(apply_update(state, turn.text).state)
    sequence = TrainingSequence()
    for token in prompt.schema(goal=clip.goal, steps=clip.steps, state=state):
        sequence.append(token)
    texts: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for turn in clip.turns:
        texts[turn.frame_index, turn.role].append(turn.text)
    for frame in range(first_frame, clip.num_frames):
        for token in chain.from_iterable(map(prompt.user_turn, texts[frame, "user"])):
            sequence.append(token)
        for index in range(tokens_per_frame):
            sequence.append(prompt.image_id, frame=frame * tokens_per_frame + index)
        sequence.speak[-1] = int(bool(texts[frame, "assistant"]))  # at the last image token
        for text in texts[frame, "update"]:
            sequence.update[-1] = 1  # at the last image token, or at the <eos> of the previous update
            sequence.append_turn(prompt.update_id, prompt.words(text), prompt.eos_id)
        sequence.update[-1] = 0  # no further update follows
        for text in texts[frame, "assistant"]:
            sequence.append_turn(prompt.response_id, prompt.words(text), prompt.eos_id)
        sequence.ends.append(len(sequence.ids))
    return sequence


def collate(sequences: Sequence[TrainingSequence], name: str) -> Tensor:
    """Pad the list ``name`` of every sequence to a tensor ``[B, L]``; ids with 0, labels with -100."""
    lists = [torch.tensor(getattr(sequence, name)) for sequence in sequences]
    return nn.utils.rnn.pad_sequence(lists, batch_first=True, padding_value=0 if name == "ids" else IGNORE_INDEX)


def stream_losses(
    model: StreamingModel,
    sequences: Sequence[TrainingSequence],
    images: Tensor,
    *,
    config: TrainConfig,
    random: torch.Generator,
) -> Losses:
    """Compute the losses of ``B`` sequences with the embeddings ``[N, D]`` of their image tokens, in order.

    ``random`` draws the negative labels ``[B, L]`` that the heads' losses count.
    """
    ids = collate(sequences, "ids").to(model.device)
    inputs = model.embed_tokens(ids).clone()
    inputs[collate(sequences, "frames") != IGNORE_INDEX] = images.to(inputs.dtype)
    hidden = model(inputs)
    targets = collate(sequences, "targets").to(model.device)
    is_target = targets != IGNORE_INDEX
    text = cross_entropy(model.token_logits(hidden[is_target]), targets[is_target])
    weight = torch.tensor(config.positive_weight, device=model.device)
    losses = []
    for name, head in (("speak", model.speaking_decision_head), ("update", model.dst_update_head)):
        labels = collate(sequences, name).to(model.device)
        drawn = torch.rand(labels.shape, generator=random).to(labels.device)
        counted = (labels == 1) | ((labels == 0) & (drawn < config.negative_rate))
        logits = head(hidden[counted].float())[:, 0]
        losses.append(binary_cross_entropy_with_logits(logits, labels[counted].float(), pos_weight=weight))
    return Losses(text=text, speak=losses[0], update=losses[1])


def train(
    model: StreamingModel,
    batches: Iterable[tuple[Sequence[TrainingSequence], Tensor]],
    *,
    config: TrainConfig,
    embed: Callable[[Tensor], Tensor] | None = None,
    rates: Mapping[str, float] | None = None,
) -> Iterator[Losses]:
    """Train on batches, one optimiser step each, and yield the losses of each step.

    A batch has sequences and the features ``[N, ...]`` of their image tokens; ``embed`` turns them into embeddings
    ``[N, D]``, by default with the model's projector. ``rates`` are factors of the learning rate by prefix of a
    parameter's name; parameters that do not require a gradient are not changed.
    """
    optimizer, schedule = _optimizer(model, config, rates or {})
    random = torch.Generator().manual_seed(config.seed)
    model.train()
    for sequences, features in islice(batches, config.num_steps):
        with torch.autocast(model.device.type, torch.bfloat16):
            images = (embed or model.embed_frames)(features)
            losses = stream_losses(model, sequences, images, config=config, random=random)
        loss = losses.text + config.decision_weight * (losses.speak + losses.update)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        optimizer.step()
        schedule.step()
        yield Losses(text=losses.text.detach(), speak=losses.speak.detach(), update=losses.update.detach())
    model.eval()


def _optimizer(
    model: StreamingModel, config: TrainConfig, rates: Mapping[str, float]
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            factor = next((rate for prefix, rate in rates.items() if name.startswith(prefix)), 1.0)
            groups.setdefault(factor * config.learning_rate, []).append(parameter)
    optimizer = torch.optim.AdamW(
        [{"params": parameters, "lr": rate} for rate, parameters in groups.items()],
        weight_decay=config.weight_decay,
        betas=(0.9, 0.98),
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=list(groups), total_steps=max(config.num_steps, 2) + 1, pct_start=0.08
    )
    return optimizer, schedule
