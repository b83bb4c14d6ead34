"""A player at the edges of reviewing: a turn between two frames, a reference alone, and nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from stepscope.app.reviews.events import name_events
from stepscope.app.reviews.store import ReviewStore, read_review
from stepscope.app.web.payload import pack_run
from stepscope.engine.video.writer import write_h264
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.data.samples import Turn
from tests.conftest import moving_square
from tests.support.pages.browser import inspect, wait_until_drawn
from tests.support.reviews.played import judge, make_run, write_reviewed

OFF_GRID = Turn(time_s=7.3, role="assistant", text="Slowly.")


def write_edges(folder: Path) -> None:
    """Write a run with a turn between two frames, its reference alone, and nothing."""
    run = make_run(folder)
    assert run.clip.sample is not None
    turns = sorted((*run.clip.sample.turns, OFF_GRID), key=lambda turn: turn.time_s)
    run = replace(run, clip=replace(run.clip, sample=replace(run.clip.sample, turns=tuple(turns))))
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    write_reviewed(folder / "a.json", run, judge(run))
    events = name_events(run.clip.video_id, references=name_turns(turns))
    alone = pack_run(replace(run, outputs=(), is_finished=False), events=events)
    (folder / "alone.json").write_text(alone, encoding="utf-8")
    (folder / "none.json").write_text("", encoding="utf-8")


def notes(store: ReviewStore, reviewer: str) -> dict[str, str]:
    """Return what a reviewer noted, by the texts of the events."""
    return {
        found.event.text: opinion.note
        for found in read_review(store).events
        for opinion in found.opinions
        if opinion.reviewer == reviewer and opinion.note
    }


def wait_for(page: Page, condition: str) -> dict[str, Any]:
    """Wait until what the player says of itself, ``seen``, fulfils a condition."""
    page.wait_for_function(f"(() => {{ const seen = document.querySelector('.ss').inspect(); return {condition}; }})()")
    return inspect(page)


def seek(page: Page, time_s: float) -> None:
    page.evaluate("(time) => { document.querySelector('#video video').currentTime = time; }", time_s)
    wait_for(page, f"Math.abs(seen.time - {time_s}) < 0.02")
    wait_until_drawn(page)


def turn_at(page: Page, key: str) -> tuple[float, float]:
    """Return where a turn of the corrected reference is on the screen."""
    box, seen = page.locator(".ss-canvas").bounding_box(), inspect(page)
    assert box is not None
    row = next(row for row in seen["rows"] if row["kind"] == "corrected")
    turn = next(turn for turn in seen["layer"] if turn["key"] == key)
    x = 150 + turn["time"] / 10 * (box["width"] - 150 - 14)  # between the gutter of the labels and the margin
    return box["x"] + x, box["y"] + row["top"] + (19 if turn["role"] == "update" else 7)


def leave(page: Page, **action: Any) -> None:
    """Put an action into the outbox of the browser, before all others."""
    kept = {"action_id": "old", "kind": "verdict", "video_id": "a", "reviewer": "ann", **action}
    page.evaluate("([key, text]) => localStorage.setItem(key, text)", ["stepscope:outbox:0-old", json.dumps(kept)])
