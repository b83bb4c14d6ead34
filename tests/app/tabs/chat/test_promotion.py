"""A question or an answer of the panel *Ask* is used in the reference and in the next run."""

import json

from stepscope.app.context import AppContext
from stepscope.app.core.live_run import LiveRun
from stepscope.app.tabs.chat.promotion import ANSWER, CORRECTION, QUESTION, add_user_turn, propose_turn
from tests.support.chat import ask


def test_the_last_turn_is_proposed_to_the_reference(context: AppContext, live: LiveRun) -> None:
    window, _ = ask(context, None, live, "What is next?")
    spoken = " ".join((window.answered[-1].answer or "").split())
    for kind, text in {QUESTION: "What is next?", ANSWER: spoken, CORRECTION: spoken}.items():
        assert json.loads(propose_turn(kind, window, live)) == {"as": kind, "text": text, "time_s": 2.5}
    assert propose_turn(QUESTION, None, live) == ""


def test_the_last_question_is_added_to_the_user_turns_of_the_next_run_once(context: AppContext, live: LiveRun) -> None:
    window, _ = ask(context, None, live, "What is next?")
    typed, status = add_user_turn(window, live, "1: Hello")
    assert typed == "1: Hello\n2.5: What is next?"
    assert "Run" in status
    assert add_user_turn(window, live, typed)[0] == typed
    assert add_user_turn(None, live, None) == ("", "Ask a question first.")
