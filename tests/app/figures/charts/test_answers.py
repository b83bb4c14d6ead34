"""Charts of the speed of answers."""

import pytest

from stepscope.app.figures.charts import answers
from stepscope.engine.chat.timings import AnswerTiming, FirstToken, ReusePoint

TIMINGS = (
    AnswerTiming(prompt_tokens=100, cached_tokens=10, queue_s=0.5, first_s=0.2, rest_s=0.3),
    AnswerTiming(prompt_tokens=120, cached_tokens=90, queue_s=0.0, first_s=0.02, rest_s=0.1),
)
POINT = ReusePoint(
    num_turns=5,
    prompt_tokens=400,
    warm=FirstToken(first_s=0.01, cached_share=0.9, ids=(1,)),
    cold=FirstToken(first_s=0.2, cached_share=0, ids=(1,)),
)


def test_answers_and_measurements_are_drawn_with_reuse_and_without() -> None:
    figure = answers.first_token(TIMINGS, [POINT], "light")
    drawn = {trace.name: (list(trace.x), list(trace.y)) for trace in figure.data}
    assert drawn == {
        "measured, with reuse": ([400], [10]),
        "answers, with reuse": ([120], [20]),
        "measured, without": ([400], [200]),
        "answers, without": ([100], [200]),
    }
    assert figure.layout.meta["summary"] == "At 400 tokens the first token comes 20.0 times sooner with reuse"


def test_the_reused_share_is_that_of_each_answer_and_of_all_tokens() -> None:
    figure = answers.cached_share(TIMINGS, "dark")
    assert list(figure.data[0].y) == [0.1, 0.75]
    assert figure.layout.title.subtitle.text == "45% of all prompt tokens"  # (10 + 90) / (100 + 120)


def test_the_times_of_an_answer_are_stacked() -> None:
    figure = answers.times(TIMINGS, "light")
    assert {trace.name: list(trace.y) for trace in figure.data} == {
        "in the queue": [0.5, 0.0],
        "to the first token": [0.2, 0.02],
        "after it": [0.3, 0.1],
    }
    assert figure.layout.barmode == "stack"


@pytest.mark.parametrize("draw", [answers.cached_share, answers.times, lambda t, h: answers.first_token(t, (), h)])
def test_without_answers_a_chart_names_the_reason(draw: object) -> None:
    assert callable(draw)
    assert draw((), "light").layout.annotations[0].text == answers.NO_ANSWERS
