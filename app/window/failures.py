"""The failures of a run, described for the player's script."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from stepscope.app.core.run import Run
from stepscope.app.window.focus import name_model
from stepscope.engine.control.task import Task
from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.matched_video import Failure, JudgedTurn, JudgedVideo
from stepscope.eval.metrics.replies.turn_taking import SEMANTIC_THRESHOLD
from stepscope.eval.reports.mistakes import (
    describe_mistake,
    find_cause,
    find_mistakes,
    is_unasked,
    quote,
)

_GOAL: Final = re.compile(r"[a-z]+ (an?|the|your|some) \w")
LOW_SIMILARITY: Final = 0.8
"""A matched text with a lower one is marked ≈: "boat" for "tower" has 0.55 to 0.61, a paraphrase 0.87 to 0.90."""
LOST_PAIR: Final = "its pair, the same words in the same frame, has cost 0 and is lost (zero_cost drop)"


def find_lost_pairs(judged: JudgedVideo, sample: Sample, zero_cost: str) -> dict[int, int]:
    """Return the reference of each redundant message that ``zero_cost`` drop left without: same words, same frame."""
    if zero_cost != "drop":
        return {}
    paired = {turn.reference for turn in judged.turns}
    free = {
        (frame_at(turn.time_s, sample.fps), turn.text): number
        for number, turn in enumerate(sample.turns)
        if turn.role == "assistant" and number not in paired
    }
    return {
        number: free[turn.frame_index, turn.text]
        for number, turn in enumerate(judged.turns)
        if turn.outcome == "redundant" and turn.role == "assistant" and (turn.frame_index, turn.text) in free
    }


def pack_failure(
    failure: Failure, judged: JudgedVideo, sample: Sample, task: Task, *, lost: Mapping[int, int]
) -> dict[str, Any]:
    """Return a failure for the player's script, with its description and the cause of difficulty.

    ``lost`` are the pairs of ``find_lost_pairs``.
    """
    turn = None if failure.turn is None else judged.turns[failure.turn]
    reference = None if failure.reference is None else sample.turns[failure.reference]
    return {
        "kind": failure.kind,
        "turn": failure.turn,
        "reference": failure.reference,
        "frame": failure.frame_index,
        "end": failure.end_frame,
        "words": LOST_PAIR
        if failure.turn in lost or (turn is None and failure.reference in lost.values())
        else _describe_failure(failure, turn, None if reference is None else reference.text)
        + (" after a user turn that this run did not have" if is_unasked(failure, sample, task) else ""),
        "cause": find_cause(failure, sample),
    }


def describe_recording(run: Run) -> str:
    """Return in one sentence what a run shows: who watches what, and what the model should have said."""
    is_own = not (run.name or run.kept_as)  # its goal stands beside it, as it was typed
    goal = "" if is_own else " ".join(run.task.goal.split()).removesuffix(".")
    is_phrase = _GOAL.match(goal) is not None  # such as "build the robot"
    whom = f"somebody {goal}" if is_phrase else f"a video of the task {quote(goal)}" if goal else "a video"
    speaks = run.reference is not None and any(turn.role == "assistant" for turn in run.reference.turns)
    duty = "when a step was done or went wrong" if run.task.steps else "what its reference says"
    lacking = "its reference lists other steps" if run.has_other_steps else "there is no reference to compare it with"
    ending = f" and should have said {duty}" if speaks else f"; {lacking}"
    kind = "Made on this page" if is_own else "A recording"
    return f"{kind}: {name_model(run.model_digest, run.provenance.checkpoint)} watched {whom}{ending}."


def pack_mistakes(judged: JudgedVideo, sample: Sample, run: Run, *, lost: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return the mistakes of a run by time: their sentences, and the positions of their failures."""
    return [
        {
            "failures": mistake.failures,
            "cause": mistake.cause,
            **asdict(describe_mistake(mistake, judged, sample, run.outputs, run.task, lost=lost)),
        }
        for mistake in find_mistakes(judged, sample)
    ]


def _describe_failure(failure: Failure, turn: JudgedTurn | None, reference: str | None) -> str:
    """Return a short description of the expected and the actual turn."""
    if failure.kind == "wrong state":
        return f"of {', '.join(failure.step_ids)}"
    if turn is None:
        return f"no {reference}" if failure.kind == "missed update" else "silent where the reference speaks"
    if failure.kind == "early or late":
        delay_s = turn.delay_s or 0.0
        return f"{turn.text} {abs(delay_s):g} s {'early' if delay_s < 0 else 'late'}"
    if failure.kind == "wrong update":
        return f"{turn.text} for {reference}" if reference else f"{turn.text}, with no reference near"
    if failure.kind == "repeats itself":
        return "the same words as before, with no reference near"
    if turn.outcome == "mismatched":
        similarity = _format_similarity(turn.semantic_score or 0.0)
        return f"similarity {similarity}; a match needs more than {SEMANTIC_THRESHOLD:.2f}"
    return "spoke with no reference near"


def _format_similarity(score: float) -> str:
    """Return a similarity with two digits, or four if it would be rounded to the limit."""
    rounded = f"{score:.2f}"
    return f"{score:.4f}" if float(rounded) == SEMANTIC_THRESHOLD else rounded


def find_low_texts(judged: JudgedVideo) -> list[int]:
    """Return the positions of the matched texts of low similarity among the turns of the model."""
    matched = {number: turn.semantic_score for number, turn in enumerate(judged.turns) if turn.outcome == "matched"}
    return [n for n, score in matched.items() if score is not None and round(score, 2) < LOW_SIMILARITY]  # as shown
