"""The run as tables: what the assistant said and updated with the reference beside it, and where each step ended.

Cells are plain text, never markup. A reference turn stands in the row of the prediction at the same frame and of
the same kind, otherwise in a row of its own: nothing is matched here, that is ``eval``'s.
"""

from collections import defaultdict
from itertools import zip_longest

from app.runs import Run, judge_updates, predicted_moments, reference_moments
from app.words import STATE_WORDS, WHO_WORDS, clock
from engine.records import UserTurn

HEADERS = ["Time", "Who", "Model", "Prob.", "Reference"]
STATE_HEADERS = ["Step", "Name", "Model", "Reference"]
SILENT = "—"


def transcript_rows(run: Run) -> list[list[str]]:
    """Return the rows of ``HEADERS`` up to where the run came, in the order of time."""
    reference = _reference(run)
    users = defaultdict[int, list[UserTurn]](list)
    for turn in run.task.user_turns:
        users[int(turn.time_s * run.config.fps)].append(turn)
    asked = run.clip.sample.user_turns if run.clip.sample else ()
    verdicts = judge_updates(run)
    rows = []
    for output in run.outputs:
        index, time = output.frame_index, clock(output.time_s, digits=1)
        for turn in users[index]:
            rows.append([time, WHO_WORDS["user"], turn.text, "", turn.text if turn in asked else ""])
        marks = ["" if verdict == "legal" else f"  ⚠ {verdict}" for verdict in verdicts.get(index, ())]
        updates = [text + mark for text, mark in zip(output.updates, marks, strict=True)]
        rows += _pairs(time, "update", updates, reference[index, "update"], prob=output.update_prob)
        responses = [] if output.response is None else [output.response]
        rows += _pairs(time, "assistant", responses, reference[index, "assistant"], prob=output.speak_prob)
    return rows


def state_rows(run: Run) -> list[list[str]]:
    """Return the rows of ``STATE_HEADERS``: each step's state where the run came."""
    believed = predicted_moments(run)[-1].state
    reference = reference_moments(run)
    true = reference[-1].state if reference else {}
    return [
        [step.id, step.name, STATE_WORDS[believed[step.id]], STATE_WORDS.get(true.get(step.id, ""), "")]
        for step in run.task.steps
    ]


def _reference(run: Run) -> dict[tuple[int, str], list[str]]:
    turns = defaultdict[tuple[int, str], list[str]](list)
    for turn in run.clip.sample.turns if run.clip.sample else ():
        turns[int(turn.time_s * run.config.fps), turn.role].append(turn.text)
    return turns


def _pairs(time: str, who: str, said: list[str], reference: list[str], *, prob: float) -> list[list[str]]:
    """Put predictions and references of one frame side by side; the probability was read before the first."""
    pairs = zip_longest(said, reference)
    return [
        [time, WHO_WORDS[who], SILENT if mine is None else mine, "" if row else f"{prob:.2f}", theirs or ""]
        for row, (mine, theirs) in enumerate(pairs)
    ]
