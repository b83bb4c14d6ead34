"""Runs a stage of the build in a training session, as ``stepscope train`` runs its own.

The session saves its state at intervals and at a signal, continues exactly, and ends at a divergence.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tqdm import tqdm

from stepscope.engine.cli.interrupts import deferred_interrupts
from stepscope.engine.training.config import Schedule
from stepscope.engine.training.session import Session, prepare_folder
from stepscope.engine.training.trainer import B, StepLosses, Trainer

INTERVAL: Final = 100
"""Steps between two saved states."""


def run_stage(
    folder: Path, trainer: Trainer[B], make_batches: Callable[[int], Iterator[B]], *, settings: Mapping[str, Any]
) -> None:
    """Train to the last step of a trainer, with a progress bar.

    The name of the session's folder is that of the stage; an interrupted session continues there. ``make_batches``
    takes the first step; ``settings`` must be equal to continue, beside those of the trainer.

    Raises:
        ValueError: The folder has a state of different settings.
        DivergedError: The loss is not finite, or far above its start.
    """
    prepare_folder(folder, needed_bytes=0, resume=True)
    with (
        deferred_interrupts() as check_stop,
        tqdm(total=trainer.config.num_steps, desc=folder.name, unit="step") as bar,
    ):
        session = Session(
            trainer,
            folder=folder,
            settings={**asdict(trainer.config), **settings},
            schedule=Schedule(interval=INTERVAL),
            validate=None,
            export=lambda: None,
            check_stop=check_stop,
        )
        with closing(session.run(make_batches)) as events:
            for event in events:
                bar.update(trainer.num_steps_done - bar.n)
                if isinstance(event, StepLosses):
                    bar.set_postfix_str(str(event), refresh=False)
