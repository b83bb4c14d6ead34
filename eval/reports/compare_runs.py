"""Compares two run folders of one split with the statistics of ``eval.reports.statistics``.

Videos that either run did not finish are left out and named. Scores of texts are not compared: they are of a corpus.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from engine.records import frame_at
from eval.data.samples import Sample, Split
from eval.matching.turns import Encode
from eval.metrics.bootstrap import NO_INTERVAL
from eval.metrics.definitions import GROUPS, METRICS, NUM_FAILURES
from eval.metrics.failures import FAILURE_KINDS, failure_score
from eval.metrics.score import VideoCounts, score_counts, score_video
from eval.reports.scoring import ScoreSettings
from eval.reports.statistics import ComparedTurn, Difference, Who, compare_scores, compare_turns
from eval.runs.folder import RunFolder, why_missing

FAILURE_SCORES: Final = (NUM_FAILURES, *map(failure_score, FAILURE_KINDS))
"""The number of failures, in all and of each kind: the only counts that are compared."""
_SKIPPED: Final = ("num_frames", "frames_per_s")
_TIMES: Final = frozenset(metric.name for group in GROUPS if group.name == "System" for metric in group.metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedVideo:
    """One video in both runs."""

    video_id: str
    """Its name."""
    scores: tuple[Mapping[str, float], Mapping[str, float]]
    """All scores in A and in B."""
    turns: tuple[ComparedTurn, ...]
    """The assistant's and update turns of the reference that both runs reached."""

    def count(self, who: Who) -> int:
        """Return the number of turns that are wrong there."""
        return sum(turn.wrong_in == who for turn in self.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What differs between two runs."""

    differences: Mapping[str, Difference]
    """Per number of failures and score of the terminal, in the order of the tables: both values and what differs."""
    videos: tuple[ComparedVideo, ...]
    """In the order of the split."""
    left_out: Mapping[str, str]
    """Per video that is not compared, why."""
    times_problem: str = ""
    """Why times are not compared; empty when they are. Both runs' stand beside each other, without a difference."""


def compare_runs(
    a: Path, b: Path, split: Split, settings: ScoreSettings, *, encode: Encode, num_resamples: int = 1000
) -> Comparison:
    """Compare two run folders of ``split``.

    Raises ``ValueError`` when they have no finished video in common.
    """
    folders = (RunFolder(a), RunFolder(b))
    counts: tuple[list[VideoCounts], list[VideoCounts]] = ([], [])
    videos: list[ComparedVideo] = []
    left_out: dict[str, str] = {}
    for sample in split.samples:
        unfinished = [path.name for path, folder in zip((a, b), folders, strict=True) if _is_missing(folder, sample)]
        if unfinished:
            left_out[sample.video_id] = f"not finished in {' and '.join(unfinished)}"
            continue
        try:
            both = [folder.outputs(sample) for folder in folders]
        except ValueError as error:
            left_out[sample.video_id] = str(error)
            continue
        rows, judged = [], []
        for folder, outputs, of_run in zip(folders, both, counts, strict=True):
            dataset, zero_cost, illegal = settings.dataset, settings.zero_cost, folder.illegal_updates()
            scored = score_video(
                sample,
                outputs,
                encode=encode,
                dataset=dataset,
                zero_cost=zero_cost,
                illegal=illegal,
                has_states=folder.has_states(),
            )
            rows.append(scored.counts)
            judged.append(scored.judged)
            of_run.append(rows[-1])
        reached = min(len(outputs) for outputs in both)
        videos.append(
            ComparedVideo(
                video_id=sample.video_id,
                scores=(score_counts(rows[0]), score_counts(rows[1])),
                turns=tuple(compare_turns(judged[0], judged[1], references=_references(sample, reached))),
            )
        )
    if not videos:
        raise ValueError(f"{a.name} and {b.name} have no finished video in common; compare runs of one split")
    shown = [
        metric.name
        for metric in METRICS
        if metric.name in FAILURE_SCORES or not (metric.is_detail or metric.is_count or metric.name in _SKIPPED)
    ]
    differences = compare_scores(
        counts[0], counts[1], kind=VideoCounts, score=score_counts, num_resamples=num_resamples
    )
    times_problem = _why_times_differ(folders, [video.video_id for video in videos])
    return Comparison(
        differences={
            name: _uncompared(found) if times_problem and name in _TIMES else found
            for name in shown
            if (found := differences.get(name)) is not None and not (math.isnan(found.a) or math.isnan(found.b))
        },
        videos=tuple(videos),
        left_out=left_out,
        times_problem=times_problem,
    )


def _why_times_differ(folders: Sequence[RunFolder], video_ids: Sequence[str]) -> str:
    """Say what else than the model makes the times of two runs differ; nothing where nothing is known to."""
    devices = [(folder.settings() or {}).get("devices") for folder in folders]
    if devices[0] != devices[1]:
        ran = [", ".join(map(str, of_run)) if isinstance(of_run, list) else "not known" for of_run in devices]
        return f"the devices differ: {ran[0]}; {ran[1]}"
    for folder in folders:
        records = [folder.record(video_id) for video_id in video_ids]
        reused = sum(record is not None and record.reused_features is True for record in records)
        if reused:
            return f"{folder.path.name} reused kept embeddings in {reused} of {len(records)} videos"
        may_reuse = (folder.settings() or {}).get("kept_features", False)
        if may_reuse and any(record is None or record.reused_features is None for record in records):
            return f"{folder.path.name} may have reused kept embeddings; it is too old to say"
    return ""


def _uncompared(found: Difference) -> Difference:
    return replace(found, difference=math.nan, interval=NO_INTERVAL, p_value=math.nan)


def _is_missing(folder: RunFolder, sample: Sample) -> bool:
    return bool(why_missing(sample, folder.record(sample.video_id)))


def _references(sample: Sample, num_frames: int) -> Sequence[int]:
    return [
        number
        for number, turn in enumerate(sample.turns)
        if turn.role != "user" and frame_at(turn.time_s, sample.fps) < num_frames
    ]
