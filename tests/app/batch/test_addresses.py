"""Links that people keep: ten addresses of the page, and what each of them opens."""

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from stepscope.app.batch.runs import handlers
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.saved import OPENING_VIDEO, BundledRun
from stepscope.app.page import build_page
from stepscope.app.player.commands import RunInFocus
from stepscope.app.player.opening import open_link
from stepscope.app.player.views import PlayerView
from stepscope.app.review_store.store import open_store
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.engine.cli.options import BUNDLED_RUN
from tests.support.pages.batch_tab import select
from tests.support.pages.benches import make_context, run_through
from tests.support.paths import ASSETS

MANIFEST = ASSETS / "demo" / "test.json"
SAYS = '- time: 2\n  message: "Well."'
OPENED = {"video": OPENING_VIDEO, "run": "bundled", "speak": 0.5, "time": 15.0, "event": "da070a45912bec2c"}
SAVED = {"saved": "a", "other": "silent", "video": "v1"}


@pytest.fixture(scope="module")
def context(finished: BatchContext, tmp_path_factory: pytest.TempPathFactory) -> AppContext:
    """Return the context of a page of the bundled videos, model and run, and of the split of two other runs."""
    plain = make_context(ASSETS / "checkpoint", MANIFEST, tmp_path_factory.mktemp("copies"))
    plain = replace(plain, splits=finished.splits)
    found = BundledRun.find(BUNDLED_RUN, videos=MANIFEST, model_digest=plain.checkpoint.digest, config=plain.config)
    return replace(plain, bundled_run=found)


def follow(context: AppContext, link: Mapping[str, str], view: PlayerView) -> dict[str, Any]:
    """Return what an address shows in the player, without empty values."""
    run = json.loads(view.player)
    if "nothing" in run:
        run = {"landing": {"time": None}, "video_id": view.clip and view.clip.name}
    time = run["landing"]["time"]
    live: Any = view.live
    saved = view.clip and context.find_saved(view.clip)
    shown = {
        "video": run["video_id"],
        "run": "bundled" if saved and run.get("run") == saved.digest else run.get("run_name"),
        "below": (run.get("other") or {}).get("run_name"),
        "speak": run["thresholds"]["speak"] if run.get("run") else view.speak,
        "time": float(link["t"]) if time is None and run.get("run") and "t" in link else time,
        "event": run["landing"].get("event"),
        "tab": getattr(view.tabs, "selected", None),
        "strategy": view.strategy if view.strategy != "refresh" else None,
        "status": view.status.value,
        "waits": isinstance(view.stream, int),
        "branch": live.branch.changes if live is not None and live.branch is not None else None,
    }
    return {name: value for name, value in shown.items() if value not in (None, "", False, gr.skip())}


ADDRESSES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "a bundled video at a moment": (
        {"video": "boat", "t": "3.2"},
        {"video": "boat", "run": "bundled", "speak": 0.5, "time": 3.2},
    ),
    "a bundled video": (
        {"video": OPENING_VIDEO},
        OPENED,
    ),
    "other thresholds": (
        {"video": "boat", "speak": "0.4", "update": "0.6", "t": "2"},
        {"video": "boat", "speak": 0.4, "status": "Waiting to start.", "waits": True},
    ),
    "another context strategy": (
        {"video": "boat", "context": "drop-all"},
        {"video": "boat", "speak": 0.5, "strategy": "drop-all", "status": "Waiting to start.", "waits": True},
    ),
    "two saved runs, B above": (
        {**SAVED, "above": "B", "t": "1.5"},
        {"video": "v1", "run": "silent", "below": "a", "speak": 1.0, "time": 1.5, "tab": "player"},
    ),
    "a reference of a split without a run": (
        {"video": "v1", "split": "split", "run": "none", "t": "1"},
        {"video": "v1", "speak": 0.5, "time": 1.0, "tab": "player"},
    ),
    "a branch of a saved run": (
        {"video": "boat", "branch": SAYS, "t": "2"},
        {"video": "boat", "run": "bundled", "speak": 0.5, "time": 2.0, "branch": SAYS, "waits": True},
    ),
    "a video that is gone": (
        {"video": "ship"},
        OPENED | {"status": "⚠ the link cannot be opened: there is no bundled video 'ship'; choose one from the list."},
    ),
    "a moment that is none": (
        {**SAVED, "t": "soon"},
        {
            "video": "v1",
            "run": "a",
            "below": "silent",
            "tab": "player",
            "status": "⚠ The link opens without its time: "
            "a time is written as seconds, as m:ss or as h:mm:ss; got 'soon'.",
        },
    ),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_opens_what_it_opened_before(context: AppContext, finished: BatchContext, name: str) -> None:
    link, expected = ADDRESSES[name]
    assert follow(context, link, open_link(context, finished, link)) == expected


def test_the_address_of_a_kept_run_opens_it(context: AppContext, finished: BatchContext) -> None:
    made = run_through(context, context.bundled_videos.find("boat"), speak_threshold=0.3).run
    assert made is not None
    link = {"video": "boat", "run": made.digest, "speak": "0.3", "update": "0.5", "context": "refresh", "t": "1.2"}
    view = open_link(context, finished, link)
    assert json.loads(view.player)["run"] == made.digest
    said = "No scores: the steps differ from those of the reference."
    assert follow(context, link, view) == {"video": "boat", "speak": 0.3, "time": 1.2, "status": said}
    again = follow(context, link, open_link(context, finished, link | {"run": "0" * 12}))
    assert again == {"video": "boat", "speak": 0.3, "status": "Waiting to start.", "waits": True}


@pytest.fixture(scope="module")
def page(context: AppContext, finished: BatchContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[gr.Blocks]:
    with open_store(tmp_path_factory.mktemp("reviews") / "reviews.sqlite") as store:
        yield build_page(context, finished, ReviewContext(store=store, splits=finished.splits))


@pytest.mark.parametrize(
    ("link", "opened", "shown"),
    [
        ({"tab": "reviews", "view": "Agreement"}, ["reviews", None, "Agreement"], None),
        ({"tab": "batch", "view": "Compare", "shown": "a", "against": "silent"}, ["batch", "Compare", None], "a"),
        ({"tab": "batch", "shown": "a", "search": "failure:missed"}, ["batch", None, None], "a"),
        ({"tab": "nowhere", "view": "Compare"}, [None] * 3, None),
    ],
)
def test_an_address_opens_a_tab(
    page: gr.Blocks, finished: BatchContext, link: dict[str, str], opened: list[str | None], shown: str | None
) -> None:
    request: Any = SimpleNamespace(query_params=link)
    (load,) = (
        function.fn
        for function in page.fns.values()
        if function.name == "open_linked" and function.outputs[0].elem_id == "rooms"
    )
    assert load is not None
    said = pytest.warns(UserWarning, match="no tab of this page: nowhere") if not opened[0] else nullcontext()
    with said:
        assert [getattr(tabs, "selected", None) for tabs in load(request)] == opened
    if shown:  # the script enters the tab with the run of the address
        view = handlers.enter(finished, select(shown), RunInFocus(), request)
        assert (view.runs, view.other, view.query) == (shown, link.get("against", ""), link.get("search", ""))
