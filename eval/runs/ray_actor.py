"""What lives on a node of a Ray cluster: an actor that loads the checkpoint once and runs one video after another.

It is a plain class without Ray; ``eval.runs.ray_pool`` has Ray make actors of it. What is wrong is answered, not raised, so
that nothing has to be pickled but records.
"""

import os
import socket
from dataclasses import dataclass

import torch
from transformers.utils import logging as transformers_logging

from engine.model.checkpoint import Checkpoint
from engine.loading import load_model
from engine.errors import EngineError
from eval.runs.local_pool import Place
from eval.data.samples import Sample
from eval.runs.worker import VideoResult, Work, run_sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """An actor has loaded the checkpoint."""

    host: str
    """Name of its machine."""
    pid: int
    """Its process there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An actor cannot go on: nothing will help (``is_final``), or its last words."""

    reason: str
    is_final: bool


class VideoActor:
    """A loaded checkpoint; ``num_done`` answers from a second thread while ``run`` is at work.

    Args:
        work: What is done with every video.
        place: Device and threads.
    """

    def __init__(self, work: Work, place: Place) -> None:
        self._work = work
        self._place = place
        self._checkpoint: Checkpoint | None = None
        self._num_done = 0

    def load(self) -> Ready | Trouble:
        """Load the checkpoint."""
        transformers_logging.disable_progress_bar()
        if self._place.num_threads is not None:
            torch.set_num_threads(self._place.num_threads)
        try:
            self._checkpoint = load_model(self._work.checkpoint, device=self._place.device, heads=self._work.heads)
        except (EngineError, ValueError, OSError) as error:
            return Trouble(reason=f"{socket.gethostname()}: {error}", is_final=True)
        return Ready(host=socket.gethostname(), pid=os.getpid())

    def run(self, sample: Sample) -> VideoResult | Trouble:
        """Run one video."""
        assert self._checkpoint is not None
        self._num_done = 0
        try:
            return run_sample(
                self._checkpoint, self._work, sample, device=self._place.device, on_frame=self._count_frames
            )
        except OSError as error:
            return Trouble(reason=f"{socket.gethostname()}: {error}", is_final=True)
        except Exception as error:
            return Trouble(reason=f"{type(error).__name__}: {error}", is_final=False)

    def num_done(self) -> int:
        """Return how many frames of the video at hand are done."""
        return self._num_done

    def _count_frames(self, num_done: int) -> None:
        self._num_done = num_done
