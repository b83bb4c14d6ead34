"""The thresholds of a player: moved, requested, of the run, and the last ones shown."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.web.static import test_script_data_browser as scripts
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import run

pytestmark = NEEDS_CHROMIUM
page = scripts.page
PREPARE = """
    const given = new Thresholds({ speak: 0.5, update: 0.5 });
    const runAt = (speak, update, more) => ({ named: [], times: [0, 1], thresholds: { speak, update }, ...more });
    const seen = () => [given.shown.speak, given.shown.update, given.isPreview, given.isAtRest];
"""


def states(page: Page, body: str) -> Any:
    """Run a body with ``given`` thresholds, a run ``runAt`` two thresholds, and ``seen()``: shown, preview, at rest."""
    return run(page, "thresholds", "Thresholds", f"{PREPARE} {body}")


def test_a_move_is_a_preview_until_the_run_that_it_requests_is_shown(page: Page) -> None:
    body = """
        const found = [[given.settle(runAt(0.4, 0.6)), ...seen()], [given.move({ speak: 0.3 }), ...seen()]];
        const event = given.request();
        found.push(seen(), [given.settle(runAt(0.4, 0.6, { answers: 0 })), ...seen()]);
        found.push(event, [given.settle(runAt(0.3, 0.6, { answers: event.ticket })), ...seen()], given.request());
        return found;
    """
    assert states(page, body) == [
        [True, 0.4, 0.6, False, True],
        [True, 0.3, 0.6, True, False],
        [0.3, 0.6, True, False],
        [False, 0.3, 0.6, True, False],  # an answer to an earlier request
        {"speak": 0.3, "update": 0.6, "ticket": 1, "has_run": True},
        [False, 0.3, 0.6, False, True],
        None,
    ]


@pytest.mark.parametrize(
    ("values", "changed", "shown"),
    [
        ("{ speak: 0.4 }", False, [0.4, 0.6, False, True]),
        ("{ speak: NaN }", True, [0.4, 0.6, False, True]),
        ("{ update: 2 }", True, [0.4, 0.6, False, True]),
        ("{ speak: 0, update: 1 }", True, [0, 1, True, False]),
    ],
)
def test_what_is_no_threshold_moves_nothing(page: Page, values: str, changed: bool, shown: list[Any]) -> None:
    body = f"given.settle(runAt(0.4, 0.6)); return [given.move({values}), seen()];"
    assert states(page, body) == [changed, shown]


def test_a_move_back_takes_the_request_back(page: Page) -> None:
    body = """given.settle(runAt(0.4, 0.6));
        given.move({ speak: 0.3 });
        given.request();
        given.move({ speak: 0.4 });
        return [given.request(), seen()];"""
    assert states(page, body) == [{"speak": 0.4, "update": 0.6, "ticket": 2, "has_run": True}, [0.4, 0.6, False, True]]


def test_a_page_without_a_run_keeps_the_thresholds_for_the_next_one(page: Page) -> None:
    body = """given.move({ update: 0.2 });
        const event = given.request(), kept = seen();
        given.settle(runAt(0.4, 0.6));
        given.settle(null);
        return [event, kept, seen()];"""
    event = {"speak": 0.5, "update": 0.2, "ticket": 1, "has_run": False}
    assert states(page, body) == [event, [0.5, 0.2, False, True], [0.4, 0.6, False, True]]


def test_a_moved_run_without_frames_takes_the_thresholds_and_keeps_those_of_its_signals(page: Page) -> None:
    body = """const run = runAt(0.4, 0.6, { times: [] });
        run.thresholds.extra = 0.7;
        given.settle(run);
        given.move({ speak: 0.1 });
        given.request();
        return [run.thresholds, seen()];"""
    assert states(page, body) == [{"speak": 0.1, "update": 0.6, "extra": 0.7}, [0.1, 0.6, False, True]]


def test_thresholds_of_a_sweep_stay_with_the_videos_of_their_run(page: Page) -> None:
    body = """
        const video = () => runAt(0.4, 0.6, {
            run_name: "toy", s: [0.5],
            named: [{ name: "s", key: "gate", decides: "speak", hasThreshold: true, series: "s" }],
        });
        const found = [given.applySweep({ run: "toy", signals: { gate: 0.9, none: 0.1 } }), given.shown.s ?? null];
        given.settle(video());
        found.push(given.shown.s, given.isPreview, given.move({ s: 0.2 }), given.shown.s, given.isAtRest);
        given.settle(video());
        found.push(given.shown.s);
        given.settle({ ...video(), run_name: "other" });
        return [...found, given.shown.s ?? null];"""
    assert states(page, body) == [False, None, 0.9, False, True, 0.2, True, 0.9, None]
