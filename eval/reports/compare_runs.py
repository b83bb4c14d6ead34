"""Comparison of two run folders of one split with the statistics of ``eval.reports.statistics``.

Videos that are unfinished in either run are left out and listed. Text scores, which are scores of a corpus, are not
compared.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.counts import NO_INTERVAL
from stepscope.eval.metrics.definitions import MACHINE_SCORES, METRICS, NAMES_BY_GROUP, NUM_FAILURES, ROOTS
from stepscope.eval.metrics.failures import LATE_S, failure_score
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.metrics.score import VideoAnalysis, VideoCounts, score_counts
from stepscope.eval.reports.scoring import ScoreSettings, make_analyzer
from stepscope.eval.reports.statistics import (
    ComparedTurn,
    Difference,
    WrongIn,
    compare_scores,
    compare_turns,
    correct_differences,
)
from stepscope.eval.runs.folder import RunFolder, explain_missing
from stepscope.eval.runs.roots import DIAGNOSIS_FILE, TracedVideo, read_roots

FEW_VIDEOS: Final = 20
"""With fewer videos, bootstrap intervals are too narrow; see ``eval.metrics.definitions``."""
FAILURE_SCORES: Final = (NUM_FAILURES, ROOTS, *map(failure_score, FAILURE_KINDS))
"""The number of failures, in total, of their roots and of each kind; no further counts are compared."""
_STATE_FAILURES: Final = frozenset(failure_score(kind) for kind in FAILURE_KINDS if kind.endswith(("update", "state")))
RESPONSE_FAILURES: Final = "response failures"
"""Name of the total where updates and states, and so their failures, are not compared."""
_SKIPPED: Final = {"frames_per_s"} | NAMES_BY_GROUP["Teacher-forced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedVideo:
    """One video in both runs."""

    video_id: str
    scores: tuple[Mapping[str, float], Mapping[str, float]]
    """All scores in run A and in run B."""
    turns: tuple[ComparedTurn, ...]
    """The assistant's and update turns of the reference that both runs reached; no updates if a run has no states."""

    def count(self, wrong_in: WrongIn) -> int:
        """Return the number of turns that are wrong in exactly these runs."""
        return sum(turn.wrong_in == wrong_in for turn in self.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRoot:
    """A root of one run, or of both: those of a video that are at most ``LATE_S`` apart are one."""

    video_id: str
    time_s: float
    """In A, or in B if only B has it."""
    wrong_in: WrongIn
    """Never ``neither``."""
    causes: tuple[str, str]
    """Its class in A and in B; empty where it is no root."""
    num_failures: tuple[int, int]
    """Failures of A and of B that begin there or follow from it."""


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
    states_problem: str = ""
    """Why updates and states are not compared; empty if they are."""
    roots_problem: str = ""
    """Why roots are not compared; empty if they are, and if neither run has a diagnosis."""
    roots: tuple[ComparedRoot, ...] | None = None
    """Those only in B, only in A, and in both, the most failures first; None if they are not compared."""

    def describe_roots(self) -> str:
        """Return how many roots only B has, only A has, and both have, with their failures; empty without ``roots``."""
        parts = []
        for wrong_in, verb in (("only B", "new in B"), ("only A", "gone"), ("both", "in both")):
            found = [root for root in self.roots or () if root.wrong_in == wrong_in]
            in_a, in_b = (sum(root.num_failures[run] for root in found) for run in (0, 1))
            failures = f"{in_a} in A, {in_b} in B" if wrong_in == "both" else in_a + in_b
            parts.append(f"{len(found)} {verb} ({failures})")
        return "" if self.roots is None else f"First mistakes (with the failures of their chains): {', '.join(parts)}"

    @property
    def labels(self) -> Mapping[str, str]:
        """Names of scores that count less than their own name says."""
        return {NUM_FAILURES: RESPONSE_FAILURES} if self.states_problem else {}


def find_common_split(a: RunFolder, b: RunFolder, *, given: Path | None = None) -> Path:
    """Return the file of the split of two runs, or ``given``. Raises ``ValueError`` unless they can be compared."""
    paths = a.split_path(), b.split_path()
    if a.path.resolve() == b.path.resolve():
        raise ValueError(f"{a.path} and {b.path} are the same run; give two")
    if given is None and paths[0] != paths[1]:
        raise ValueError(f"the runs are of different splits, {paths[0]} and {paths[1]}; give --split to choose one")
    return given or paths[0]


def compare_runs(
    a: Path, b: Path, split: Split, settings: ScoreSettings, *, encode: Encode, num_resamples: int = 1000
) -> Comparison:
    """Compare two run folders of ``split``.

    Raises ``ValueError`` if they have no finished video in common.
    """
    folders = (RunFolder(a), RunFolder(b))
    analyzed, left_out = _analyze_both(folders, split, settings, encode)
    shown = [
        metric.name
        for metric in METRICS
        if metric.name in FAILURE_SCORES or not (metric.is_detail or metric.is_count or metric.name in _SKIPPED)
    ]
    problem = "; ".join(f"{folder.path.name} has none" for folder in folders if not folder.has_states())
    hidden = _STATE_FAILURES if problem else frozenset[str]()
    of_a, of_b = ([analysis.counts for analysis in of_run] for of_run in zip(*analyzed.values(), strict=True))
    differences = compare_scores(of_a, of_b, kind=VideoCounts, score=score_counts, num_resamples=num_resamples)
    times_problem = _explain_time_difference(folders, list(analyzed))
    roles = {"assistant", "update"} if all(folder.has_states() for folder in folders) else {"assistant"}
    compared = {
        name: _drop_test(found, keeps_difference=not times_problem) if name in MACHINE_SCORES else found
        for name in shown
        if name not in hidden
        and (found := differences.get(name)) is not None
        and not (math.isnan(found.a) or math.isnan(found.b))
    }
    return Comparison(
        differences=correct_differences(compared),
        videos=tuple(
            _compare_video(sample, *analyzed[sample.video_id], roles=roles, hidden=hidden)
            for sample in split.samples
            if sample.video_id in analyzed
        ),
        left_out=left_out,
        times_problem=times_problem,
        states_problem=problem,
        roots_problem=_explain_unknown_roots(folders, [of_a, of_b]),
        roots=_compare_roots(folders, list(analyzed)) if ROOTS in compared else None,
    )


def score_both(
    a: Path, b: Path, split: Split, settings: ScoreSettings, metric: str, *, encode: Encode
) -> list[tuple[str, float, float]]:
    """Return each compared video with a score in both runs, in the order of the split. Raises as ``compare_runs``."""
    analyzed, _ = _analyze_both((RunFolder(a), RunFolder(b)), split, settings, encode)
    return [
        (video_id, score_counts(of_a.counts)[metric], score_counts(of_b.counts)[metric])
        for video_id, (of_a, of_b) in analyzed.items()
    ]


def _analyze_both(
    folders: tuple[RunFolder, RunFolder], split: Split, settings: ScoreSettings, encode: Encode
) -> tuple[dict[str, tuple[VideoAnalysis, VideoAnalysis]], dict[str, str]]:
    """Return the analyses in both runs by video, and ``Comparison.left_out``."""
    counts_states = all(folder.has_states() for folder in folders)
    first, second = (make_analyzer(folder, settings, encode=encode, counts_states=counts_states) for folder in folders)
    analyzed: dict[str, tuple[VideoAnalysis, VideoAnalysis]] = {}
    left_out: dict[str, str] = {}
    for sample in split.samples:
        records = [(folder.path.name, folder.record(sample.video_id)) for folder in folders]
        if unfinished := [name for name, record in records if explain_missing(sample, record)]:
            left_out[sample.video_id] = f"not finished in {' and '.join(unfinished)}"
            continue
        try:
            analyzed[sample.video_id] = first(sample), second(sample)
        except ValueError as error:
            left_out[sample.video_id] = str(error)
    if not analyzed:
        names = " and ".join(folder.path.name for folder in folders)
        raise ValueError(f"{names} have no finished video in common; compare runs of one split")
    return analyzed, left_out


def _compare_video(
    sample: Sample, a: VideoAnalysis, b: VideoAnalysis, *, roles: Set[str], hidden: Set[str]
) -> ComparedVideo:
    not_compared = dict.fromkeys(hidden, math.nan)
    num_frames = min(a.counts.system.num_frames, b.counts.system.num_frames)
    references = [
        number
        for number, turn in enumerate(sample.turns)
        if turn.role in roles and frame_at(turn.time_s, sample.fps) < num_frames
    ]
    return ComparedVideo(
        video_id=sample.video_id,
        scores=({**score_counts(a.counts), **not_compared}, {**score_counts(b.counts), **not_compared}),
        turns=tuple(compare_turns(a.judged, b.judged, references=references)),
    )


def _explain_unknown_roots(folders: Sequence[RunFolder], counts: Sequence[Sequence[VideoCounts]]) -> str:
    """Return why roots are not compared, if a run has a diagnosis."""
    has_diagnosis = any((folder.path / DIAGNOSIS_FILE).exists() for folder in folders)
    known = [not any(math.isnan(video.roots.num_roots) for video in of_run) for of_run in counts]
    names = [
        folder.path.name for folder, is_known in zip(folders, known, strict=True) if not is_known and has_diagnosis
    ]
    return f"{' and '.join(names)} has videos without a diagnosis, or with a stale one" if names else ""


def _compare_roots(folders: Sequence[RunFolder], video_ids: Sequence[str]) -> tuple[ComparedRoot, ...]:
    """Return the roots of videos whose diagnosis is known in both runs, in the order of ``Comparison.roots``."""
    of_a, of_b = (read_roots(folder) or {} for folder in folders)
    found = [root for name in video_ids for root in _pair_roots(of_a[name], of_b[name])]
    order: Sequence[WrongIn] = ("only B", "only A", "both")
    return tuple(sorted(found, key=lambda root: (order.index(root.wrong_in), -sum(root.num_failures))))


def _pair_roots(a: TracedVideo, b: TracedVideo) -> Iterator[ComparedRoot]:
    """Yield the roots of a video in two runs; of those that are near, the nearest are one."""
    counts = [Counter(failure.root for failure in video.failures) for video in (a, b)]
    distances = [(abs(x.time_s - y.time_s), i, j) for i, x in enumerate(a.roots) for j, y in enumerate(b.roots)]
    pairs = dict[int, int]()
    for distance, first, second in sorted(distances):
        if distance <= LATE_S and first not in pairs and second not in pairs.values():
            pairs[first] = second
    sides: list[tuple[int | None, int | None]] = [(i, pairs.get(i)) for i, _ in enumerate(a.roots)]
    for i, j in (*sides, *((None, j) for j, _ in enumerate(b.roots) if j not in pairs.values())):
        roots = (None if i is None else a.roots[i], None if j is None else b.roots[j])
        cause_a, cause_b = ("" if root is None else root.cause for root in roots)
        yield ComparedRoot(
            video_id=a.video_id,
            time_s=next(root.time_s for root in roots if root is not None),
            wrong_in="only B" if i is None else "only A" if j is None else "both",
            causes=(cause_a, cause_b),
            num_failures=(0 if i is None else counts[0][i], 0 if j is None else counts[1][j]),
        )


def _explain_time_difference(folders: Sequence[RunFolder], video_ids: Sequence[str]) -> str:
    """Return a cause of different times beside the model; an empty text if none is known."""
    devices = [(folder.settings() or {}).get("devices") for folder in folders]
    if devices[0] != devices[1]:
        a, b = (", ".join(names or ["not known"]) for names in devices)
        return f"the devices differ: {a} in A, {b} in B"
    sizes = [{record.batch_size for name in video_ids if (record := folder.record(name))} for folder in folders]
    if sizes[0] != sizes[1]:
        shown = ["/".join(map(str, sorted(of_run))) or "not known" for of_run in sizes]
        return f"the numbers of videos per pass differ: {shown[0]}; {shown[1]}"
    for folder in folders:
        records = [folder.record(video_id) for video_id in video_ids]
        reused = sum(record is not None and record.reused_features is True for record in records)
        if reused:
            return f"{folder.path.name} reused kept embeddings in {reused} of {len(records)} videos"
    return ""


def _drop_test(found: Difference, *, keeps_difference: bool) -> Difference:
    """Return a time in two runs without a test: all videos of a run share the load of its machine."""
    difference = found.difference if keeps_difference else math.nan
    return replace(found, difference=difference, interval=NO_INTERVAL, p_value=math.nan, distance_p_value=None)
