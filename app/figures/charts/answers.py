"""Charts of the speed of answers: time to the first token, reused share of the prompts, queue and run times."""

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import bar_marker, colours, log_axis, make_chart, make_empty_chart, outline
from stepscope.app.style.colours import Theme
from stepscope.engine.chat.timings import AnswerTiming, ReusePoint
from stepscope.engine.plurals import format_count

NO_ANSWERS: Final = "No answer yet: ask a question."
_REUSED_SHARE: Final = 0.5
"""Share of a prompt from which an answer counts as one with reuse."""
_TICKED_ANSWERS: Final = 6
"""Maximum number of answers with a tick each."""


def first_token(timings: Sequence[AnswerTiming], measured: Sequence[ReusePoint], theme: Theme) -> go.Figure:
    """Return the time to the first token over the length of the prompt, with reuse and without.

    Curves are the measured conversations; marks are the answers of this page.
    """
    title = "Time to the first token"
    if not timings and not measured:
        return make_empty_chart(theme, NO_ANSWERS).update_layout(title_text=title)
    traces: list[go.Scatter] = []
    for name, colour, dash, symbol, is_warm in (
        ("with reuse", "matched", "solid", "circle", True),
        ("without", "mismatched", "dash", "x", False),
    ):
        points = [(point.prompt_tokens, point.warm if is_warm else point.cold) for point in measured]
        if points:
            traces.append(
                go.Scatter(
                    x=[num_tokens for num_tokens, _ in points],
                    y=[1000 * token.first_s for _, token in points],
                    name=f"measured, {name}",
                    mode="lines",
                    line={"color": colours(theme)[colour], "dash": dash, "width": 2},
                    hovertemplate=f"{name}: %{{y:,.1f}} ms, %{{x:,}} tokens<extra></extra>",
                )
            )
        own = [timing for timing in timings if (_share(timing) >= _REUSED_SHARE) == is_warm]
        if own:
            traces.append(
                go.Scatter(
                    x=[timing.prompt_tokens for timing in own],
                    y=[1000 * timing.first_s for timing in own],
                    name=f"answers, {name}",
                    mode="markers",
                    marker={"color": colours(theme)[colour], "symbol": symbol, "size": 9, "line": outline(theme)},
                    text=[f"{_share(timing):.0%} reused" for timing in own],
                    hovertemplate="%{y:,.1f} ms, %{x:,} tokens, %{text}<extra></extra>",
                )
            )
    return make_chart(
        traces,
        theme,
        x={
            "title": {"text": "Tokens of the prompt (log scale)"},
            **log_axis(value for trace in traces for value in trace.x),
        },
        y={"title": {"text": "ms (log scale)"}, **log_axis(value for trace in traces for value in trace.y)},
        note=f"With reuse: at least {_REUSED_SHARE:.0%} of the prompt was kept",
        summary=_describe(timings, measured),
        title_text=title,
    )


def cached_share(timings: Sequence[AnswerTiming], theme: Theme) -> go.Figure:
    """Return the share of the prompt that each answer reused."""
    title = "Reused share of the prompt"
    if not timings:
        return make_empty_chart(theme, NO_ANSWERS).update_layout(title_text=title)
    num_cached, num_tokens = (
        sum(timing.cached_tokens for timing in timings),
        sum(timing.prompt_tokens for timing in timings),
    )
    total = f"{num_cached / num_tokens:.0%} of all prompt tokens"
    return make_chart(
        [
            go.Bar(
                x=list(range(1, len(timings) + 1)),
                y=[_share(timing) for timing in timings],
                marker=bar_marker(theme, "matched"),
                text=[f"{timing.cached_tokens:,} of {timing.prompt_tokens:,} tokens" for timing in timings],
                hovertemplate="answer %{x}: %{y:.0%}, %{text}<extra></extra>",
            )
        ],
        theme,
        x=_answer_axis(timings),
        y={"title": {"text": "Reused"}, "range": [0, 1.02], "tickformat": "~%"},
        note=total,
        summary=f"Reused: {total}",
        title_text=title,
    )


def times(timings: Sequence[AnswerTiming], theme: Theme) -> go.Figure:
    """Return the seconds of each answer in the queue, until its first token, and after it."""
    title = "Queue and run times"
    if not timings:
        return make_empty_chart(theme, NO_ANSWERS).update_layout(title_text=title)
    parts = {
        "in the queue": ("reference", "/", [timing.queue_s for timing in timings]),
        "to the first token": ("speak", "", [timing.first_s for timing in timings]),
        "after it": ("update", ".", [timing.rest_s for timing in timings]),
    }
    means = ", ".join(f"{name} {sum(values) / len(values):.3f} s" for name, (_, _, values) in parts.items())
    return make_chart(
        [
            go.Bar(
                x=list(range(1, len(timings) + 1)),
                y=values,
                name=name,
                marker=bar_marker(theme, colour, pattern),
                hovertemplate=f"answer %{{x}}, {name}: %{{y:.3f}} s<extra></extra>",
            )
            for name, (colour, pattern, values) in parts.items()
        ],
        theme,
        x=_answer_axis(timings),
        y={"title": {"text": "Seconds"}, "rangemode": "tozero"},
        barmode="stack",
        note="Answers of this page and of programs, oldest first",
        summary=f"Means: {means}",
        title_text=title,
    )


def _answer_axis(timings: Sequence[AnswerTiming]) -> dict[str, Any]:
    ticks = {"dtick": 1} if len(timings) <= _TICKED_ANSWERS else {}  # else a tick may lie between two answers
    return {"title": {"text": "Answer"}, "tickformat": "d", "range": [0.5, len(timings) + 0.5], **ticks}


def _share(timing: AnswerTiming) -> float:
    return timing.cached_tokens / timing.prompt_tokens


def _describe(timings: Sequence[AnswerTiming], measured: Sequence[ReusePoint]) -> str:
    if not measured:
        return format_count(len(timings), "answer")
    last = measured[-1]
    ratio = last.cold.first_s / last.warm.first_s
    return f"At {last.prompt_tokens} tokens the first token comes {ratio:.1f} times sooner with reuse"
