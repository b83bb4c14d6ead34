"""The words of a dialogue without a model: several wordings of each slot, chosen by the id of the video."""

import random
from collections.abc import Mapping, Sequence
from typing import Final

from stepscope.engine.records import Step
from stepscope.eval.data.samples import Sample
from stepscope.eval.dialogues.slots import MAX_LISTED, Slot

WORDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "goal": ("I want to do this: {goal}.", "Please guide me: {goal}.", "My task is this: {goal}."),
    "opening": (
        "Let's start. First, {next}.",
        "All right. Begin with this: {next}.",
        "The first step is this: {next}.",
    ),
    "praise": ("Good.", "Well done.", "That is right.", "Nice work."),
    "mistake": ("Wait, a mistake in “{step}”: {cause}.", "Careful, “{step}” went wrong: {cause}."),
    "next": ("Now {next}.", "Next, {next}.", "The next step is this: {next}."),
    "open": ("Go on with this: {open}.", "Finish this step: {open}."),
    "begun": ("So now {begun}.", "I see, now this: {begun}.", "All right, now this: {begun}."),
    "finished": ("All {total} steps are done.", "That was the last of {total} steps."),
    "unfinished": ("So far, {done} of {total} steps are done.", "This is what we have: {done} of {total} steps."),
    "ask next": ("What is next?", "What do I do now?", "What should I do next?"),
    "ask done": ("What have I done so far?", "Which steps are done?"),
    "ask left": ("How many steps are left?", "How many steps do I still have to do?"),
    "nothing next": ("Nothing, all steps are done.",),
    "done": ("You have done this: {listed}.", "Done so far: {listed}."),
    "done many": ("{done} steps are done, the last one was this: {last}.",),
    "nothing done": ("No step is done yet.", "Nothing is done yet."),
    "left": ("{left} steps are left.", "You still have {left} steps to do."),
    "one left": ("1 step is left.", "You still have 1 step to do."),
    "nothing left": ("No step is left.", "You have done them all."),
}


def write_text(slot: Slot, sample: Sample) -> str:
    """Return the words of a slot; the same for the same slot of a video with the same id."""
    rng = random.Random(f"{sample.video_id} {slot.time_s:.6f} {slot.kind} {slot.role}")
    moment = slot.moment
    facts = {
        "goal": sample.goal.strip().rstrip("."),
        "next": _join([moment.next] if moment.next else []),
        "open": _join(moment.open[-1:]),
        "begun": _join([slot.begun] if slot.begun else []),
        "listed": _join(moment.last_done),
        "last": _join(moment.last_done[-1:]),
        "done": str(moment.num_done),
        "left": str(moment.num_left),
        "total": str(len(sample.steps)),
    }
    mistakes = moment.mistakes if slot.kind == "progress" else ()
    wordings = [("mistake", {"step": _join([step]), "cause": cause}) for step, cause in mistakes]
    wordings += [(name, facts) for name in _list_parts(slot)]
    return " ".join(rng.choice(WORDINGS[name]).format(**values) for name, values in wordings)


def _list_parts(slot: Slot) -> list[str]:
    """Return the names of the wordings whose sentences make up a slot, after those of its mistakes."""
    moment = slot.moment
    if slot.kind == "goal":
        return ["goal"]
    if slot.question is not None:
        return [f"ask {slot.question}" if slot.role == "user" else _name_answer(slot)]
    names = ["praise"] if slot.kind == "progress" and moment.finished and not moment.mistakes else []
    if slot.begun is not None:
        names.append("begun")
    elif slot.kind != "summary" and (moment.open or moment.next):
        names.append("open" if moment.open else "opening" if slot.kind == "opening" else "next")
    if slot.is_last or not moment.num_left:
        names.append("unfinished" if moment.num_left else "finished")
    return names


def _name_answer(slot: Slot) -> str:
    moment, num_done = slot.moment, slot.moment.num_done
    if slot.question == "next":
        return "open" if moment.open else "next" if moment.next else "nothing next"
    if slot.question == "left":
        return {0: "nothing left", 1: "one left"}.get(moment.num_left, "left")
    return "nothing done" if not num_done else "done" if num_done <= MAX_LISTED else "done many"


def _join(steps: Sequence[Step]) -> str:
    """Return the names of steps as a part of a sentence: of ``Pour_water.`` and ``Stir.``, ``pour water and stir``."""
    names = [" ".join(step.name.replace("_", " ").split()).rstrip(".") for step in steps]
    names = [name if name[1:2].isupper() else name[:1].lower() + name[1:] for name in names]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
