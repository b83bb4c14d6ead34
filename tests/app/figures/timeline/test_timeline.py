"""The figure of a run of 20 frames at 2 fps whose turns, states and decisions are listed in ``make_run``."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from stepscope.app.figures.text import from_markup, text_width
from stepscope.app.figures.timeline.figure import build_timeline
from stepscope.app.figures.timeline.run import Decisions, TimelineRun, pair_decisions, read_signals
from stepscope.app.figures.timeline.signals import reduce_curve
from stepscope.app.figures.timeline.table import timeline_rows
from stepscope.app.style.colours import COLOURS, Theme
from stepscope.engine.config import StreamConfig
from tests.support.reviews.played import HOSTILE

Make = Callable[..., TimelineRun]


def traces(figure: go.Figure, **wanted: Any) -> list[Any]:
    return [trace for trace in figure.data if all(getattr(trace, name) == value for name, value in wanted.items())]


def times_of(figure: go.Figure, name: str) -> list[float]:
    return [time for trace in traces(figure, name=name) for time in trace.x]


def test_decisions_have_other_words_than_failures(make_timeline: Make) -> None:
    speak, update = make_timeline().signals
    # The model speaks at frames 2, 11 and 18, the reference at 2, 8 and 12; 2 frames are the tolerance.
    assert speak.decisions == Decisions([2, 11], [18], [8])
    # It updates at 2 and 7, the reference at 2, 8 and 17.
    assert update.decisions == Decisions([2, 7], [], [17])
    figure = build_timeline(make_timeline())
    assert times_of(figure, "P(speak): in time") == [1.0, 5.5]
    assert times_of(figure, "P(speak): unexpected") == [9.0]
    assert times_of(figure, "P(speak): no decision") == [4.0]
    assert times_of(figure, "P(update): no decision") == [8.5]
    words = [text for trace in figure.data if getattr(trace, "mode", "") == "text" for text in trace.text]
    assert any("decisions only" in text and "unexpected: 1" in text for text in words), words
    series = {row["series"] for row in timeline_rows(make_timeline(), from_s=0, to_s=10) if row["lane"] == "speak"}
    assert series == {"P(speak)", "in time", "unexpected", "no decision", "threshold"}


def test_a_rule_with_theta_has_it_beside_its_threshold(make_timeline: Make) -> None:
    run, config = make_timeline(), StreamConfig(decision_policy="streaming-eos", speak_threshold=0.275)
    assert read_signals(config, run.outputs, run.sample)[0].condition == "> 0.275 (theta 0.725)"


@pytest.mark.parametrize(
    ("decided", "expected", "tolerance", "found"),
    [
        ([], [], 1, ([], [], [])),
        ([3, 9], [3, 9], 0, ([3, 9], [], [])),
        ([1], [8], 2, ([], [1], [8])),
        ([5], [4, 6], 1, ([5], [], [6])),
        ([4, 6], [5], 1, ([4], [6], [])),
        ([2, 3], [3, 4], 1, ([2, 3], [], [])),
        ([2, 3], None, 1, ([2, 3], [], [])),
    ],
)
def test_decisions_are_paired_as_in_the_player(
    decided: list[int], expected: list[int] | None, tolerance: int, found: tuple[Sequence[int], ...]
) -> None:
    assert pair_decisions(decided, expected, tolerance_frames=tolerance) == found


def test_every_lane_has_its_marks(make_timeline: Make) -> None:
    run = make_timeline()
    figure = build_timeline(run)
    boxes = [trace for trace in figure.data if trace.type == "bar" and trace.hoverinfo == "text"]
    assert [list(trace.base) for trace in boxes] == [[3.0], [1.0, 4.0, 6.0], [1.0, 5.5, 9.0]]  # user, reference, model
    # Bands: S1 changes twice on both sides, S2 once in the reference: 3 + 3 + 2 + 1 spans.
    spans = {
        name: len(bar.base) for name in ("not started", "in progress", "completed") for bar in traces(figure, name=name)
    }
    assert spans == {"not started": 4, "in progress": 3, "completed": 2}
    (differs,) = traces(figure, name="model differs")
    assert [(base, base + length) for base, length in zip(differs.base, differs.x, strict=True)] == [
        (3.5, 4.0),  # the model completes S1 half a second early
        (8.5, 10.0),  # and never starts S2
    ]
    (curve,) = traces(figure, name="P(speak)")
    assert list(curve.y) == [output.speak_prob for output in run.outputs]
    (refresh,) = traces(figure, name="refresh")
    assert refresh.x[0] == 7.5


def test_the_legend_has_the_signs_of_the_marks(make_timeline: Make) -> None:
    run = make_timeline()
    texts = [text for trace in traces(build_timeline(run), xaxis="x2", mode="text") for text in trace.text]
    after = {entry: texts[texts.index(entry) - 1] for entry in ("matched", "early or late", "redundant", "missed")}
    assert after == {"matched": "✓", "early or late": "↔", "redundant": "+", "missed": "✕"}
    (signs,) = traces(build_timeline(run), xaxis="x2", mode="markers")
    at = dict(zip(signs.marker.symbol, signs.marker.color, strict=True))
    assert (at["circle"], at["triangle-up"]) == (COLOURS["matched"].light, COLOURS["redundant"].light)
    (missed,) = traces(build_timeline(run), name="P(speak): no decision")
    assert (missed.marker.symbol, missed.marker.line.color) == ("x-thin", COLOURS["missed"].light)


def test_a_range_includes_its_borders_and_nothing_beyond(make_timeline: Make) -> None:
    run = make_timeline()
    figure = build_timeline(run, from_s=1.0, to_s=5.5)
    assert list(figure.layout.xaxis.range) == [1.0, 5.5]
    assert times_of(figure, "P(speak): in time") == [1.0, 5.5]
    inner = build_timeline(run, from_s=1.001, to_s=5.499)
    assert times_of(inner, "P(speak): in time") == []
    assert times_of(inner, "P(speak): no decision") == [4.0]
    for state in ("not started", "in progress", "completed", "model differs"):
        for bar in traces(inner, name=state):
            assert min(bar.base) >= 1.001
            assert max(base + length for base, length in zip(bar.base, bar.x, strict=True)) <= 5.499 + 1e-9
    rows = list(timeline_rows(run, from_s=1.0, to_s=5.5))
    times = [row["time_s"] for row in rows if row["series"] == "P(speak)"]
    assert times == [output.time_s for output in run.outputs[2:12]]
    assert all(float(str(row["time_s"])) >= 1.0 and float(str(row["end_s"] or 0)) <= 5.5 for row in rows)


def test_the_table_has_the_values_of_the_run(make_timeline: Make) -> None:
    run = make_timeline()
    rows = list(timeline_rows(run, from_s=0, to_s=10))
    speak = [row["value"] for row in rows if row["series"] == "P(speak)"]
    assert speak == [output.speak_prob for output in run.outputs]
    tokens = [row["value"] for row in rows if row["series"] == "tokens"]
    assert tokens == [output.cache_tokens for output in run.outputs]
    states = [(row["series"], row["time_s"], row["end_s"], row["text"]) for row in rows if row["lane"] == "S2"]
    assert states == [
        ("reference", 0.0, 8.5, "not_started"),
        ("reference", 8.5, 10.0, "in_progress"),
        ("model", 0.0, 10.0, "not_started"),
        ("differs", 8.5, 10.0, None),
    ]


def test_a_run_without_a_reference_has_its_own_lanes_and_decisions(make_timeline: Make) -> None:
    figure = build_timeline(make_timeline(has_reference=False))
    labels = [from_markup(text) for trace in figure.data for text in trace.text or () if trace.xaxis == "x2"]
    assert "assistant" in labels
    assert {"reference", "model differs", "missed"}.isdisjoint(labels)
    assert "decision" in labels
    assert times_of(figure, "P(speak): in time") == [1.0, 5.5, 9.0]


def test_a_signal_is_an_entry_of_a_list(make_timeline: Make) -> None:
    run = make_timeline()
    entropy = replace(
        run.signals[0], name="entropy", label="entropy", threshold=None, condition="", decisions=Decisions([], [], [])
    )
    figure = build_timeline(replace(run, signals=(*run.signals, entropy)))
    (curve,) = traces(figure, name="entropy")
    assert curve.yaxis == "y4"
    assert figure.layout.height > build_timeline(run).layout.height


def test_hostile_texts_are_escaped_and_cut(make_timeline: Make) -> None:
    figure = build_timeline(make_timeline(HOSTILE))
    texts = [text for trace in figure.data for text in (*(trace.text or ()), *(trace.hovertext or ()))]
    assert any("&lt;img" in text for text in texts)
    assert not any("<img" in text for text in texts)
    assert max(map(len, texts)) < 500


@pytest.mark.parametrize("width_px", [240, 321, 680, 1000, 2000])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_are_large_enough_and_keep_to_the_figure(make_timeline: Make, width_px: int, theme: Theme) -> None:
    figure = build_timeline(make_timeline(), width_px=width_px, theme=theme)
    size = figure.layout.font.size
    assert size * 72 / 96 >= 7, "points at print size"
    for trace in figure.data:
        if trace.xaxis == "x2" and trace.mode == "text":
            sign = 1 if "right" in trace.textposition else -1
            for x, text in zip(trace.x, trace.text, strict=True):
                end = x + sign * max(text_width(line, size) for line in from_markup(text).split("\n"))
                assert 0 <= end <= width_px, text


@pytest.mark.parametrize(
    ("from_s", "to_s", "message"),
    [
        (5.0, 5.0, "the range from 5 to 5 s is empty; the video lasts 10 s"),
        (12.0, 20.0, "the range from 12 to 10 s is empty"),
        (-1.0, 5.0, "the range must be times from 0 s; got -1 to 5 s"),
        (float("nan"), 5.0, "the range must be times from 0 s"),
    ],
)
def test_an_empty_range_is_refused(make_timeline: Make, from_s: float, to_s: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_timeline(make_timeline(), from_s=from_s, to_s=to_s)


def test_a_long_curve_keeps_its_extremes() -> None:
    assert reduce_curve(np.array([0, 5, 1, 2, 9, 3.0]), most=4).tolist() == [0, 1, 3, 4, 5]
    values = np.zeros(100_000)
    values[54_321] = 1
    kept = reduce_curve(values, most=1000)
    assert len(kept) <= 1002
    assert values[kept].max() == 1
    assert reduce_curve(np.array([np.nan] * 10), most=4).tolist() == [0, 5, 9]


def test_the_lanes_of_a_second_run_are_below_without_its_reference(make_timeline: Make) -> None:
    first, second = replace(make_timeline(), letter="A"), replace(make_timeline(), letter="B", run_name="<i>late</i>")
    figure = build_timeline(first, below=second)
    labels = [from_markup(text) for trace in traces(figure, type="scatter", xaxis="x2") for text in trace.text or ()]
    heading = labels.index("B: <i>late</i>")
    assert labels.index("reference") < labels.index("A assistant") < heading
    assert labels[heading + 1] == "B assistant"
    assert "reference" not in labels[heading:]
    assert times_of(figure, "P(speak): in time") == [1.0, 5.5] * 2
    assert len(traces(figure, name="tokens")) == 1
    assert figure.layout.height > build_timeline(first).layout.height * 1.5
    rows = list(timeline_rows(first, from_s=0, to_s=10, below=second))
    assert {row["lane"] for row in rows if row["run"] == second.run_name} >= {"assistant", "speak", "update"}
    assert not [row for row in rows if row["run"] == second.run_name and "reference" in (row["lane"], row["series"])]


def test_the_latency_is_drawn_where_it_was_measured(make_timeline: Make) -> None:
    run = make_timeline()
    times = [0.0 if number == 3 else 20.0 + number for number in range(len(run.outputs))]
    outputs = [replace(output, latency_ms=time) for output, time in zip(run.outputs, times, strict=True)]
    (curve,) = traces(build_timeline(replace(run, outputs=outputs)), name="latency (ms)")
    assert (curve.y[0], curve.y[3], curve.y[-1]) == (20.0, None, 39.0)
    rows = [row for row in timeline_rows(replace(run, outputs=outputs), from_s=0, to_s=10) if row["lane"] == "latency"]
    assert (len(rows), rows[-1]["value"]) == (19, 39.0)
    early = build_timeline(replace(run, outputs=outputs), to_s=2.0)
    assert early.layout.yaxis5.tickvals == (0, 24.0), "the axis is that of the range: the frame at 2 s is the last"
    unmeasured = [replace(output, latency_ms=0.0) for output in run.outputs]
    assert traces(build_timeline(replace(run, outputs=unmeasured)), name="latency (ms)") == []


def test_steps_of_a_run_without_states_have_the_reference_alone(make_timeline: Make) -> None:
    run = replace(make_timeline(), has_states=False)
    lanes = {row["series"] for row in timeline_rows(run, from_s=0, to_s=10) if row["lane"] in ("S1", "S2")}
    assert lanes == {"reference"}
    assert "step states: reference; those of the model are not known" in build_timeline(run).to_json()
    alone = replace(run, sample=None, judged=None)
    assert not [row for row in timeline_rows(alone, from_s=0, to_s=10) if row["lane"] in ("S1", "S2")]
    assert "step states" not in build_timeline(alone, below=run).to_json()


def test_values_whose_neighbours_are_unknown_are_drawn_as_points(make_timeline: Make) -> None:
    run = make_timeline()
    values = [0.4 if number % 2 else math.nan for number in range(len(run.outputs))]
    signal = replace(run.signals[0], label="apart", values=values)
    figures = [build_timeline(replace(run, signals=(one,))) for one in (run.signals[0], signal)]
    modes = [
        next(trace.mode for trace in traces(figure, type="scatter") if trace.name == one)
        for figure, one in zip(figures, (run.signals[0].label, "apart"), strict=True)
    ]
    assert modes == ["lines", "lines+markers"]


def test_unknown_probabilities_and_caches_have_no_axis(make_timeline: Make) -> None:
    run = make_timeline()
    speak = replace(run.signals[0], values=[math.nan] * len(run.outputs))
    bare = replace(run, signals=(speak,), outputs=[replace(output, cache_tokens=0) for output in run.outputs])
    figure = build_timeline(bare)
    assert times_of(figure, "P(speak): no decision") == [4.0]
    assert {y for trace in figure.data if (trace.name or "").startswith("P(speak): ") for y in trace.y} == {0.5}
    assert figure.layout.yaxis2.tickvals == ()
    assert traces(figure, name="tokens") == []
    assert traces(build_timeline(run), name="tokens") != []
