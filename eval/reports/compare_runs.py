"""Comparison of two run folders of one split with the statistics of ``eval.reports.statistics``.

Videos that are unfinished in either run are left out and listed. Text scores, which are scores of a corpus, are not
compared.
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
from eval.metrics.score import VideoAnalysis, VideoCounts, score_counts
from eval.reports.scoring import ScoreSettings, make_analyzer
from eval.reports.statistics import ComparedTurn, Difference, WrongIn, compare_scores, compare_turns
from eval.runs.folder import RunFolder, explain_missing

FAILURE_SCORES: Final = (NUM_FAILURES, *map(failure_score, FAILURE_KINDS))
"""The number of failures, in total and of each kind; no further counts are compared."""
_BY_GROUP: Final = {group.name: frozenset(metric.name for metric in group.metrics) for group in GROUPS}
_TIMES: Final = _BY_GROUP["System"]
_SKIPPED: Final = {"frames_per_s"} | _BY_GROUP["Teacher-forced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedVideo:
    """One video in both runs."""

    video_id: str
    scores: tuple[Mapping[str, float], Mapping[str, float]]
    """All scores in run A and in run B."""
    turns: tuple[ComparedTurn, ...]
    """The assistant's and update turns of the reference that both runs reached."""

    def count(self, wrong_in: WrongIn) -> int:
        """Return the number of turns that are wrong in exactly these runs."""
        return sum(turn.wrong_in == wrong_in for turn in self.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two runs."""

    differences: Mapping[str, Difference]
    """Per compared score, in the order of the tables."""
    videos: tuple[ComparedVideo, ...]
    """In the order of the split."""
    left_out: Mapping[str, str]
    """Per video that is not compared, the reason."""
    times_problem: str = ""
    """Why differences of times are nan, although both values are given; empty if times are compared."""


def compare_runs(
    a: Path, b: Path, split: Split, settings: ScoreSettings, *, encode: Encode, num_resamples: int = 1000
) -> Comparison:
    """Compare two run folders of ``split``.

    Raises ``ValueError`` if they have no finished video in common.
    """
    folders = (RunFolder(a), RunFolder(b))
    analyzers = [make_analyzer(folder, settings, encode=encode) for folder in folders]
    counts: tuple[list[VideoCounts], list[VideoCounts]] = ([], [])
    videos: list[ComparedVideo] = []
    left_out: dict[str, str] = {}
    for sample in split.samples:
        unfinished = [path.name for path, folder in zip((a, b), folders, strict=True) if _is_missing(folder, sample)]
        if unfinished:
            left_out[sample.video_id] = f"not finished in {' and '.join(unfinished)}"
            continue
        try:
            analyses = [analyze(sample) for analyze in analyzers]
        except ValueError as error:
            left_out[sample.video_id] = str(error)
            continue
        for run_counts, analysis in zip(counts, analyses, strict=True):
            run_counts.append(analysis.counts)
        videos.append(_compare_video(sample, *analyses))
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
    times_problem = _explain_time_difference(folders, [video.video_id for video in videos])
    return Comparison(
        differences={
            name: _drop_difference(found) if times_problem and name in _TIMES else found
            for name in shown
            if (found := differences.get(name)) is not None and not (math.isnan(found.a) or math.isnan(found.b))
        },
        videos=tuple(videos),
        left_out=left_out,
        times_problem=times_problem,
    )


def _compare_video(sample: Sample, a: VideoAnalysis, b: VideoAnalysis) -> ComparedVideo:
    num_frames = min(a.counts.system.num_frames, b.counts.system.num_frames)
    return ComparedVideo(
        video_id=sample.video_id,
        scores=(score_counts(a.counts), score_counts(b.counts)),
        turns=tuple(compare_turns(a.judged, b.judged, references=_find_references(sample, num_frames))),
    )


def _explain_time_difference(folders: Sequence[RunFolder], video_ids: Sequence[str]) -> str:
    """Return a cause of different times beside the model; an empty text if none is known."""
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
            return f"{folder.path.name} may have reused kept embeddings; its version did not record it"
    return ""


def _drop_difference(found: Difference) -> Difference:
    return replace(found, difference=math.nan, interval=NO_INTERVAL, p_value=math.nan)


def _is_missing(folder: RunFolder, sample: Sample) -> bool:
    return bool(explain_missing(sample, folder.record(sample.video_id)))


def _find_references(sample: Sample, num_frames: int) -> Sequence[int]:
    return [
        number
        for number, turn in enumerate(sample.turns)
        if turn.role != "user" and frame_at(turn.time_s, sample.fps) < num_frames
    ]
