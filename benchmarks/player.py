"""Speed of the player with a run of 2 hours in the browser: 14,400 frames, 1,500 turns, 12 steps.

Measures opening, playing, scrolling, zooming and reviewing. Prints the figures and, as the last line, JSON. Needs
Chromium and the development packages.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Page

from engine.video.writer import write_h264
from eval.metrics.score import analyze_video
from tests.support.pages.browser import inspect, open_browser, serve_player
from tests.support.pages.long_run import FPS, make_long_run
from tests.support.reviews.played import write_reviewed

NUM_FRAMES, NUM_TURNS = 14_400, 1_500
SECONDS = 4.0
NUM_VERDICTS = 30
MOVES = {
    "plays, whole video in view": "",
    "plays, 30 s in view": "",
    "scrolls 30 s": "map.dispatchEvent(drag((frame % 100) / 100))",
    "plays, in review": "",
    "zooms": "canvas.dispatchEvent(wheel(frame % 60 < 30 ? -40 : 40))",
}
MEASURE = """([seconds, moves]) => new Promise((done) => {
    const canvas = document.querySelector('.ss-canvas'), map = document.querySelector('.ss-map');
    const box = canvas.getBoundingClientRect();
    const at = {clientX: box.left + 600, clientY: box.top + 60, cancelable: true};
    const wheel = (deltaY) => new WheelEvent('wheel', {deltaY, ctrlKey: true, ...at});
    const drag = (share) => new PointerEvent('pointermove', {clientX: box.left + 160 + share * (box.width - 180)});
    if (moves.includes('drag')) {
        map.setPointerCapture = () => {};
        map.dispatchEvent(new PointerEvent('pointerdown', {clientX: box.left + 200, pointerId: 1}));
    }
    const move = new Function('frame', 'canvas', 'map', 'wheel', 'drag', moves);
    const began = performance.now(), gaps = [];
    let last = began, frame = 0;
    const look = (now) => {
        gaps.push(now - last); last = now; frame += 1;
        move(frame, canvas, map, wheel, drag);
        if (performance.now() - began < 1000 * seconds) return void requestAnimationFrame(look);
        map.dispatchEvent(new PointerEvent('pointerup', {pointerId: 1}));
        gaps.sort((a, b) => a - b);
        done({fps: 1000 * frame / (performance.now() - began), p95_ms: gaps[Math.floor(0.95 * gaps.length)]});
    };
    requestAnimationFrame(look);
})"""


def main() -> None:
    """Make the run, open it in the player, and print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_h264(folder / "long.mp4", _pictures(), fps=1)
        run = make_long_run(folder / "long.mp4", num_frames=NUM_FRAMES, num_turns=NUM_TURNS)
        assert run.clip.sample is not None
        judged = analyze_video(
            run.clip.sample, run.outputs, encode=lambda texts: np.eye(len(texts), dtype=np.float32)
        ).judged
        (folder / "a-empty.json").write_text("", encoding="utf-8")
        write_reviewed(folder / "long.json", run, judged)
        size_mb = (folder / "long.json").stat().st_size / 1e6
        print(f"{NUM_FRAMES} frames, {len(judged.turns)} turns, {len(judged.failures)} failures: {size_mb:.1f} MB")
        with serve_player(folder) as address, open_browser() as browser:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(address)
            page.wait_for_function("document.querySelector('#video video')?.readyState >= 2", timeout=60_000)
            figures = _measure(page)
    print(json.dumps(figures))


def _pictures() -> Iterator[NDArray[np.uint8]]:
    for index in range(int(NUM_FRAMES / FPS)):
        image = np.full((90, 120, 3), 60 + index % 120, np.uint8)
        image[30:60, index % 90 : index % 90 + 30] = (220, 80, 60)
        yield image


def _measure(page: Page) -> dict[str, float]:
    open_s = page.evaluate("""new Promise((done) => {
        const began = performance.now();
        document.querySelector('#long').click();
        const look = () => document.querySelector('.ss-row') && document.querySelector('.ss').inspect().view.end > 7000
            ? requestAnimationFrame(() => done((performance.now() - began) / 1000)) : requestAnimationFrame(look);
        look();
    })""")
    figures = {"open_s": round(open_s, 2)}
    print(f"{'opens':30} {open_s:8.2f} s")
    for name, moves in MOVES.items():
        page.keyboard.press("0")
        if "30 s" in name:
            for _ in range(8):
                page.keyboard.press("+")
        page.click(f"[data-tab={'review' if 'review' in name else 'rows'}]")
        page.evaluate("() => { const video = document.querySelector('#video video'); video.muted = true; }")
        is_paused = inspect(page)["isPaused"]
        if is_paused == name.startswith("plays"):
            page.keyboard.press("k")
        page.wait_for_timeout(500)
        found = page.evaluate(MEASURE, [SECONDS, moves])
        key = name.replace(",", "").replace(" ", "_")
        figures[f"{key}_fps"] = round(found["fps"], 1)
        print(f"{name:30} {found['fps']:8.1f} frames/s, p95 {found['p95_ms']:.1f} ms")
    return figures | _review(page)


def _review(page: Page) -> dict[str, float]:
    """Save verdicts one by one, each after the previous one is on disk."""
    page.click("[data-tab=review]")
    page.fill(".ss-who", "ann")
    page.keyboard.press("Enter")
    page.wait_for_timeout(1000)
    verdict_s = page.evaluate(
        """(num_verdicts) => new Promise((done) => {
        const began = performance.now(), player = document.querySelector('.ss');
        const press = () => document.dispatchEvent(new KeyboardEvent('keydown', {key: '1', bubbles: true}));
        let given = 0;
        const look = () => {
            if (player.inspect().waiting) return void setTimeout(look, 1);
            if (given++ === num_verdicts) return void done((performance.now() - began) / 1000 / num_verdicts);
            press();
            setTimeout(look, 1);
        };
        look();
    })""",
        NUM_VERDICTS,
    )
    assert len(inspect(page)["opinions"]) == NUM_VERDICTS
    print(f"{'saves a verdict':30} {1000 * verdict_s:8.0f} ms")
    return {"verdict_s": round(verdict_s, 3)}


if __name__ == "__main__":
    main()
