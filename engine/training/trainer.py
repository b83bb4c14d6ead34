"""The training loop: batches in, one optimiser step of an objective and its losses out; and a dry run of it.

A step does not depend on the state of any random generator, so that a run that continues from a saved state equals one
that was never interrupted.
"""

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from stepscope.engine.errors import EngineError
from stepscope.engine.inference.memory import peak_memory_mb
from stepscope.engine.training.config import TrainConfig
from stepscope.engine.training.processes import ALONE, Processes

_NUM_WATCHED = 10
"""Steps over which the loss is averaged to find a divergence."""
_STATE_NAMES = ("exp_avg", "exp_avg_sq", "step")
_MAX_GRADIENT_NORM = 1.0
B = TypeVar("B")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLosses:
    """The losses of one step, in all processes together."""

    total: float
    parts: Mapping[str, float]
    """Its parts by the names of the objective; nan for a part without labels."""

    def __str__(self) -> str:
        """Return the parts as text; ``-`` for one without labels."""
        return ", ".join(
            f"{name}={'-' if math.isnan(loss) else format(loss, '.3f')}" for name, loss in self.parts.items()
        )


class Objective(ABC, Generic[B]):
    """A loss of a model on batches of type ``B``, which a trainer minimises."""

    model: nn.Module
    """The model; its parameters that require a gradient are trained."""
    config: TrainConfig
    loss_names: tuple[str, ...]
    """Names of the parts of the loss."""
    guess_loss = 0.0
    """Loss of a uniform guess; 0 if it is unknown."""

    @abstractmethod
    def backward(self, batch: B, *, seed: int, processes: Processes) -> StepLosses:
        """Add the gradient of the share of this process in a batch; return the losses.

        All random numbers follow from ``seed``, which is different for each step.
        """

    def state(self) -> dict[str, Any]:
        """Return plain values from which ``load_state`` continues exactly: beside the model, if a step needs more."""
        return {}

    def load_state(self, values: Mapping[str, Any]) -> None:
        """Continue from a state."""


class DivergedError(EngineError):
    """A training run whose loss is not finite, or far above its start."""


@dataclass(slots=True)
class _DivergenceWatch:
    """Raises ``DivergedError`` for a loss that is not finite, or whose mean over ten steps is far above its start.

    The limit is the larger of three times the first loss, which no step has changed, and three times the loss of a
    uniform guess.
    """

    guess_loss: float
    first: list[float] = field(default_factory=list)
    """The first loss; empty before it."""
    recent: "deque[float]" = field(default_factory=lambda: deque(maxlen=_NUM_WATCHED))

    def add(self, loss: float, step: int) -> None:
        if not math.isfinite(loss):
            raise DivergedError(f"the loss of step {step} is {loss}: training diverged; lower --learning-rate")
        if not self.first:
            self.first.append(loss)
        self.recent.append(loss)
        mean, start = sum(self.recent) / len(self.recent), self.first[0]
        if len(self.recent) == _NUM_WATCHED and mean > 3 * max(start, self.guess_loss):
            raise DivergedError(
                f"the loss rose from {start:.3g} to {mean:.3g} by step {step}: training diverged; lower --learning-rate"
            )


class Trainer(Generic[B]):
    """Trains the parameters of a model that require a gradient.

    Parameters that do not require a gradient are not changed. ``rates`` are factors of the learning rate by prefix of a
    parameter's name; ``warmup`` is the fraction of the steps in which it rises to its peak. All processes receive the
    same batches and share each.
    """

    def __init__(
        self,
        objective: Objective[B],
        *,
        rates: Mapping[str, float] | None = None,
        warmup: float = 0.08,
        processes: Processes = ALONE,
    ) -> None:
        self.objective, self.model, self.config = objective, objective.model, objective.config
        self._processes = processes
        self.num_steps_done = 0
        self._optimizer, self._schedule = _make_optimizer(self.model, self.config, rates or {}, warmup)
        self._watch = _DivergenceWatch(guess_loss=objective.guess_loss)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def step(self, batch: B) -> StepLosses:
        """Train on one batch; return its losses.

        Raises ``DivergedError``; the step that diverged has changed no weight if its loss is not finite.
        """
        config, number = self.config, self.num_steps_done
        self.model.train()
        self._optimizer.zero_grad()
        losses = self.objective.backward(batch, seed=(config.seed << 32) + number, processes=self._processes)
        self._processes.add_gradients(self.model)
        self._watch.add(losses.total, number + 1)
        nn.utils.clip_grad_norm_(self.model.parameters(), _MAX_GRADIENT_NORM)
        self._optimizer.step()
        self._schedule.step()
        self.num_steps_done += 1
        return losses

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors, and the plain values, from which ``load_state`` continues exactly."""
        tensors = {}
        for name, parameter in self._trained().items():
            tensors[f"model.{name}"] = parameter.detach()
            for key, value in self._optimizer.state.get(parameter, {}).items():
                tensors[f"{key}.{name}"] = value
        groups = [{k: v for k, v in group.items() if k != "params"} for group in self._optimizer.param_groups]
        schedule = {
            k: v for k, v in self._schedule.state_dict().items() if isinstance(v, int | float) and k != "total_steps"
        }
        watch = {"first": self._watch.first, "recent": list(self._watch.recent)}
        values = {"step": self.num_steps_done, "groups": groups, "schedule": schedule, "watch": watch}
        return tensors, {**values, "objective": self.objective.state()}

    def load_state(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Continue from a state. Raises ``ValueError`` if it is of different parameters."""
        trained = self._trained()
        if {f"model.{name}" for name in trained} != {name for name in tensors if name.startswith("model.")}:
            raise ValueError("the saved state trains other parameters; continue with the settings of its run")
        with torch.no_grad():
            for name, parameter in trained.items():
                parameter.copy_(tensors[f"model.{name}"])
                found = {key: tensors[f"{key}.{name}"] for key in _STATE_NAMES if f"{key}.{name}" in tensors}
                if found:
                    self._optimizer.state[parameter] = {
                        key: value.clone() if key == "step" else value.clone().to(parameter.device)
                        for key, value in found.items()
                    }
        for group, kept in zip(self._optimizer.param_groups, values["groups"], strict=True):
            group.update({key: tuple(value) if isinstance(value, list) else value for key, value in kept.items()})
        self._schedule.load_state_dict(dict(values["schedule"]))
        self._watch.first = list(values["watch"]["first"])
        self._watch.recent = deque(values["watch"]["recent"], maxlen=_NUM_WATCHED)
        self.num_steps_done = int(values["step"])
        self.objective.load_state(values["objective"])

    def _trained(self) -> dict[str, nn.Parameter]:
        return {name: one for name, one in self.model.named_parameters() if one.requires_grad}


def _make_optimizer(
    model: nn.Module, config: TrainConfig, rates: Mapping[str, float], warmup: float
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
        optimizer, max_lr=list(groups), total_steps=max(config.num_steps, 2) + 1, pct_start=warmup
    )
    return optimizer, schedule


NUM_STEPS = 20
_NUM_WARM = 2
"""First steps that are not timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Time and memory of a run."""

    num_steps: int
    step_s: float
    """Median seconds per step."""
    total_steps: int
    peak_memory_mb: float
    """MiB: of the GPU if it is used, else of this process."""
    disk_bytes: int
    validation_s: float = 0.0
    """Seconds of all validations together; 0 without validation data."""

    @property
    def training_s(self) -> float:
        """Seconds of all steps together, without validations."""
        return self.step_s * self.total_steps


def predict(trainer: Trainer[B], batches: Iterator[B], *, disk_bytes: int) -> Prediction:
    """Train a few steps and predict the cost of the whole run. The weights change."""
    seconds = []
    for batch in islice(batches, min(NUM_STEPS, trainer.config.num_steps)):
        start_s = time.perf_counter()
        trainer.step(batch)
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        seconds.append(time.perf_counter() - start_s)
    timed = sorted(seconds[_NUM_WARM:] or seconds)
    return Prediction(
        num_steps=len(seconds),
        step_s=timed[len(timed) // 2] if timed else 0.0,
        total_steps=trainer.config.num_steps,
        peak_memory_mb=peak_memory_mb(trainer.device),
        disk_bytes=disk_bytes,
    )
