"""The lanes of the player, imported as ES modules in the browser without a server or the page."""

import math
from typing import Any

import pytest
from playwright.sync_api import Page

from stepscope.engine.decisions.policies import POLICIES
from tests.app.web.static import test_script_data_browser as scripts
from tests.app.web.static.test_script_data_browser import floats, packed_run
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import MAKE_PLAYER, address, run

pytestmark = NEEDS_CHROMIUM
page = scripts.page
WIDTH = 600
SETTINGS = {name: {"hits": [1], "misses": [2], "alarms": [4]} for name in ("speak", "update")}
PREPARE = """
    const { unpack } = await import(arg.data), player = makePlayer(), { shown } = player;
    const { LANES } = await import(arg.table);
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
    modules = {
        name: address(name)
        for name in (
            "data",
            "table",
            "increments",
            "threshold_moves",
            "inspection",
            "decision_marks",
            "curves",
            "sound",
        )
    }
    argument = {**modules, "counts": SETTINGS, "width": WIDTH, "packed": packed}
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


@pytest.mark.parametrize("is_late", [False, True])
def test_a_waveform_is_drawn_whether_it_comes_before_the_run_or_after_it(page: Page, is_late: bool) -> None:
    body = """
        const { updateSound } = await import(arg.sound), arranged = [], later = Promise.withResolvers();
        Object.assign(player, {
            server: { listen: () => later.promise }, video: { video: { currentSrc: "/file=/tmp/a.mp4" } },
            canvas: { parentElement: { clientWidth: 0 } }, find: () => ({}), // hidden: arranged only
            timeline: { arrange: (run) => arranged.push(run.sound?.peaks.length) },
        });
        const asked = updateSound(player);
        const showRun = () => { player.data = unpack(structuredClone(packed[0])); return updateSound(player); };
        if (packed[1]) await showRun();
        later.resolve({ per_s: 50, peaks: btoa("abc") });
        await asked;
        if (!packed[1]) await showRun();
        return arranged;"""
    assert on_timeline(page, body, with_steps(1, task={}), is_late) == [3]


@pytest.mark.parametrize(
    "packed",
    [
        with_steps(12),
        no_run(3),
        with_steps(2, other=with_steps(2)),
        with_steps(
            2, has_reference=False, expected=None, references=[], bands={"model": [[[-1, 0]]] * 2, "reference": []}
        ),
        without_frames(with_steps(2)),
    ],
    ids=["many steps", "reference alone", "two runs", "no reference", "no frames"],
)
def test_every_kind_of_run_is_painted_and_hovered_everywhere(page: Page, packed: dict[str, Any]) -> None:
    body = "return sweep(show(packed[0]));"
    assert on_timeline(page, body, packed) >= 3


def test_rows_belong_to_their_run_until_another_is_arranged(page: Page) -> None:
    """A paint or a hover between the arrival of a run with fewer steps and its layout has the rows of the old run."""
    body = """
        const before = show(packed[0]), next = unpack(packed[1]);
        timeline.paint(shown);
        const step = timeline.rows.findLast(({ kind }) => kind === "step");
        return [next.steps.length, step.run === before, timeline.describe(300, step.top + 2)];"""
    few = with_steps(1)
    words = "S4 base: not started; reference in progress"
    assert on_timeline(page, body, with_steps(5), few) == [1, True, words]


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


def test_a_run_that_streams_is_painted_and_hovered_from_its_first_increment_on(page: Page) -> None:
    whole = with_steps(2)
    head = without_frames(whole) | {"decided": {"speak": [], "update": []}, "expected": {"speak": [], "update": []}}
    series = {name: whole[name] for name in ("times", "speak", "update", "cache", "latency")}
    turns = [turn | {"link": None, "verdict": None} for turn in whole["turns"]]
    lists = {
        "refreshed": [],
        "forgotten": [],
        "decided": whole["decided"],
        "expected": whole["expected"],
        "changes": [[0, 2, 1]],
        "named": [],
        "assistant_states": [],
    }
    body = """
        const { GrowingRun } = await import(arg.increments), [head, increment] = packed;
        const growing = new GrowingRun({ head });
        timeline.view = { start: 0, end: growing.data.duration_s };
        timeline.resize(arg.width, timeline.arrange(growing.data));
        timeline.paint(shown);
        const kinds = [sweep(growing.data)];
        growing.append(increment);
        timeline.paint(shown);
        kinds.push(sweep(growing.data));
        const said = timeline.rows.find(({ kind }) => kind === "said");
        return [...kinds, said.boxes.length];"""
    first, grown, num_said = on_timeline(page, body, head, {**series, **lists, "turns": turns, "questions": []})
    assert first == grown >= 8
    assert num_said == 1


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


def test_the_decisions_of_a_run_stay_where_no_signal_has_values(page: Page) -> None:
    unknown = {name: floats(*[math.nan] * 6) for name in ("speak", "update")}
    empty = named("empty", [math.nan] * 6, missing="the server gives no logprobs")
    packed = with_steps(1, **unknown, named=[empty], decided={"speak": [1], "update": []})
    body = """
        sweep(show(packed[0]));
        return timeline.rows.filter(({ kind }) => kind === "trace").map(({ label }) => label);
    """
    assert on_timeline(page, body, packed) == ["speak", "empty"]


def test_a_swept_signal_gets_its_threshold_and_a_miss_shows_a_signal_that_is_known(page: Page) -> None:
    unknown = {name: floats(*[math.nan] * 6) for name in ("speak", "update")}
    signals = [
        named("sum", [0.25] * 6, policy="running-sum", threshold=None, key="relevance"),
        named("yes", [0.1, 0.2, 0.7, 0.1, 0.6, 0.1]),
    ]
    body = """
        const run = player.data = show({ ...packed[0], run_name: "toy" });
        const { settleThresholds, applyThresholds } = await import(arg.threshold_moves);
        const { highestNear, highestText } = await import(arg.inspection);
        settleThresholds(player);
        const words = () => highestText(highestNear(run, { kind: "missed", frame: 3 }), run), before = words();
        const used = { run: "toy", signals: { relevance: 0.6 } };
        try { applyThresholds(player, { used }); } catch {} // nothing to repaint
        return [before, words(), highestNear(run, { kind: "missed update", frame: 3 }),
            run.thresholds["signal-0"] ?? null, shown.thresholds["signal-0"], [...run["signal-0 level"]]];
    """
    packed = with_steps(1, **unknown, named=signals, tolerance_s=1, tolerance_frames=1)
    before, after, nothing, of_run, threshold, levels = on_timeline(page, body, packed)
    assert before == "highest sum within 1 s: 0.250, at this frame"
    assert after == "highest sum within 1 s: 0.750, 0.5 s earlier", "and no threshold, which the run does not have"
    assert nothing is None, "no signal decides to update"
    assert (of_run, threshold, levels) == (None, 0.6, [0.25, 0.5, 0.75, 0.25, 0.5, 0.75])


def test_unknown_probabilities_and_caches_take_little_room(page: Page) -> None:
    unknown = floats(*[math.nan] * 6)
    bare = {**with_steps(0), "speak": unknown, "update": unknown, "cache": floats(*[0.0] * 6), "latency": unknown}
    timed = bare | {"latency": floats(math.nan, 2.0, *[math.nan] * 4)}
    body = """
        const isSeen = ({ kind }) => kind === "trace" || kind === "cache";
        const kinds = () => timeline.rows.filter(isSeen).map(({ kind, height }) => [kind, height]);
        const { heightOfMark } = await import(arg.decision_marks), { drawCurves } = await import(arg.curves);
        return packed.map((one) => {
            const data = show(one), panel = document.createElement("div");
            drawCurves({ curves: { requestDrawing() {} }, settings: {} }, panel, data);
            const row = timeline.rows.find(({ kind }) => kind === "trace"), middle = row.top + row.height / 2;
            const isMiddle = ["hits", "misses"].map((kind) => heightOfMark(row, { kind }, 1) === middle);
            return [kinds(), isMiddle, panel.textContent];
        });"""
    found = on_timeline(page, body, with_steps(0), bare, timed)
    assert [words.partition("● ")[2] for *_, words in found] == [
        "is the threshold now; a click on a curve moves it.",
        *["is the run; it has no threshold."] * 2,
    ]
    assert found[0][0] == [["trace", 56], ["trace", 56], ["cache", 24]]
    assert found[1][:2] == [[["trace", 48]], [True, True]], "marks alone, in the middle"
    assert found[2][0] == [["trace", 48], ["cache", 24]]


def test_a_latency_of_every_second_frame_is_one_line(page: Page) -> None:
    times = floats(*(frame / 2 for frame in range(200)))
    latency = floats(*(math.nan if frame % 2 else 2.0 for frame in range(200)))
    packed = {**with_steps(0), "times": times, "latency": latency, "duration_s": 100.0}
    body = """
        const run = show(packed[0]), row = timeline.rows.find(({ kind }) => kind === "cache");
        const { data } = timeline.pen.getImageData(160, row.top + 2, 380, 2);
        return data.filter((value, at) => at % 4 === 3 && value > 0).length >= 380;"""
    assert on_timeline(page, body, packed | dict.fromkeys(("speak", "update", "cache"), floats(*[0.0] * 200)))


@pytest.mark.parametrize(
    ("verdicts", "shape"),
    [
        (["correct", None], "ring"),
        ([None, "correct"], "ring"),
        (["redundant", "correct"], "triangle"),
        (["correct", "unclear", None], "ring"),
        (["correct", "correct"], "dot"),
    ],
)
def test_events_of_one_moment_are_marked_as_judged_once_all_are(
    page: Page, verdicts: list[str | None], shape: str
) -> None:
    body = """
        const drawn = [], pen = { radius: 0, beginPath() {}, moveTo() { pen.radius = 0; }, lineTo() {} };
        pen.arc = (x, y, radius) => { pen.radius = radius; };
        pen.stroke = () => drawn.push("ring");
        pen.fill = () => drawn.push(pen.radius ? "dot" : "triangle");
        const judged = packed[0].verdicts.map((verdict) => ({ time: 2, verdict }));
        const lane = LANES.find(({ kind }) => kind === "judged");
        lane.paint({ pen, colours: {}, width: arg.width, x: (time) => 150 + 10 * time }, { top: 0, run: { judged } });
        return drawn;"""
    assert on_timeline(page, body, {"verdicts": verdicts}) == [shape]
