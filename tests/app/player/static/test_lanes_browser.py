"""The lanes of the player, imported as ES modules in the browser without a server or the page."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.player.static import test_script_data_browser as scripts
from tests.app.player.static.test_script_data_browser import address, packed_run, run
from tests.support.pages.browser import NEEDS_CHROMIUM

pytestmark = NEEDS_CHROMIUM
page = scripts.page
WIDTH = 600
SETTINGS = {name: {"hits": [1], "misses": [2], "alarms": [4]} for name in ("speak", "update")}
PREPARE = """
    const { unpack } = await import(arg.data), { shown } = await import(arg.state);
    const { LANES } = await import(arg.table), { defineLane } = await import(arg.lane);
    document.body.innerHTML = "<canvas></canvas>";
    Object.assign(shown, { counts: arg.counts, thresholds: { speak: 0.35, update: 0.9 } });
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


def on_timeline(page: Page, body: str, *packed: dict[str, Any]) -> Any:
    """Run a body with a timeline, ``show`` for a packed run, and the packed runs as ``packed``."""
    modules = {name: address(name) for name in ("data", "state", "table", "lane", "increments")}
    argument = {**modules, "counts": SETTINGS, "width": WIDTH, "packed": packed}
    return run(page, "timeline", "Timeline", f"{PREPARE} const packed = arg.packed; {body}", argument)


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
            "latency_most": 1.0,
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


def test_a_lane_of_the_table_is_arranged_painted_and_found(page: Page) -> None:
    body = """
        const height = (run) => timeline.arrange(run), painted = [], own = defineLane({
            kind: "mine", height: 31, above: 3, below: 2, appliesTo: (run) => run.turns.length > 0,
            rows: () => [{ label: "mine" }, { label: "half", height: 10 }],
            paint: (line, row) => painted.push([row.label, line === timeline, row.run.fps]),
            describeLabel: (row) => `label ${row.label}`,
            describe: (line, row, x, y) => `${row.label} ${x} ${y - row.top}`,
            markAt: (line, row) => ({ keys: row.label === "mine" ? ["k"] : [], time: 1 }),
            gripAt: () => ({ cursor: "grab" }),
        });
        const whole = show(packed[0]), empty = show(packed[1]), before = [height(whole), height(empty)];
        LANES.push(own);
        try {
            const added = [height(whole) - before[0], height(empty) - before[1]];
            timeline.arrange(whole);
            timeline.paint(shown);
            const [mine, half] = timeline.rows.filter(({ kind }) => kind === "mine").map((row) => row.top + 4);
            return [added, painted, timeline.describe(300, mine), timeline.describe(20, half),
                timeline.markAt(300, mine), timeline.markAt(300, half),
                timeline.gripAt(300, half).cursor, timeline.gripAt(20, half)];
        } finally { LANES.pop(); }"""
    assert on_timeline(page, body, with_steps(1), packed_run(6)) == [
        [46, 0],
        [["mine", True, 2], ["half", True, 2]],
        "mine 300 4",
        "label half",
        {"keys": ["k"], "time": 1},
        None,
        "grab",
        None,
    ]


def test_each_lane_has_a_kind_and_its_signs_have_meanings(page: Page) -> None:
    body = """
        const signs = LANES.flatMap(({ legend }) => legend);
        return [LANES.map(({ kind }) => kind), signs.map(([sign, words]) => [sign, words.length > 9])];"""
    kinds, signs = on_timeline(page, body)
    assert all(kinds)
    assert signs == [["● ▲ ✕", True], ["↻", True]]


@pytest.mark.parametrize(
    "packed",
    [
        with_steps(3),
        with_steps(0),
        with_steps(12),
        no_run(3),
        with_steps(2, other=with_steps(2)),
        with_steps(
            2, has_reference=False, expected=None, references=[], bands={"model": [[[-1, 0]]] * 2, "reference": []}
        ),
        without_frames(with_steps(2)),
    ],
    ids=["judged", "no steps", "many steps", "reference alone", "two runs", "no reference", "no frames"],
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
    lists = {"refreshed": [], "decided": whole["decided"], "expected": whole["expected"], "changes": [[0, 2, 1]]}
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
    first, grown, num_said = on_timeline(page, body, head, {**series, **lists, "turns": turns})
    assert first == grown >= 8
    assert num_said == 1
