"""The processes of a data-parallel training run, as ``accelerate launch`` or ``torchrun`` starts them.

Every process draws the same batches and computes a part of each. Sums of losses and gradients are added over the
processes, so that the weights stay equal, and equal those of one process up to rounding. Without a launcher there is
one process, and nothing is imported or sent.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")
_TIMEOUT: Final = timedelta(days=1)
"""Maximum wait for the other processes, such as during a validation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """The processes of a run, seen from one of them."""

    count: int = 1
    index: int = 0
    device: str | None = None
    """Device of this process; None where the user chooses it."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.index == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Return every ``count``-th item, from ``index`` on."""
        return items[self.index :: self.count]

    def wait(self) -> None:
        """Wait for all processes (a barrier)."""
        self.gather([])

    def add(self, values: Tensor) -> Tensor:
        """Return the sum of a tensor over the processes."""
        if self.count == 1:
            return values
        from accelerate.utils import reduce  # noqa: PLC0415 - only a run of several processes needs it

        total: Tensor = reduce(values, reduction="sum")
        return total

    def add_gradients(self, model: nn.Module) -> None:
        """Replace the gradient of each trained parameter by its sum over the processes; one without is 0."""
        if self.count == 1:
            return
        for parameter in model.parameters():
            if parameter.requires_grad:
                gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad = self.add(gradient)

    def gather(self, items: list[T]) -> list[T]:
        """Return the items of all processes, those of the first one first."""
        if self.count == 1:
            return items
        from accelerate.utils import gather_object  # noqa: PLC0415 - only a run of several processes needs it

        found: list[T] = gather_object(items)
        return found

    def agree(self, check: Callable[[], Any]) -> None:
        """Call a function; if it raises in one process, raise in all, since the others would wait for that process.

        There it is the exception of the function, in the others ``KeyboardInterrupt``.
        """
        error: BaseException | None = None
        try:
            check()
        except BaseException as raised:
            error = raised
        if not any(self.gather([error is not None])):
            return
        raise error or KeyboardInterrupt

    def leave(self) -> None:
        """Close the connections between the processes."""
        if self.count > 1:
            from accelerate import PartialState  # noqa: PLC0415 - only a run of several processes needs it

            PartialState().destroy_process_group()


ALONE: Final = Processes()


def join_processes(device: str) -> Processes:
    """Join the processes that a launcher started; ``device`` is that of the options.

    Raises ``ValueError`` for a device with a number, since each process has its own.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return ALONE
    from accelerate import PartialState  # noqa: PLC0415 - only a run of several processes needs it

    if ":" in device:
        raise ValueError(f"--device {device} names one device; with several processes use cuda, cpu or auto")
    state = PartialState(cpu=device == "cpu" or not torch.cuda.is_available(), timeout=_TIMEOUT)
    return Processes(count=state.num_processes, index=state.process_index, device=str(state.device))
