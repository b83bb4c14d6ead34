"""The handlers of conversations: of the panel *Ask*, on a run of random frames."""

import re
from contextlib import ExitStack
from dataclasses import replace

import pytest

from stepscope.app.chat import handlers
from stepscope.app.chat.window import ChatWindow, Question
from stepscope.app.player.ask import ANSWER, CORRECTION, QUESTION, add_user_turn, propose_turn
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from tests.support.chat import answer, answering, ask, edit, questions, take, wait_until_idle

NEXT = Question(text="What is next?", frame=7)


def test_a_question_is_answered_with_its_times_and_the_run_stays_as_it_was(context: AppContext, live: LiveRun) -> None:
    before = live.run
    window, status = ask(context, None, live, "What is next?")
    assert status.startswith("Answered at 0:02.5: 0 of ")
    window, status = ask(context, window, live, "And then?")
    assert not status.startswith("Answered at 0:02.5: 0 of ")
    assert [message["role"] for message in window.messages()] == ["user", "user", "assistant"] * 2
    assert live.run is before
    timing = window.request.timing
    assert timing is not None
    first = f"of {timing.prompt_tokens} prompt tokens reused, first token after {1000 * timing.first_s:.0f} ms"
    assert re.fullmatch(rf".* {first}(; before it \d+\.\d s for pictures and queue)?\.", status)
    wait_until_idle(context)


def test_an_edit_begins_a_branch_and_the_turns_after_it_stay_in_the_old_one(context: AppContext, live: LiveRun) -> None:
    window, _ = ask(context, None, live, "What is next?")
    window, _ = ask(context, window, live, "And then?")
    edit(window, 1, "Did I do that right?")
    answer(context, window, live)
    assert questions(window) == ["Did I do that right?"]
    menu = handlers.show_branch(window, 0).branch
    assert questions(window) == ["What is next?", "And then?"]
    assert [label for label, _ in menu["choices"]] == [
        "1 of 2: And then?",
        "2 of 2: Did I do that right?",
    ]
    ask(context, window, live, "And now?")
    assert questions(window)[-1] == "And now?"
    handlers.show_branch(window, 1)
    assert questions(window) == ["Did I do that right?"]


def test_an_equal_answer_makes_no_branch_and_a_stopped_one_does(context: AppContext, live: LiveRun) -> None:
    window, _ = ask(context, None, live, "What is next?")
    handlers.queue_again(window)
    answer(context, window, live)
    assert len(window.branches.branches) == 1
    handlers.queue_again(window)
    handlers.stop(window)
    assert answer(context, window, live).startswith("Stopped")
    assert len(window.branches.branches) == 2


def test_an_edited_question_is_never_answered_before_its_time(context: AppContext, live: LiveRun) -> None:
    window, _ = ask(context, None, live, "What is next?")
    run = live.run
    assert run is not None
    live.run = replace(run, outputs=run.outputs[:3], is_finished=False)  # it streams again
    edit(window, 1, "And then?")
    status = answer(context, window, live)
    assert status == "the question is about 0:02.5, but this run has only reached 0:01.0; wait, then ask again."
    assert questions(window) == ["What is next?"]
    live.run = run
    edit(window, 1, "And then?")
    assert answer(context, window, live).startswith("Answered at 0:02.5: ")


def test_an_error_brings_the_earlier_branches_back(context: AppContext, live: LiveRun) -> None:
    window, _ = ask(context, None, live, "What is next?")
    run = live.run
    live.run = None
    edit(window, 1, "Did I do that right?")
    assert "press Run" in answer(context, window, live)
    assert questions(window) == ["What is next?"]
    live.run = run
    assert ask(context, window, live, "And then?")[1].startswith("Answered")


def test_a_page_that_closes_frees_the_worker(context: AppContext, live: LiveRun) -> None:
    window: ChatWindow = handlers.queue_question(None, Window(live=live), NEXT).window
    take(answering(context, window, live), 2)
    wait_until_idle(context)
    assert not window.is_waiting


def test_a_page_that_closes_in_the_queue_leaves_it(context: AppContext, live: LiveRun) -> None:
    pool = context.chat_service.pool
    window: ChatWindow = handlers.queue_question(None, Window(live=live), NEXT).window
    with pool.enqueue((1,)):
        assert take(answering(context, window, live), 1)[0].status.startswith("Your question is")
        assert pool.status.num_queued == 0
    wait_until_idle(context)
    assert ask(context, None, live, "What is next?")[1].startswith("Answered")


def test_a_full_queue_refuses_a_question_in_a_sentence(context: AppContext, live: LiveRun) -> None:
    with ExitStack() as clients:
        pool = context.chat_service.pool
        for _ in range(pool.max_queued + 1):
            clients.enter_context(pool.enqueue((1,)))
        window, status = ask(context, None, live, "What is next?")
    assert status == "100 questions are waiting already; try again in a moment."
    assert window.messages() == []
    assert ask(context, window, live, "What is next?")[1].startswith("Answered")


@pytest.mark.parametrize(("text", "reason"), [("  ", "Type a question"), ("x" * 2001, "more than 2000")])
def test_a_question_that_cannot_be_asked_is_refused(live: LiveRun, text: str, reason: str) -> None:
    assert reason in handlers.queue_question(None, Window(live=live), Question(text=text)).status


def test_without_a_run_of_this_checkpoint_a_question_is_refused(context: AppContext, live: LiveRun) -> None:
    assert live.run is not None
    live.run = replace(live.run, model_digest="other")
    window, status = ask(context, None, live, "What is next?")
    assert "different checkpoint" in status
    assert window.messages() == []
    assert "press Run" in ask(context, None, None, "What is next?")[1]


def test_the_last_turn_is_proposed_to_the_reference(context: AppContext, live: LiveRun) -> None:
    window, _ = ask(context, None, live, "What is next?")
    spoken = " ".join((window.answered[-1].answer or "").split())
    for kind, text in {QUESTION: "What is next?", ANSWER: spoken, CORRECTION: spoken}.items():
        assert propose_turn(kind, window, Window(live=live)) == {"as": kind, "text": text, "time_s": 2.5}
    assert propose_turn(QUESTION, None, Window(live=live)) is None


def test_the_last_question_is_added_to_the_user_turns_of_the_next_run_once(context: AppContext, live: LiveRun) -> None:
    window, _ = ask(context, None, live, "What is next?")
    typed, status = add_user_turn(window, Window(live=live), "1: Hello")
    assert typed == "1: Hello\n2.5: What is next?"
    assert "Run" in status
    assert add_user_turn(window, Window(live=live), typed)[0] == typed
    assert add_user_turn(None, Window(live=live), None) == ("", "Ask a question first.")
