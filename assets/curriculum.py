"""Teaches the text model to follow procedures and to say what it will have to say, without video.

Procedures are made up from random nouns under permuted ids, and a frame is the noun in the hand, as the embedding of
its word. ``assets.lookups`` comes before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from assets.phrases import QUESTIONS, Progress, answer, introduce, praise, warn_unneeded
from assets.recipes import FAMILIES, NOUNS, RECIPES
from engine.dialogue import apply_update, initial_state
from engine.model import StreamingModel
from engine.prompt import Prompt
from engine.records import Step
from engine.train import TrainingClip, TrainingSequence, TrainingTurn, build_sequence

NOTHING = len(NOUNS)
"""In place of the index of a noun: nothing is held."""
MAX_STEPS = 7
_STEP_NAMES = {noun: sorted({p.step_name for r in RECIPES for p in r.parts if p.noun == noun}) for noun in NOUNS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A made-up clip."""

    clip: TrainingClip
    """Goal, steps and turns."""
    held: tuple[int, ...]
    """Per frame, the index of the noun in the hand, or ``NOTHING``."""


def random_steps(rng: np.random.Generator, num_steps: int) -> tuple[tuple[Step, ...], list[int]]:
    """Make up steps, each with a noun of its own, and return them with their nouns' indices; ids mostly permuted."""
    nouns = [int(noun) for noun in rng.choice(len(NOUNS), num_steps, replace=False)]
    ids = rng.permutation(num_steps) + 1 if rng.random() < 0.85 else np.arange(num_steps) + 1
    steps = tuple(
        Step(id=f"S{number}", name=str(rng.choice(_STEP_NAMES[NOUNS[noun]])))
        for number, noun in zip(ids, nouns, strict=True)
    )
    return steps, nouns


class _Writer:
    """Writes one procedure frame by frame."""

    def __init__(self, rng: np.random.Generator, num_steps: int) -> None:
        self.rng = rng
        self.steps, self.nouns = random_steps(rng, num_steps)
        self.decoy = int(rng.choice([noun for noun in range(len(NOUNS)) if noun not in self.nouns]))
        self.goal = str(rng.choice(FAMILIES))
        self.state = initial_state(self.steps)
        self.held: list[int] = []
        self.turns: list[TrainingTurn] = []

    def frame(self, held: int) -> None:
        self.held.append(held)

    def turn(self, role: str, text: str) -> None:
        """Add a turn at the last frame."""
        frame = len(self.held) - 1
        if role == "update":
            self.state = dict(apply_update(self.state, text).state)
            self.turns.append(TrainingTurn(frame_index=frame, role="update", text=text))
        else:
            self.turns.append(
                TrainingTurn(frame_index=frame, role="user" if role == "user" else "assistant", text=text)
            )

    @property
    def progress(self) -> Progress:
        return Progress(goal=self.goal, steps=self.steps, nouns=[NOUNS[n] for n in self.nouns], state=self.state)

    def start(self, index: int) -> None:
        """A frame on which a part is newly held, and sometimes one more."""
        self.frame(self.nouns[index])
        self.turn("update", f"{self.steps[index].id}->start")

    def complete(self, index: int, following: int | None) -> None:
        """A frame on which a part is placed; ``following`` is taken on the same frame."""
        self.frame(NOTHING if following is None else self.nouns[following])
        self.turn("update", f"{self.steps[index].id}->complete")
        if following is not None:
            self.turn("update", f"{self.steps[following].id}->start")
        self.turn("assistant", praise(self.progress))

    def aside(self) -> None:
        """A frame or two between steps: nothing, a part that is not needed, or a question."""
        drawn = self.rng.random()
        if drawn < 0.15:
            self.frame(self.decoy)
            self.turn("assistant", warn_unneeded(NOUNS[self.decoy]))
            self.frame(NOTHING)
        elif drawn < 0.4:
            self.frame(NOTHING)
            question = str(self.rng.choice(QUESTIONS))
            self.turn("user", question)
            self.turn("assistant", answer(question, self.progress))
        elif drawn < 0.7:
            self.frame(NOTHING)


def make_procedure(rng: np.random.Generator, *, num_steps: int) -> Procedure:
    """Make up a procedure of ``num_steps`` steps, done in recipe order or not."""
    writer = _Writer(rng, num_steps)
    writer.frame(NOTHING)
    writer.turn("assistant", introduce(writer.progress))
    order = list(range(num_steps)) if rng.random() < 0.3 else [int(i) for i in rng.permutation(num_steps)]
    is_started = False
    for position, index in enumerate(order):
        if not is_started:
            writer.aside()
            writer.start(index)
        if rng.random() < 0.4:
            writer.frame(writer.nouns[index])
        is_started = position + 1 < num_steps and rng.random() < 0.3
        writer.complete(index, order[position + 1] if is_started else None)
    clip = TrainingClip(
        goal=f"build the {writer.goal}",
        steps=writer.steps,
        turns=tuple(writer.turns),
        num_frames=len(writer.held),
    )
    return Procedure(clip=clip, held=tuple(writer.held))


def procedure_batches(prompt: Prompt, *, batch_size: int, seed: int) -> Iterator[tuple[list[TrainingSequence], Tensor]]:
    """Yield for ever sequences of procedures and, per image token, the index of the noun held ``[N]``."""
    rng = np.random.default_rng([seed, 21])
    while True:
        lengths = rng.integers(2, MAX_STEPS + 1, batch_size)
        procedures = [make_procedure(rng, num_steps=int(length)) for length in lengths]
        sequences = [build_sequence(procedure.clip, prompt) for procedure in procedures]
        yield sequences, torch.tensor([noun for procedure in procedures for noun in procedure.held])


def embed_nouns(model: StreamingModel, prompt: Prompt, held: Tensor) -> Tensor:
    """Embed nouns ``[N]`` as frames ``[N, D]``: the image token, plus the noun's word when one is held."""
    words = [prompt.words(f" {noun}") for noun in NOUNS]
    assert all(len(word) == 1 for word in words), "the tokenizer was trained on these words"
    table = torch.tensor([word[0] for word in words] + [prompt.image_id])
    is_held = (held != NOTHING).unsqueeze(1)
    image = model.embed_tokens(torch.tensor([prompt.image_id]))
    return image + model.embed_tokens(table[held]) * is_held
