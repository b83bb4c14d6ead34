"""The rows of a table of runs: run folders of one split, and baselines, each with its outputs and counts per video."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from stepscope.engine.dialogue import initial_state
from stepscope.engine.records import FrameOutput, frame_at, unknown_output
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.matching.grading import Grade, RememberedGrades
from stepscope.eval.metrics.replies.turn_taking import spoken_texts
from stepscope.eval.protocols.rules import Rule, RuleCounts
from stepscope.eval.runs.folder import RunFolder, explain_unscored

SHIFT_S: Final = 1.0
"""Delay of the replies of the shifted reference, in seconds."""
ABOUT: Final = "Baselines repeat the text of the nearest reference, so they rate timing alone; they are not compared."
Outputs = Callable[[Sample], Sequence[FrameOutput]]


def list_baselines(runs: Mapping[str, Outputs]) -> dict[str, Outputs]:
    """Return the baselines by name; one is random at the rate of each of the runs."""
    return {
        "always silent": partial(_speak_at, frames=lambda _: ()),
        "always speaking": partial(_speak_at, frames=lambda sample: range(sample.num_frames)),
        f"reference {SHIFT_S:g} s late": partial(_speak_at, frames=_shift_reference),
        **{
            f"random at the rate of {name}": partial(_speak_at, frames=partial(_draw_frames, outputs=outputs))
            for name, outputs in runs.items()
        },
    }


def _speak_at(sample: Sample, *, frames: Callable[[Sample], Iterable[int]]) -> list[FrameOutput]:
    """Return outputs that speak at some frames of a video."""
    spoken = set(frames(sample))
    turns = [turn for turn in sample.turns if turn.role == "assistant"]
    state = initial_state(sample.steps, sample.initial_state)
    outputs = []
    for index in range(sample.num_frames):
        nearest = min(turns, key=lambda turn: abs(turn.time_s - index / sample.fps), default=None)
        silent = unknown_output(index, fps=sample.fps, dst_state=state)
        outputs.append(replace(silent, response=nearest.text) if nearest is not None and index in spoken else silent)
    return outputs


def _shift_reference(sample: Sample) -> list[int]:
    return [frame_at(turn.time_s + SHIFT_S, sample.fps) for turn in sample.turns if turn.role == "assistant"]


def _draw_frames(sample: Sample, *, outputs: Outputs) -> list[int]:
    """Return as many random frames as a run speaks at; the same in each call."""
    rng = np.random.default_rng(list(sample.video_id.encode()))
    number = min(len(spoken_texts(outputs(sample))), sample.num_frames)
    drawn: list[int] = rng.choice(sample.num_frames, size=number, replace=False).tolist()
    return drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row: a run, or a baseline."""

    outputs: Outputs
    has_states: bool
    is_baseline: bool = False

    def explain_undefined(self, rule: Rule, samples: Sequence[Sample]) -> str:
        """Return the reason why it has no scores under a rule; empty if it has."""
        return rule.explain_undefined(samples, has_states=self.has_states)

    def count(self, rules: Sequence[Rule], samples: Sequence[Sample], *, grade: Grade) -> list[list[RuleCounts]]:
        """Return, per rule, the counts of each video; all are 0, so that scores are nan, where it is undefined."""
        remembered = RememberedGrades(grade)
        grades = [rule.choose_grade(samples, remembered) for rule in rules]
        is_undefined = [bool(self.explain_undefined(rule, samples)) for rule in rules]
        counts: list[list[RuleCounts]] = [[] for _ in rules]
        for sample in samples:
            outputs = self.outputs(sample)  # once for all rules: they are read from a file
            for rule, own, is_empty, of_rule in zip(rules, grades, is_undefined, counts, strict=True):
                zeros = RuleCounts(sums=(0.0,) * len(rule.sum_names))
                of_rule.append(zeros if is_empty else rule.count_outputs(sample, outputs, grade=own))
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """The rows of a table by name, and the videos that all runs have finished."""

    rows: Mapping[str, Entry]
    samples: tuple[Sample, ...]
    left_out: Mapping[str, tuple[str, ...]]
    """Videos that are not finished in all runs, each with the runs that have not finished it."""


def find_finished(folder: RunFolder, split: Split) -> set[str]:
    """Return the ids of the videos of a split that a run has finished and that have a reference."""
    found = ((sample, folder.record(sample.video_id)) for sample in split.samples)
    return {sample.video_id for sample, record in found if not explain_unscored(sample, record)}


def open_entries(runs: Mapping[str, Path], split: Split, *, baselines: bool = False) -> Entries:
    """Return the rows of runs, and of the baselines if asked for.

    Raises ``ValueError`` if the runs have no finished video in common.
    """
    folders = {name: RunFolder(path) for name, path in runs.items()}
    finished = {name: find_finished(folder, split) for name, folder in folders.items()}
    if unfinished := [name for name, videos in finished.items() if not videos]:
        raise ValueError(f"{unfinished[0]} has no finished video of the split; leave this run out")
    lacking = {
        sample.video_id: tuple(name for name, videos in finished.items() if sample.video_id not in videos)
        for sample in split.samples
    }
    samples = tuple(sample for sample in split.samples if not lacking[sample.video_id])
    if not samples or not runs:
        raise ValueError("the runs have no finished video in common, so there is nothing to rank")
    rows = {name: Entry(outputs=folder.outputs, has_states=folder.has_states()) for name, folder in folders.items()}
    if baselines:
        made = list_baselines({name: row.outputs for name, row in rows.items()})
        rows |= {name: Entry(outputs=one, has_states=False, is_baseline=True) for name, one in made.items()}
    return Entries(
        rows=rows, samples=samples, left_out={video_id: names for video_id, names in lacking.items() if names}
    )
