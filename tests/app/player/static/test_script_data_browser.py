"""The player's data module, imported as ES modules in the browser without a server or the page."""

import json
import random
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from struct import pack
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from stepscope.app.formatting import format_clock
from stepscope.engine.decisions.policies import POLICIES, convert_theta
from stepscope.eval.matching.updates import assign
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import MAKE_PLAYER, address, open_modules, run
from tests.support.paths import ROOT

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with open_modules(browser) as page:
        yield page


def floats(*values: float) -> str:
    """Pack numbers as the server does: little-endian doubles in base64."""
    return b64encode(pack(f"<{len(values)}d", *values)).decode()


def packed_run(num_frames: int, **parts: Any) -> dict[str, Any]:
    """Return a packed run at 2 frames per second with one step, whose state the model never changes."""
    values = [0.1 * frame for frame in range(num_frames)]
    return {
        "fps": 2.0,
        "times": floats(*(frame / 2 for frame in range(num_frames))),
        **{name: floats(*values) for name in ("speak", "update", "cache", "latency")},
        "duration_s": num_frames / 2,
        "policy": POLICIES["heads"].pack(),
        "tolerance_frames": 1,
        "thresholds": {"speak": 0.35, "update": 0.9},
        "decided": {"speak": [1, 4], "update": []},
        "expected": {"speak": [2], "update": []},
        "has_reference": True,
        "steps": [{"id": "S1", "name": "base"}],
        "bands": {"model": [[[-1, 0]]], "reference": [[[-1, 0], [2, 1], [4, 2]]]},
        "turns": [],
        "references": [],
        "failures": [],
        "events": [],
        "other": None,
        "refreshed": [],
        "forgotten": [],
        "has_states": True,
    } | parts


def test_a_run_is_unpacked_with_its_times_and_differences(page: Page) -> None:
    body = "const d = unpack(arg); return [[...d.times], d.reached, d.differences, d.failures[0].time];"
    failure = {"frame": 3, "kind": "wrong state", "turn": None, "reference": None}
    # The reference has state 0 before frame 2, 1 from 2 and 2 from 4; the model has 0: one span for each wrong state.
    expected = [[0, 0.5, 1, 1.5, 2, 2.5], 3, [[[2, 4], [4, 6]]], 1.5]
    assert run(page, "data", "unpack", body, packed_run(6, failures=[failure])) == expected


def test_an_update_in_words_says_that_its_step_is_unknown(page: Page) -> None:
    body = "return arg.map(([steps, text]) => updateWords({ steps }, text));"
    steps = [{"id": "S1", "name": "mount the block"}, {"id": "S2", "name": ""}]
    texts = ["S1->start", "S2->complete", "S7->complete", "S1->begin"]
    words = ["began: mount the block", "ended: S2", "ended: S7 (no step of the task)", "S1->begin"]
    cases = [*([steps, text] for text in texts), [[], "S7->complete"]]
    assert run(page, "data", "updateWords", body, cases) == [*words, "S7->complete"], "a run may name no steps"


def test_a_reference_without_a_run_has_no_frames(page: Page) -> None:
    event = {"key": "k", "kind": "reference", "turn": None, "reference": 0}
    turn = {"role": "assistant", "time": 1.0, "text": "Go", "is_missed": False}
    packed = packed_run(0, events=[event], references=[turn], bands={"model": [[]], "reference": [[[-1, 0]]]})
    body = "const d = unpack(arg); return [d.isReferenceAlone, d.reached, d.rows.map((row) => [row.time, row.key])];"
    assert run(page, "data", "unpack", body, packed) == [True, 0, [[1.0, "k"]]]


def test_as_many_decisions_are_paired_as_in_the_scores(page: Page) -> None:
    rng = random.Random(0)
    frames = [[sorted(rng.sample(range(20), rng.randrange(9))) for _ in range(2)] for _ in range(300)]
    cases = [(one, other, tolerance) for tolerance, (one, other) in zip(cycle(range(4)), frames, strict=False)]
    body = """return arg.map(([decided, expected, tolerance]) => {
        const p = new EventPairs(tolerance); p.extend(decided, expected, 20);
        return [p.hits.length, p.alarms.length, p.misses.length];
    });"""
    pairs = [
        np.abs(np.subtract.outer(np.array(decided, float), np.array(expected, float))) <= tolerance
        for decided, expected, tolerance in cases
    ]
    most = [len(assign(np.where(close, 0.0, np.inf))) for close in pairs]
    assert run(page, "data", "EventPairs", body, cases) == [
        [number, len(decided) - number, len(expected) - number]
        for number, (decided, expected, _) in zip(most, cases, strict=True)
    ]


@pytest.mark.parametrize(
    ("decided", "expected", "tolerance", "counts"),
    [
        ([], [], 1, [[], [], []]),
        ([3, 9], [3, 9], 0, [[3, 9], [], []]),  # each at its frame
        ([1], [8], 2, [[], [8], [1]]),  # 7 apart
        ([5], [4, 6], 1, [[5], [6], []]),  # one decision serves one reference
        ([4, 6], [5], 1, [[4], [], [6]]),
        ([2, 3], [3, 4], 1, [[2, 3], [], []]),  # 2 with 3 and 3 with 4: as many pairs as possible
    ],
)
def test_decisions_are_paired_with_the_reference(
    page: Page, decided: list[int], expected: list[int], tolerance: int, counts: list[list[int]]
) -> None:
    body = "const p = new EventPairs(arg[2]); p.extend(arg[0], arg[1], 20); return [p.hits, p.misses, p.alarms];"
    assert run(page, "data", "EventPairs", body, [decided, expected, tolerance]) == counts


def test_pairs_of_growing_lists_are_those_of_the_whole_lists(page: Page) -> None:
    body = """
        const [decided, expected] = arg, grown = new EventPairs(2), whole = new EventPairs(2);
        for (let reached = 0; reached <= 20; reached += 1) {
            const [some, others] = [decided, expected].map((frames) => frames.filter((frame) => frame < reached));
            grown.extend(some, others, reached);
        }
        whole.extend(decided, expected, 20);
        return [grown, whole].map(({ hits, misses, alarms }) => [hits, misses, alarms]);"""
    grown, whole = run(page, "data", "EventPairs", body, [[1, 4, 5, 11, 19], [2, 3, 9, 15, 18]])
    assert grown == whole == [[1, 4, 11, 19], [15], [5]]


def test_a_threshold_decides_again_from_the_trace(page: Page) -> None:
    body = """const data = unpack(arg), counts = (threshold, isPreview) => {
            const { hits, misses, alarms } = new EventCounts(data, "speak", threshold, isPreview).extend();
            return [hits, misses, alarms];
        };
        return [counts(0.35, false), counts(0.35, true), counts(0.2, true), counts(0.9, true)];"""
    own, same, lower, none = run(page, "data", "unpack, EventCounts", body, packed_run(6))
    assert own == [[1], [], [4]], "the run's own decisions are kept, whatever the trace has"
    assert same == [[], [2], [4, 5]]
    assert lower == [[3], [], [4, 5]], "0.2 is not above 0.2; 3 is within one frame of 2"
    assert none == [[], [2], []]


def test_the_script_triggers_at_the_frames_of_the_table(page: Page) -> None:
    cases = json.loads((ROOT / "tests" / "data" / "policies.json").read_text(encoding="utf-8"))
    for case in cases:
        settings = {name: case[name] for name in ("frames_in_a_row", "refractory_s") if name in case}
        case["policy"] = replace(POLICIES[case["policy"]], **settings).pack()
    body = """return arg.map(({ policy, threshold, probs, fps }) => ["speak", "update"].map((signal) => {
            const counter = countTriggers(policy, signal, threshold, fps ?? 2);
            return probs.flatMap((prob, frame) => (counter.add(prob ?? NaN) ? [frame] : []));
        }));"""
    found = run(page, "policy", "countTriggers", body, cases)
    assert found == [[case["speak"], case["update"]] for case in cases]


def test_the_script_converts_theta_as_the_policies_do(page: Page) -> None:
    values = [0.0, 1e-7, 0.1, 0.275, 1 / 3, 0.725, 0.999999, 1.0]
    found = run(page, "policy", "convertTheta", "return arg.map(convertTheta);", values)
    assert found == list(map(convert_theta, values))
    policies = [policy.pack() for policy in POLICIES.values()]
    has_theta = run(page, "policy", "hasTheta", "return arg.map(hasTheta);", policies)
    assert has_theta == [policy.has_theta for policy in POLICIES.values()]


def test_the_panel_compares_as_the_policy_does(page: Page) -> None:
    body = f"""{MAKE_PLAYER} const {{ drawNowPanel }} = await import(new URL("panels/now_panel.js", location.href));
        const player = makePlayer({{ can_run: true }});
        player.receiver = {{ run: null }};
        const panel = document.createElement("div"), data = player.data = unpack(arg);
        drawNowPanel(player, panel, data, 4, 2, null);
        return [...panel.querySelectorAll(".ss-decision")].map((line) => line.textContent);"""
    equal = {"thresholds": {"speak": 0.4, "update": 0.4}, "state_words": ["not started"] * 3, "steps": []}
    two = replace(POLICIES["heads"], frames_in_a_row=2)
    for policy, expected in (
        (POLICIES["heads"], ["speak0.400 ≤ 0.40spoke", "update0.400 ≤ 0.40no update"]),
        (POLICIES["not-talk"], ["speak0.400 ≥ 0.40 (theta 0.60)spoke"]),
        (POLICIES["streaming-eos"], ["speak0.400 ≤ 0.40 (theta 0.60)spoke"]),
        (two, ["speak0.400 > 0.35spoke", "update0.400 > 0.35no update"]),  # the first of two in a row
    ):
        limits = {"thresholds": {"speak": 0.35, "update": 0.35}} if policy is two else {}
        packed = packed_run(6, policy=policy.pack(), **{**equal, **limits})
        assert run(page, "data", "unpack", body, packed) == expected


def test_increments_make_the_same_run_as_the_whole(page: Page) -> None:
    turn = {"role": "assistant", "frame": 4, "text": "Now", "link": None, "verdict": None}
    series = ("times", "speak", "update", "cache", "latency")

    def cut(first: int, end: int) -> dict[str, Any]:
        values = [0.1 * frame for frame in range(first, end)]
        times = floats(*(frame / 2 for frame in range(first, end)))
        decided = [frame for frame in (1, 4) if first <= frame < end]
        return {
            **{name: floats(*values) for name in series},
            "times": times,
            "refreshed": [],
            "forgotten": [],
            "decided": {"speak": decided, "update": []},
            "expected": {"speak": [2] if first <= 2 < end else [], "update": []},
            "changes": [[0, 3, 1]] if first <= 3 < end else [],
            "turns": [turn] if first <= 4 < end else [],
            "questions": [],
            "named": [],
            "assistant_states": [],
        }

    empty = packed_run(0, duration_s=3.0) | {
        "decided": {"speak": [], "update": []},
        "expected": {"speak": [], "update": []},
    }
    whole = packed_run(6, turns=[turn])
    whole["bands"] = whole["bands"] | {"model": [[[-1, 0], [3, 1]]]}
    body = """
        const [head, cuts, whole, data] = arg, { unpack } = await import(data);
        const grown = new GrowingRun({ stream: "s", head }), first = [];
        for (const cut of cuts) first.push(...grown.append(cut).map(({ place }) => place));
        const names = ["times", "speak", "reached", "decided", "expected", "differences", "bands", "rows"];
        const list = (_, value) => (ArrayBuffer.isView(value) ? [...value] : value);
        const plain = (data) => names.map((name) => JSON.stringify(data[name], list));
        return [first, plain(grown.data), plain(unpack(whole))];"""
    cuts = [cut(0, 2), cut(2, 3), cut(3, 6)]
    places, grown, unpacked = run(page, "increments", "GrowingRun", body, [empty, cuts, whole, address("data")])
    assert places == [0]
    assert [json.loads(value) for value in grown] == [json.loads(value) for value in unpacked]


def test_marks_that_turn_a_text_are_escapes_in_the_names_of_elements_too(page: Page) -> None:
    body = """
        const made = createNode("a", "", arg, { title: arg, ariaLabel: arg, name: arg });
        return [made.textContent, made.title, made.ariaLabel, made.name];"""
    assert run(page, "dom", "createNode", body, "a\u202eb") == [*["a\\u202eb"] * 3, "a\u202eb"]


def test_times_are_written_as_the_server_writes_them(page: Page) -> None:
    times = [0, 0.5, 59.96, 754.2, 3599.96, 3661.5, 10_800]
    texts = run(page, "data", "clockText", "return arg.map((time) => clockText(time));", times)
    assert texts == [format_clock(time_s, digits=1) for time_s in times]
