"""Train the text model to look up a part in its prompt: find the id of the step with a given noun.

Training on whole videos teaches counting instead. A lookup needs two circuits at once: the noun token must attend to
the id of its line, and the frame to its noun. So the curriculum starts with prompts of bare ids and nouns, and adds
words.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from stepscope.assets.scenes.recipes import FAMILIES, NOUNS, RECIPES
from stepscope.engine.model.prompt import Prompt
from stepscope.engine.model.smolvlm import StreamingModel
from stepscope.engine.records import Step
from stepscope.engine.training.config import TrainConfig
from stepscope.engine.training.objective import Batch, StreamObjective
from stepscope.engine.training.processes import Processes
from stepscope.engine.training.sequences import (
    IGNORE_INDEX,
    TrainingClip,
    TrainingSequence,
    TrainingTurn,
    build_sequence,
)
from stepscope.engine.training.trainer import StepLosses

LEVELS: Final = (
    *((2, 0.0), (3, 0.0), (3, 0.1), (3, 0.25), (3, 0.5), (4, 0.75)),
    *((5, 0.9), (5, 1.0), (6, 1.0), (7, 1.0)),
)
"""Curriculum: maximum number of steps, and the fraction of kept words that are neither nouns nor ids."""
MASTERED_LOSS: Final = 0.2
"""Mean loss per id, in nats, below which the next level starts."""
_STEP_NAMES = {
    noun: sorted({p.step_name for r in RECIPES.values() for p in r.parts if p.noun == noun}) for noun in NOUNS
}


class Lookups:
    """An iterable of lookup batches with a curriculum; pass the loss of each to ``observe``."""

    def __init__(self, prompt: Prompt, *, batch_size: int, seed: int) -> None:
        self.prompt, self.batch_size = prompt, batch_size
        self.level, self.recent_loss = 0, 1.0
        self._rng = np.random.default_rng([seed, 22])
        self._nouns = {prompt.words(f" {noun}")[0]: number for number, noun in enumerate(NOUNS)}
        self._ids = {prompt.words(f"S{number}")[-1] for number in range(1, 8)}

    def __iter__(self) -> Iterator[Batch]:
        """Yield sequences and, per image token, the index of the noun held ``[N]``."""
        while True:
            drawn = [self.draw() for _ in range(self.batch_size)]
            yield [sequence for sequence, _ in drawn], torch.tensor([noun for _, held in drawn for noun in held])

    def observe(self, loss: float) -> None:
        """Update the running loss; advance to the next level once the current one is mastered."""
        self.recent_loss = 0.9 * self.recent_loss + 0.1 * loss
        if self.recent_loss < MASTERED_LOSS and self.level < len(LEVELS) - 1:
            self.level, self.recent_loss = self.level + 1, 1.0

    def state(self) -> dict[str, Any]:
        """Return plain values from which ``load_state`` continues exactly."""
        return {"level": self.level, "recent_loss": self.recent_loss, "random": self._rng.bit_generator.state}

    def load_state(self, values: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.level, self.recent_loss = values["level"], values["recent_loss"]
        self._rng.bit_generator.state = values["random"]

    def draw(self) -> tuple[TrainingSequence, list[int]]:
        """Generate a procedure in which each part is taken once; only the ids are targets."""
        most_steps, kept = LEVELS[self.level]
        steps, nouns = random_steps(self._rng, int(self._rng.integers(max(2, most_steps - 2), most_steps + 1)))
        order = self._rng.permutation(len(steps)).tolist()
        turns = tuple(
            TrainingTurn(frame_index=frame, role="update", text=f"{steps[index].id}->start")
            for frame, index in enumerate(order)
        )
        goal = f"build the {self._rng.choice(FAMILIES)}"
        clip = TrainingClip(goal=goal, steps=steps, turns=turns, num_frames=len(steps))
        held = [nouns[index] for index in order]
        return self._thinned(build_sequence(clip, self.prompt), held, kept), held

    def _thinned(self, sequence: TrainingSequence, held: list[int], kept: float) -> TrainingSequence:
        """Drop prompt words other than nouns and the ids before them, and make the id the target of each frame."""
        first_frame = next(place for place, frame in enumerate(sequence.frames) if frame != IGNORE_INDEX)
        id_places = self._places_of_ids(sequence.ids[:first_frame])
        wanted = {*id_places, *id_places.values()}
        places = [
            place
            for place in range(len(sequence.ids))
            if place >= first_frame or place in wanted or self._rng.random() < kept
        ]
        ids_of = {self._nouns[sequence.ids[place]]: sequence.ids[before] for place, before in id_places.items()}
        targets = [target if target in self._ids else IGNORE_INDEX for target in sequence.targets]
        for place, frame in enumerate(sequence.frames):
            if frame != IGNORE_INDEX:
                targets[place] = ids_of[held[frame]]
        lists = {name: getattr(sequence, name) for name in ("ids", "frames", "speak", "update")} | {"targets": targets}
        return TrainingSequence(**{name: [values[place] for place in places] for name, values in lists.items()})

    def _places_of_ids(self, prompt: list[int]) -> Mapping[int, int]:
        """Map the position of each step's noun in the prompt to the position of its id.

        The prompt ``S2 attach the wheel S1 load the block``, one token per word, gives ``{3: 0, 7: 4}``.
        """
        places, last_id = {}, None
        for place, token in enumerate(prompt):
            if token in self._ids:
                last_id = place
            elif token in self._nouns and last_id is not None:
                places[place] = last_id
        return places


class LookupObjective(StreamObjective):
    """The loss of the ids, which also advances the curriculum."""

    loss_names = (*StreamObjective.loss_names, "level")

    def __init__(self, model: StreamingModel, config: TrainConfig, lookups: Lookups) -> None:
        super().__init__(model, config, embed=lambda held: embed_nouns(model, lookups.prompt, held))
        self._lookups = lookups

    def backward(self, batch: Batch, *, seed: int, processes: Processes) -> StepLosses:
        """Add the gradient of a batch, and pass its loss to the curriculum."""
        losses = super().backward(batch, seed=seed, processes=processes)
        level = self._lookups.level
        self._lookups.observe(losses.parts["text"])
        return StepLosses(total=losses.total, parts={**losses.parts, "level": level})

    def state(self) -> dict[str, Any]:
        """Return the state of the curriculum."""
        return self._lookups.state()

    def load_state(self, values: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._lookups.load_state(values)


def random_steps(rng: np.random.Generator, num_steps: int) -> tuple[tuple[Step, ...], list[int]]:
    """Return random steps with distinct nouns, and the indices of the nouns; the ids are mostly permuted."""
    nouns: list[int] = rng.choice(len(NOUNS), num_steps, replace=False).tolist()
    ids = rng.permutation(num_steps) + 1 if rng.random() < 0.85 else np.arange(num_steps) + 1
    steps = tuple(
        Step(id=f"S{number}", name=str(rng.choice(_STEP_NAMES[NOUNS[noun]])))
        for number, noun in zip(ids, nouns, strict=True)
    )
    return steps, nouns


def embed_nouns(model: StreamingModel, prompt: Prompt, held: Tensor) -> Tensor:
    """Return frame embeddings ``[N, D]`` of noun indices ``[N]``: the image token plus the noun's token."""
    words = [prompt.words(f" {noun}") for noun in NOUNS]
    assert all(len(word) == 1 for word in words), "the tokenizer was trained on these words"
    table = torch.tensor([word[0] for word in words])
    image = model.embed_tokens(torch.tensor([prompt.image_id]))
    return image + model.embed_tokens(table[held])
