"""A live session of any length: the browser keeps its latest frames, and all indices and times stay right."""

from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import open_modules, run

pytestmark = NEEDS_CHROMIUM

STREAM = """
const pack = (values) => {
  let text = '';
  for (const byte of new Uint8Array(Float64Array.from(values).buffer)) text += String.fromCharCode(byte);
  return btoa(text);
};
const names = ['times', 'speak', 'update', 'cache', 'latency'];
const series = (make) => Object.fromEntries(names.map((name) => [name, pack(make(name))]));
const lists = { named: [], assistant_states: [], forgotten: [], questions: [] };
const empty = { ...lists, refreshed: [], decided: { speak: [], update: [] }, turns: [], changes: [] };
const head = {
  ...series(() => []), ...empty, fps: 2, duration_s: 60, failures: [], references: [], steps: [{ id: 'S1', name: 'a' }],
  bands: { model: [[[-1, 0]]], reference: [] }, thresholds: {}, policy: { has_updates: true },
  is_live: true, has_reference: false,
};
const made = new GrowingRun({ stream: 's', head });
const sizes = [], asked = [];
for (let first = 0; first < arg; first += 100) {
  asked.push(made.next);
  const frames = Array.from({ length: 100 }, (_, at) => first + at), at = first + 50;
  made.append({
    ...empty, ...series((name) => frames.map((frame) => name === 'times' ? frame / 2 : frame)),
    assistant_states: [[at, 'dropped'], [at + 1, null]],
    refreshed: [at], decided: { speak: [at], update: [] }, changes: first === 0 ? [[0, 7, 1]] : [], progress: null,
    turns: [{ role: 'assistant', frame: at, text: `t${at}`, link: null }],
    questions: [{ role: 'user', time: at / 2, frame: at, text: `q${at}`, is_given: true }],
  });
  made.drop();
  sizes.push([made.numFrames, made.data.rows.length, made.series.times.room.length]);
}
const { data } = made, place = data.decided.speak.at(-1), [{ time, role }] = data.rows;
return {
  sizes, next: made.next, asked, begin: data.begin_s, lastTime: data.times.at(-1), turn: data.turns.at(-1), place,
  timeAtPlace: data.times[place], state: data.bands.model[0], question: data.userTurns[0], row: { time, role },
  users: data.userTurns.length, response: data.responses.length, refreshed: data.refreshed.length,
  isSorted: data.rows.every((row, at) => at === 0 || data.rows[at - 1].time <= row.time), latency: data.latency[0],
  gaps: data.assistant_states,
};
"""


@pytest.fixture(scope="module")
def seen(browser: Browser) -> dict[str, Any]:
    with open_modules(browser) as page:
        result: dict[str, Any] = run(page, "increments", "GrowingRun", STREAM, 40_000)
        return result


def test_the_frames_of_a_long_session_take_no_more_than_an_hour(seen: dict[str, Any]) -> None:
    frames, rows, room = zip(*seen["sizes"], strict=True)
    assert max(frames) < 1.25 * 7200
    assert max(rows) <= 2 * 1.25 * 72 + 2
    assert max(room[100:]) == room[99], "the memory of the series does not grow"
    assert seen["asked"] == list(range(0, 40_000, 100)), "every frame is requested once"
    assert seen["next"] == 40_000


def test_times_and_indices_stay_those_of_the_session(seen: dict[str, Any]) -> None:
    forgotten = 40_000 - seen["sizes"][-1][0]
    assert seen["begin"] == forgotten / 2
    assert seen["lastTime"] == 39_999 / 2
    assert seen["turn"]["text"] == "t39950"
    assert seen["turn"]["frame"] == seen["place"] == 39_950 - forgotten
    assert seen["timeAtPlace"] == seen["turn"]["time"] == 39_950 / 2
    assert seen["latency"] == forgotten
    assert seen["gaps"][-2:] == [[seen["place"], "dropped"], [seen["place"] + 1, None]]
    assert len(seen["gaps"]) <= 2 * seen["refreshed"] + 1, "gaps of frames that the browser dropped are dropped"
    assert seen["state"] == [[-1, 1]], "a step keeps the state of a forgotten change"
    assert seen["question"]["time"] >= seen["begin"]
    assert seen["users"] == seen["response"] == seen["refreshed"]
    assert seen["isSorted"]
    assert seen["row"] == {"time": seen["question"]["time"], "role": "user"}


def test_a_frame_without_a_decision_has_its_reason_in_words(browser: Browser) -> None:
    script = """
    const states = [[0, 'no picture'], [1, null], [2, 'constructor'], [3, 'dropped']];
    const data = { speak: [NaN, NaN, NaN, 0.5], assistant_states: states };
    return data.speak.map((_, frame) => gapText(data, frame));
    """
    with open_modules(browser) as page:
        assert run(page, "data", "gapText", script, None) == ["the source had no picture", None, None, None]
