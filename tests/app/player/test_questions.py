"""Questions in the run: to a run that streams, to a finished one, and those that cannot be asked."""

import json
from typing import Any

import pytest

import stepscope.app.window.context as app_context
from stepscope.app.chat.window import Question
from stepscope.app.core.places import link_params
from stepscope.app.core.run import Run
from stepscope.app.player import streaming
from stepscope.app.player.questions import ask_in_run
from stepscope.app.player.views import PlayerView
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.records import UserTurn
from tests.support.pages.benches import run_through, run_views


def stream(context: AppContext, live: LiveRun) -> list[PlayerView]:
    return list(streaming.stream_run(context, Window(live=live), "", "", "", None, None))


def status_of(view: Any) -> str:
    return str(view.status.value)


def user_turns(view: PlayerView) -> list[tuple[float, str]]:
    references = json.loads(view.player)["references"]
    return [(turn["time"], turn["text"]) for turn in references if turn["role"] == "user" and turn["is_given"]]


@pytest.fixture
def finished(context: AppContext) -> LiveRun:
    return run_through(context, context.bundled_videos.find("truck-1"), speak_threshold=1)


def outputs_of(live: LiveRun) -> list[str | None]:
    assert isinstance(live.run, Run)
    return [output.response for output in live.run.outputs]


@pytest.mark.parametrize("has_recording", [True, False])
def test_a_finished_run_is_streamed_again_with_the_question(
    context: AppContext, finished: LiveRun, has_recording: bool
) -> None:
    if not has_recording:
        finished.recording = None
    assert finished.run is not None
    view = ask_in_run(context, Window(live=finished), Question(text=" What is\nnext? ", frame=7))
    assert status_of(view) == "Waiting to run again with the question at 0:03.5."
    again = view.live
    *_, last = stream(context, again)
    assert outputs_of(again)[:7] == outputs_of(finished)[:7]
    assert outputs_of(again)[7] is not None
    assert again.run.task.questions == (UserTurn(time_s=3.5, text="What is next?"),)
    assert again.run.is_finished
    mark = "asked in the run: 1 question at 0:03.5"
    assert mark in json.loads(last.player)["origin"]["summary"], "its scores are not those of a run without questions"
    assert not finished.run.provenance.asked_label
    assert len(again.run.outputs) == len(finished.run.outputs)
    assert (3.5, "What is next?") in user_turns(last)
    assert again.run.digest != finished.run.digest
    assert context.recent.find_run(again.run.digest, again.run.clip) == again.run, "the task is not of the video"
    assert link_params(again.run) is None


def test_a_run_that_streams_takes_the_question(context: AppContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "STATUS_INTERVAL_S", 0.0)
    monkeypatch.setattr(app_context, "FRAMES_PER_PASS", 1)
    live, statuses = LiveRun(), []
    for view in run_views(context, context.bundled_videos.find("truck-1"), live, speak_threshold=1):
        if live.increments is not None and len(live.increments.outputs) == 3:
            statuses.append(status_of(ask_in_run(context, Window(live=live), Question(text="What is next?", frame=0))))
        last = view
    assert statuses == ["Asked in the run: its next frame answers."]
    assert live.run is not None
    (turn,) = live.run.task.questions
    frame = round(2 * turn.time_s)
    assert frame == 3
    assert outputs_of(live)[frame] is not None
    assert (turn.time_s, "What is next?") in user_turns(last)


@pytest.mark.parametrize(
    ("text", "words"),
    [("x" * 301, "has 301 characters"), ("What is next?", "press Run first")],
)
def test_a_question_without_words_or_run_is_refused(context: AppContext, text: str, words: str) -> None:
    assert words in status_of(ask_in_run(context, Window(), Question(text=text, frame=0)))
