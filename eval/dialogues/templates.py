"""The words of a dialogue without a model: several wordings of each slot, chosen by the id of the video."""

import random
from collections.abc import Mapping, Sequence
from typing import Final

from stepscope.engine.records import Step
from stepscope.eval.dialogues.slots import MAX_LISTED, Slot

WORDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "goal": ("I want to do this: {goal}.", "Please guide me: {goal}.", "My task is this: {goal}."),
    "opening": (
        "Let's start. First, {next}.",
        "All right. Begin with this: {next}.",
        "The first step is this: {next}.",
    ),
    "resumed": ("Let's go on with this: {open}.", "You are at this step: {open}."),
    "praise": ("Good.", "Well done.", "That is right.", "Nice work."),
    "mistake": ("Wait, a mistake in “{step}”: {cause}.", "Careful, “{step}” went wrong: {cause}."),
    "next": ("Now {next}.", "Next, {next}.", "The next step is this: {next}."),
    "open": ("Go on with this: {open}.", "Finish this step: {open}."),
    "begun": ("So now {begun}.", "Then {begun} now.", "I see, you {begun} now."),
    "finished": ("All {total} steps are done.", "That was the last of {total} steps."),
    "unfinished": ("So far, {done} of {total} steps are done.", "This is what we have: {done} of {total} steps."),
    "ask next": ("What is next?", "What do I do now?", "What should I do next?"),
    "ask done": ("What have I done so far?", "Which steps are done?"),
    "ask left": ("How many steps are left?", "How many steps do I still have to do?"),
    "say next": ("Next, {next}.", "The next step is this: {next}."),
    "say open": ("Finish this: {open}.", "You are still at this step: {open}."),
    "say nothing next": ("Nothing, all steps are done.",),
    "say done": ("You have done this: {listed}.", "Done so far: {listed}."),
    "say done many": ("{done} steps are done, the last one was this: {last}.",),
    "say nothing done": ("No step is done yet.", "Nothing is done yet."),
    "say left": ("{left} are left.", "You still have {left} to do."),
    "say one left": ("1 step is left.", "You still have 1 step to do."),
    "say nothing left": ("No step is left.", "You have done them all."),
}


def speak(name: str) -> str:
    """Return the name of a step as a part of a sentence: ``Pour_water.`` becomes ``pour water``."""
    words = " ".join(name.replace("_", " ").split()).rstrip(".")
    return words[:1].lower() + words[1:] if words[1:2].islower() or len(words) == 1 else words


def write_text(slot: Slot, video_id: str) -> str:
    """Return the words of a slot; the same for the same slot of the same video."""
    rng = random.Random(f"{video_id} {slot.time_s:.6f} {slot.kind}")
    moment = slot.moment
    facts = {
        "goal": moment.goal.strip().rstrip("."),
        "next": "" if moment.next is None else speak(moment.next.name),
        "open": speak(moment.open[-1].name) if moment.open else "",
        "begun": "" if slot.begun is None else speak(slot.begun.name),
        "listed": _join(moment.completed),
        "last": speak(moment.completed[-1].name) if moment.completed else "",
        "done": len(moment.completed),
        "left": f"{moment.num_left} steps",
        "total": moment.num_steps,
    }

    def choose(name: str, **more: str) -> str:
        return rng.choice(WORDINGS[name]).format(**(facts | more))

    parts = [choose("mistake", step=speak(step.name), cause=cause) for step, cause in slot.mistakes]
    return " ".join(parts + [choose(name) for name in _list_parts(slot)])


def _list_parts(slot: Slot) -> list[str]:
    """Return the names of the wordings whose sentences make up a slot, after those of its mistakes."""
    moment = slot.moment
    if slot.kind == "goal":
        return ["goal"]
    if slot.question is not None:
        return [f"ask {slot.question}" if slot.role == "user" else f"say {_name_answer(slot)}"]
    ending = [] if not slot.is_last else ["unfinished" if moment.num_left else "finished"]
    if slot.kind == "summary":
        return ending
    if slot.kind == "opening":
        return [*(["resumed"] if moment.open else ["opening"] if moment.next else []), *ending] or ["finished"]
    praise = ["praise"] if slot.finished and not slot.mistakes else []
    if slot.begun is not None:
        return [*praise, "begun", *ending]
    return [*praise, *(["open"] if moment.open else ["next"] if moment.next else []), *ending]


def _name_answer(slot: Slot) -> str:
    moment = slot.moment
    if slot.question == "next":
        return "open" if moment.open else "next" if moment.next else "nothing next"
    if slot.question == "left":
        return {0: "nothing left", 1: "one left"}.get(moment.num_left, "left")
    num_done = len(moment.completed)
    return "nothing done" if not num_done else "done" if num_done <= MAX_LISTED else "done many"


def _join(steps: Sequence[Step]) -> str:
    names = [speak(step.name) for step in steps]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
