"""Scoring that begins while videos still run: the sentence encoder, Java and the analysis of each finished video.

Videos are analysed while METEOR still starts, which takes seconds. Only time is saved: ``score_run`` computes the
missing parts, and its scores are the same.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self, TypeVar

from eval.data.samples import Sample
from eval.matching.text_encoder import TextEncoder
from eval.metrics.score import VideoAnalysis
from eval.metrics.text import TextPairs, TextScorer
from eval.reports.scoring import ScoreSettings, make_analyzer
from eval.runs.folder import RunFolder

T = TypeVar("T")
LoadEncoder = Callable[[str], TextEncoder]


class EarlyScoring(AbstractContextManager["EarlyScoring"]):
    """A thread that loads the encoder and analyses videos as they finish, and one that waits for Java.

    Args:
        folder: The run folder.
        settings: As for ``score_run``.
        scorer: An open ``TextScorer``.
        load: Loads the encoder.
    """

    def __init__(self, folder: Path, settings: ScoreSettings, scorer: TextScorer, *, load: LoadEncoder) -> None:
        self._folder, self._settings, self._scorer, self._load = folder, settings, scorer, load
        self._samples: SimpleQueue[Sample | None] = SimpleQueue()
        self._pairs: SimpleQueue[TextPairs | None] = SimpleQueue()
        self._analyses: dict[str, VideoAnalysis] = {}
        self._encoder: TextEncoder | None = None
        self._error: Exception | None = None
        self._is_stopped = False
        self._threads = [
            threading.Thread(target=self._run, name="early scoring", daemon=True),
            threading.Thread(target=self._run_java, name="early Java", daemon=True),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_stopped = True  # after an interrupt nothing more is analysed
        self._samples.put(None)
        if kind is not None:
            self._scorer.__exit__(kind, error, trace)  # the threads do not wait for METEOR's start
        self._join()  # a process must not end while a thread runs in a library

    def add(self, sample: Sample) -> None:
        """Analyse a video whose files are on disk."""
        self._samples.put(sample)

    def finish(self) -> tuple[TextEncoder, dict[str, VideoAnalysis]]:
        """Return the encoder and the analyses by video, once all are done. Raises as ``load``."""
        self._samples.put(None)
        self._join()
        if self._error is not None:
            raise self._error
        assert self._encoder is not None
        return self._encoder, self._analyses

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        try:
            self._encoder = self._load(self._settings.text_encoder)
            if self._is_stopped:
                return
            analyze = make_analyzer(RunFolder(self._folder), self._settings, encode=self._encoder.encode)
            while samples := self._take_all(self._samples):
                self._analyze_all(samples, analyze)
        except Exception as error:  # raised by ``finish``
            self._error = error
        finally:
            self._pairs.put(None)

    def _run_java(self) -> None:
        try:
            while pairs := self._take_all(self._pairs):
                self._scorer.prepare(pairs)
        except Exception as error:  # raised by ``finish``
            self._error = error

    def _take_all(self, queue: "SimpleQueue[T | None]") -> list[T]:
        """Wait for an item, and return it with those that have come since; nothing at the end."""
        taken = [queue.get()]
        with suppress(Empty):
            while taken[-1] is not None:
                taken.append(queue.get_nowait())
        if taken[-1] is None:
            queue.put(None)
        return [] if self._is_stopped else [item for item in taken if item is not None]

    def _analyze_all(self, samples: Sequence[Sample], analyze: Callable[[Sample], VideoAnalysis]) -> None:
        for sample in samples:
            try:
                analysis = analyze(sample)
            except ValueError:
                continue  # score_run reads the files again, and reports the reason
            self._analyses[sample.video_id] = analysis
            self._pairs.put(analysis.pairs)
