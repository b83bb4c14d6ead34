"""A worker: a loaded checkpoint that runs the videos it receives, several in one forward pass, in any process."""

import time
import traceback
from collections.abc import Generator, Iterator
from typing import Protocol

import torch
from transformers.utils import logging as transformers_logging

from stepscope.engine.errors import EngineError
from stepscope.engine.inference.memory import choose_batch_size
from stepscope.engine.loading import load_as
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.encoder_pool import count_cores
from stepscope.engine.video.hardware import check_hardware
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.streaming.teacher_forcing import check_positions
from stepscope.eval.runs.streaming.video_runs import run_samples
from stepscope.eval.runs.worker_messages import (
    REPORT_INTERVAL_S,
    FramesDone,
    VideoResult,
    WorkerConfig,
    WorkerError,
    WorkerReady,
    WorkerSpec,
)


class Receive(Protocol):
    """Receives the next sample of a worker."""

    def __call__(self, *, should_wait: bool) -> Sample | None:
        """Return the next sample; without ``should_wait`` None if there is none yet. Raises ``EOFError`` at the end."""


class Worker:
    """A worker in its own process. Errors are returned, not raised, so that only records are pickled.

    A subclass may do something else than run its videos; see ``WorkerConfig.worker_module``.
    ``host`` is the name of its machine; empty for this one.
    """

    def __init__(self, worker_config: WorkerConfig, spec: WorkerSpec, *, host: str = "") -> None:
        self._config, self._spec, self._host = worker_config, spec, host
        self._checkpoint: Checkpoint | None = None
        self._num_running, self._batch_size = 0, 1

    def load(self) -> WorkerReady | WorkerError:
        """Load the checkpoint; on a cluster, only a worker can find out whether its device decodes videos."""
        try:
            check_hardware(self._config.hardware_decoding, [self._spec.device])
            transformers_logging.disable_progress_bar()  # of several processes on one terminal
            self._checkpoint = load_checkpoint(self._config, self._spec)
            if self._config.live:
                check_positions(self._checkpoint)
            self._batch_size = self._config.batch_size or choose_batch_size(
                self._checkpoint.model, self._config.config, num_sharing=self._spec.num_sharing
            )
        except (EngineError, ValueError, OSError) as error:
            return self._final_error(error)
        return WorkerReady(host=self._host, num_videos=self._batch_size)

    def run(self, receive: Receive) -> Generator[FramesDone | VideoResult | WorkerError]:
        """Run the samples that ``receive`` returns, up to its end; see ``run_samples``.

        An error that belongs to no video is the last event.
        """
        assert self._checkpoint is not None
        try:
            events = self._run_samples(self._checkpoint, self._receive_all(receive))
            reported_s: dict[str, float] = {}
            for event in events:
                now_s = time.monotonic()
                if isinstance(event, VideoResult):
                    self._num_running -= 1
                    reported_s.pop(event.record.video_id, None)
                    yield event
                elif event.usage is not None or now_s - reported_s.get(event.video_id, 0.0) > REPORT_INTERVAL_S:
                    reported_s[event.video_id] = now_s
                    yield event
        except OSError as error:
            yield self._final_error(error)
        except Exception as error:
            traceback.print_exc()
            yield WorkerError(reason=f"{type(error).__name__}: {error}", is_final=False)

    def _run_samples(
        self, checkpoint: Checkpoint, samples: Iterator[Sample | None]
    ) -> Iterator[FramesDone | VideoResult]:
        return run_samples(
            checkpoint,
            self._config,
            samples,
            device=self._spec.device,
            batch_size=self._batch_size,
            num_cores=count_cores(num_sharing=self._spec.num_sharing),
        )

    def _receive_all(self, receive: Receive) -> Iterator[Sample | None]:
        while True:
            try:
                sample = receive(should_wait=self._num_running == 0)
            except EOFError:
                return
            self._num_running += sample is not None
            yield sample

    def _final_error(self, error: Exception) -> WorkerError:
        return WorkerError(reason=f"{self._host}: {error}" if self._host else str(error), is_final=True)


def load_checkpoint(worker_config: WorkerConfig, spec: WorkerSpec) -> Checkpoint:
    """Load the checkpoint in a worker's own process, with its number of torch threads. Raises as ``load_model``."""
    if spec.num_threads is not None:
        torch.set_num_threads(spec.num_threads)
    return load_as(worker_config, device=spec.device)
