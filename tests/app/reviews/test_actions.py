"""Actions and events: their checks, names and order."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from stepscope.app.reviews.actions import MAX_REVIEWER_CHARS, Action, Event, check_reviewer
from stepscope.eval.annotations.corrections import Correction, TurnName

HULL, SAIL, FLAG = (
    Event(video_id="boat", kind="generated", role="assistant", time_s=time_s, text=text)
    for time_s, text in ((1.0, "Hull."), (2.0, "Sail."), (3.0, "Flag."))
)


NAME = TurnName(role="assistant", time_s=1.0, text="Go.")


@pytest.mark.parametrize("name", ["ann", "Ann O'Neil", "=cmd()", "<script>", "\u05d0\u05d1", " ann "])
def test_a_printable_name_is_a_reviewers_name(name: str) -> None:
    assert check_reviewer(name) == name.strip()


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\0", "\u202eevil", "\ud83d", "x" * (MAX_REVIEWER_CHARS + 1)])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 80 printable characters"):
        check_reviewer(name)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"kind": "guess"}, "must be one of verdict, tags"),
        ({"kind": "verdict", "verdict": "correct"}, "kind verdict needs its event"),
        ({"kind": "correction"}, "kind correction needs its correction"),
        ({"kind": "undo"}, "kind undo needs its target"),
        ({"kind": "verdict", "event": HULL, "verdict": "fine"}, "must be one of correct, false alarm"),
        (
            {"kind": "verdict", "event": replace(HULL, video_id="car")},
            "the event is of video car, the action of video boat",
        ),
        (
            {"kind": "correction", "correction": Correction(reviewer="bob", kind="delete", turn=NAME)},
            "ann cannot correct on behalf of bob",
        ),
        ({"kind": "undo", "target": "x", "reviewer": " ann"}, "has no leading or trailing blanks"),
        ({"kind": "undo", "target": "x", "video_id": "a\0"}, "has characters that a database cannot store"),
        ({"kind": "undo", "target": "x", "at": datetime(2026, 1, 1)}, "must have a UTC offset"),
    ],
)
def test_an_action_that_contradicts_itself_is_refused(content: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Action(**{"reviewer": "ann", "video_id": "boat", **content})
