"""Measures a machine apart from the model: its name, the memory of a worker, imports and scoring."""

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Final, TypeVar

import torch

from eval.data.samples import Sample, Split
from eval.matching.sentence_encoders import load_encoder
from eval.metrics.score import list_references
from eval.metrics.text import TextScorer
from eval.planning.fitting import round_digits
from eval.reports.scoring import ScoreSettings, make_analyzer, score_run, write_tables
from eval.runs.batch import FinishedVideo, run_batch
from eval.runs.folder import RunFolder, digest_sample
from eval.runs.worker_messages import WorkerConfig

T = TypeVar("T")
_COPIES: Final = 4
"""Copies of each video that are scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringCost:
    """The cost of scoring a run."""

    score_s: float
    """CPU seconds of what starts with the command: Java and the sentence encoder."""
    video_s: float
    """CPU seconds of one video."""
    tables_s: float
    """Wall-clock seconds from the analysis of the last video to the tables."""
    run_bytes: float
    """Tables of a run folder, apart from the videos."""
    video_bytes: float
    """Record and table rows of one video."""


def name_hardware(device: str) -> str:
    """Return the name of the processor, with the GPU if it is used, and the number of cores."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), processor)
    except OSError:
        processor = platform.processor() or platform.machine()
    gpu = f"{torch.cuda.get_device_name()}, " if device == "cuda" else ""
    return f"{gpu}{processor}, {os.cpu_count()} cores"


def run_worker(split: Split, config: WorkerConfig, out: Path, *, device: str) -> tuple[float, float]:
    """Run a split with one worker in a process of its own, all videos in flight; write the run folder ``out``.

    The first video runs alone at first, because of its head start. Returns the peak memory of its end and that of the
    run, in MiB. Raises ``ValueError`` if a video fails.
    """
    config = replace(config, batch_size=len(split.samples))
    devices = {"cpu": "cpu:1", "cuda": "cuda:0"}.get(device, device)
    peaks = list[float]()
    for event in run_batch(split, config, out=out, devices=devices):
        if isinstance(event, FinishedVideo):
            if event.record.error:
                raise ValueError(f"{event.record.video_id} cannot be measured: {event.record.error}")
            peaks.append(event.record.peak_memory_mb or 0.0)
    return min(peaks), max(peaks)


def measure_scoring(out: Path, split: Split, score: ScoreSettings) -> ScoringCost:
    """Return the cost of scoring the run folder ``out`` of a split.

    The cost of a video is the difference of two scorings: of ``out``, and of a folder beside it that has copies of the
    videos with other texts too. METEOR has the part of its table that all references need.
    """
    samples, both = list(split.samples), out.with_name(f"{out.name}-copies")
    load_s, encoder = timed(cpu_s, lambda: load_encoder(score.text_encoder))
    copytree(out, both)
    with RunFolder.open(both, RunFolder(both).settings() or {}, resume=True) as folder:
        copies = [_copy_video(folder, sample, number) for number in range(_COPIES) for sample in samples]
    references = list_references([*samples, *copies])
    with TextScorer(references=references) as scorer:
        scorer.score(references[:1], references[:1])  # keeps the part of the table

    def measure(folder: Path, scored: Sequence[Sample]) -> tuple[float, float, int]:
        """Return the CPU seconds until the last video is analysed, those to the tables, and the bytes of all files."""
        began_s = cpu_s()
        with TextScorer(references=references) as scorer:
            analyze = make_analyzer(RunFolder(folder), score, encode=encoder.encode)
            analyses = {sample.video_id: analyze(sample) for sample in scored}
            scorer.prepare([analysis.pairs for analysis in analyses.values()])
            finish = partial(
                score_run, folder, replace(split, entries=tuple(scored)), score, encode=encoder.encode, scorer=scorer
            )
            tables_s, _ = timed(time.perf_counter, lambda: write_tables(folder, finish(analyses=analyses), {}))
        num_bytes = sum(path.stat().st_size for path in folder.iterdir() if path.suffix != ".jsonl")
        return max(0.0, cpu_s() - began_s - tables_s), tables_s, num_bytes

    few_s, tables_s, few_bytes = measure(out, samples)
    many_s, _, many_bytes = measure(both, [*samples, *copies])
    video_s = max(0.0, many_s - few_s) / len(copies)
    video_bytes = (many_bytes - few_bytes) / len(copies)
    return ScoringCost(
        score_s=round_digits(load_s + max(0.0, few_s - len(samples) * video_s)),
        video_s=round_digits(video_s),
        tables_s=round_digits(tables_s),
        run_bytes=round_digits(max(0.0, few_bytes - len(samples) * video_bytes)),
        video_bytes=round_digits(video_bytes),
    )


def _copy_video(folder: RunFolder, sample: Sample, number: int) -> Sample:
    """Write a copy of a finished video into its run folder, with a number behind each of its responses."""
    record = folder.record(sample.video_id)
    assert record is not None
    turns = tuple(
        replace(turn, text=f"{turn.text} {number}") if turn.role == "assistant" else turn for turn in sample.turns
    )
    copy = replace(sample, video_id=f"{sample.video_id}-{number}", turns=turns)
    outputs = [
        replace(output, response=output.response and f"{output.response} {number}") for output in folder.outputs(sample)
    ]
    folder.save_video(replace(record, video_id=copy.video_id, source=digest_sample(copy)), outputs)
    return copy


def measure_imports(*modules: str) -> float:
    """Return the CPU seconds of importing modules in a process, as commands and workers import them."""
    began_s = cpu_s()
    program = "import sys; from engine.imports import import_uncollected; list(map(import_uncollected, sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", program, *modules], check=True)
    return cpu_s() - began_s


def cpu_s() -> float:
    """Return the CPU time of this process and of those that it started and that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def timed(clock: Callable[[], float], call: Callable[[], T]) -> tuple[float, T]:
    """Return the time of a call, and its result."""
    began_s = clock()
    result = call()
    return clock() - began_s, result


def best_time(clock: Callable[[], float], call: Callable[[], T]) -> tuple[float, T]:
    """Return the shorter time of two calls, and the result of that call."""
    return min((timed(clock, call) for _ in range(2)), key=lambda result: result[0])
