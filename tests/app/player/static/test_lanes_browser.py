"""The lanes of the player, imported as ES modules in the browser without a server or the page."""

import math
from typing import Any

import pytest
from playwright.sync_api import Page

from stepscope.engine.decisions.policies import POLICIES
from tests.app.player.static import test_script_data_browser as scripts
from tests.app.player.static.test_script_data_browser import floats, packed_run
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import MAKE_PLAYER, address, run

pytestmark = NEEDS_CHROMIUM
page = scripts.page
WIDTH = 600
SETTINGS = {name: {"hits": [1], "misses": [2], "alarms": [4]} for name in ("speak", "update")}
PREPARE = """
    const { unpack } = await import(arg.data), player = makePlayer(), { shown } = player;
    document.body.innerHTML = "<canvas></canvas>";
    shown.counts = arg.counts;
    player.thresholds.shown = { speak: 0.35, update: 0.9 };
    const timeline = new Timeline(document.querySelector("canvas"));
    const show = (packed) => {
        const run = unpack(structuredClone(packed));
        timeline.view = { start: 0, end: run.duration_s };
        timeline.resize(arg.width, timeline.arrange(run));
        timeline.paint(shown);
        return run;
    };
    // Hovers and presses everywhere; returns the number of kinds of rows.
    const sweep = (run) => {
        const seen = new Set();
        for (let y = 0; y < timeline.height; y += 3) for (let x = 0; x < arg.width; x += 5) {
            seen.add(timeline.rowAt(y)?.kind);
            timeline.describe(x, y);
            if (run.times.length) { timeline.markAt(x, y); timeline.gripAt(x, y); }
        }
        return [...seen].filter(Boolean).length;
    };
"""


def on_timeline(page: Page, body: str, *packed: Any) -> Any:
    """Run a body with a timeline, ``show`` for a packed run, and the packed runs as ``packed``."""
    argument = {"data": address("data"), "counts": SETTINGS, "width": WIDTH, "packed": packed}
    return run(page, "timeline", "Timeline", f"{MAKE_PLAYER} {PREPARE} const packed = arg.packed; {body}", argument)


def with_steps(number: int, **parts: Any) -> dict[str, Any]:
    """Return a packed run of 6 frames with a number of steps, turns and a failure."""
    turn = {"role": "assistant", "frame": 4, "text": "Now", "link": 0, "verdict": "matched", "score": 0.9}
    reference = {"role": "assistant", "frame": 4, "time": 2.0, "text": "Now", "is_missed": False}
    asked = {"role": "user", "frame": 1, "time": 0.5, "text": "Next?", "is_given": True}
    bands = [[[-1, 0], [2, 1], [4, 2]]] * number
    return packed_run(
        6,
        **{
            "steps": [{"id": f"S{step}", "name": "base"} for step in range(number)],
            "bands": {"model": [[[-1, 0]]] * number, "reference": bands},
            "state_words": ["not started", "in progress", "completed"],
            "turns": [turn],
            "references": [reference, asked],
            "refresh_at": 100,
            "run_name": "late",
            **parts,
        },
    )


def no_run(number: int) -> dict[str, Any]:
    """Return the packed reference of ``with_steps`` without a run."""
    event = {"key": "k", "kind": "reference", "turn": None, "reference": 0}
    return without_frames(with_steps(number)) | {"events": [event], "turns": []}


def without_frames(packed: dict[str, Any]) -> dict[str, Any]:
    """Return a packed run whose model has not seen a frame."""
    return packed | dict.fromkeys(("times", "speak", "update", "cache", "latency"), "") | {"turns": []}


def test_a_waveform_is_drawn_at_its_time_and_a_silent_video_has_none(page: Page) -> None:
    body = """
        const run = show(packed[0]), drawn = [];
        const bare = timeline.rows.map(({ kind }) => kind).includes("sound");
        const peaks = Uint8Array.from({ length: 150 }, (_, n) => (n >= 50 && n < 100 ? 255 : 0));
        run.sound = { per_s: 50, peaks, times: Float64Array.from(peaks, (_, n) => n / 50) };
        timeline.resize(arg.width, timeline.arrange(run));
        const row = timeline.rows.find(({ kind }) => kind === "sound");
        timeline.pen.fillRect = (x, y, width, tall) => {
            if (tall > 10 && y >= row.top && y + tall <= row.top + row.height) drawn.push(timeline.time(x));
        };
        timeline.paint(shown);
        const said = [0.5, 1.5].map((time) => timeline.describe(timeline.x(time), row.top + 4));
        return [bare, Math.min(...drawn), Math.max(...drawn), said];"""
    bare, first_s, last_s, said = on_timeline(page, body, with_steps(1))
    assert not bare
    assert (first_s, last_s) == pytest.approx((1.0, 2.0), abs=0.05)
    assert said == ["0:00.5  sound, silence", "0:01.5  sound, 0 dB"]


@pytest.mark.parametrize(
    "packed",
    [
        no_run(3),
        with_steps(2, other=with_steps(2)),
        with_steps(2, other=with_steps(2, thresholds={})),
        with_steps(
            2, has_reference=False, expected=None, references=[], bands={"model": [[[-1, 0]]] * 2, "reference": []}
        ),
        without_frames(with_steps(2)),
    ],
    ids=["reference alone", "two runs", "no thresholds", "no reference", "no frames"],
)
def test_every_kind_of_run_is_painted_and_hovered_everywhere(page: Page, packed: dict[str, Any]) -> None:
    body = "return sweep(show(packed[0]));"
    assert on_timeline(page, body, packed) >= 3


def test_a_reference_without_steps_has_no_band(page: Page) -> None:
    packed = with_steps(2)
    bare = packed | {"bands": packed["bands"] | {"reference": []}}
    script = """
        const { bandsOf } = await import(arg.data);
        return packed.map((one) => bandsOf(show(one)).join());
    """
    assert on_timeline(page, script, packed, bare) == ["reference,model", "model"]


def test_the_user_lane_has_the_turns_of_the_run_alone(page: Page) -> None:
    packed = with_steps(1)
    sooner = {"role": "user", "frame": 0, "time": 0.0, "text": "Begin?", "is_given": True}
    changed = {"role": "user", "frame": 3, "time": 1.5, "text": "And now?", "is_given": False}
    references = [changed, *packed["references"], sooner]  # turns that were added on the page are last
    body = """
        show(packed[0]);
        return ["user", "reference"].map((kind) => {
            const row = timeline.rows.find((found) => found.kind === kind);
            return row.boxes.map(([left, , turn]) => [turn.text, timeline.describe(left + 2, row.top + 5)]);
        });"""
    assert on_timeline(page, body, packed | {"references": references}) == [
        [["Begin?", "0:00.0  Begin?"], ["Next?", "0:00.5  Next?"]],
        [["And now?", "0:01.5  And now?"], ["Now", "0:02.0  Now"]],
    ]


def named(title: str, values: list[float], **parts: Any) -> dict[str, Any]:
    """Return a packed named signal that decides to speak above 0.5."""
    policy = POLICIES[parts.pop("policy", "above")].pack()
    signal = {"title": title, "low": 0, "high": 1, "threshold": 0.5, "decides": "speak", "policy": policy}
    return {**signal, "values": floats(*values), **parts}


def test_named_signals_have_rows_counts_and_a_band_of_states(page: Page) -> None:
    unknown = {name: floats(*[math.nan] * 6) for name in ("speak", "update")}
    signals = [
        named("a <b>", [0.1, 0.9, 0.2, 0.1, 0.6, 0.1]),
        named("sum", [0.25] * 6, policy="running-sum", threshold=0.6),
        named("shown only", [40.0] * 6, high=100, threshold=None, decides=None),
        named("empty", [math.nan] * 6, missing="the server gives no logprobs"),
    ]
    states = [[0, "silent"], [2, "respond"], [3, None], [4, "my <i>own</i>"]]
    packed = with_steps(1, **unknown, named=signals, assistant_states=states)
    body = """
        const whole = show(packed[0]), { EventCounts } = await import(arg.data);
        const { hits, alarms } = new EventCounts(whole, "signal-0", 0.5, false).extend();
        sweep(whole);
        const kinds = timeline.rows.map(({ kind }) => kind);
        const traces = timeline.rows.filter(({ kind }) => kind === "trace");
        const labels = traces.map(({ label }) => label);
        const texts = [], pen = { fillText: (text) => texts.push(text), measureText: () => ({ width: 1 }) };
        for (const row of traces) row.lane.paint({ pen, colours: {}, gutter: 9, inner: 900 }, row);
        texts.push(traces.at(-1).signal.canMove);
        return [texts, labels, kinds.includes("state"), [...hits, ...alarms], [...whole["signal-1 level"]]];
    """
    texts, labels, has_states, decided, levels = on_timeline(page, body, packed)
    assert texts == ["no values: the server gives no logprobs", False], "nothing to decide, and so nothing missed"
    assert labels == ["a <b>", "sum", "shown only", "empty"], "unknown probabilities give way to the signals"
    assert has_states
    assert sorted(decided) == [1, 4]
    assert levels == [0.25, 0.5, 0.75, 0.25, 0.5, 0.75], "a trigger above 0.6 starts the sum again"
