"""Speed of the player in the browser: with a run of 2 hours (14,400 frames, 1,500 turns), and with named signals.

Measures opening, playing, scrolling, zooming and reviewing, and zooming with the waveform of an hour of sound; with
2,000 frames of eight named signals the first four. A rate comes with the processor time of the page per frame, which
another load on the machine changes less. Prints the figures and, as the last line, JSON. Needs Chromium and the
development packages.
"""

import base64
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import CDPSession, Page

from stepscope.app.core.run import Run
from stepscope.app.window.payload import pack_run
from stepscope.engine.video.sound import measure_peaks
from stepscope.engine.video.writer import write_h264
from stepscope.eval.metrics.matched_video import JudgedVideo
from stepscope.eval.metrics.score import analyze_video
from tests.support.pages.browser import inspect, open_browser, serve_page
from tests.support.pages.long_run import FPS, make_long_run, with_signals
from tests.support.reviews.played import write_reviewed
from tests.support.streams.odd import add_sound

NUM_FRAMES, NUM_TURNS = 14_400, 1_500
SIGNAL_FRAMES, SIGNAL_TURNS, NUM_SIGNALS = 2_000, 200, 8
SECONDS = 4.0
SOUND_S = 3600
NUM_VERDICTS = 30
MOVES = {
    "plays, whole video in view": "",
    "plays, 30 s in view": "",
    "scrolls 30 s": "map.dispatchEvent(drag((frame % 100) / 100))",
    "plays, in review": "",
    "zooms": "canvas.dispatchEvent(wheel(frame % 60 < 30 ? -40 : 40))",
}
SHOW_SOUND = """(coded) => {
    const run = document.querySelector('.ss').unpacked();
    const peaks = Uint8Array.from(atob(coded), (byte) => byte.charCodeAt(0)), per_s = peaks.length / run.duration_s;
    run.sound = {per_s, peaks, times: Float64Array.from(peaks, (_, n) => n / per_s)};
}"""
HEIGHT = "document.querySelector('.ss-canvas').clientHeight"
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
        const fps = 1000 * frame / (performance.now() - began);
        done({frames: frame, fps, p95_ms: gaps[Math.floor(0.95 * gaps.length)]});
    };
    requestAnimationFrame(look);
})"""


def main() -> None:
    """Make the run, open it in the player, and print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_h264(folder / "long.mp4", draw_pictures(int(NUM_FRAMES / FPS)), fps=1)
        (folder / "a-empty.json").write_text("", encoding="utf-8")
        peaks, figures = _hear(folder)
        run = make_long_run(folder / "long.mp4", num_frames=NUM_FRAMES, num_turns=NUM_TURNS)
        _write(folder / "long.json", run, write=write_reviewed)
        run = make_long_run(folder / "long.mp4", num_frames=SIGNAL_FRAMES, num_turns=SIGNAL_TURNS)
        _write(folder / "signals.json", with_signals(run, NUM_SIGNALS), write=_write_packed)
        with serve_page("player_page", str(folder)) as address, open_browser() as browser:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            _load(page, address)
            figures |= _open(page, "long", end_s=NUM_FRAMES / FPS) | _measure(page, MOVES)
            height = page.evaluate(HEIGHT)
            page.evaluate(SHOW_SOUND, base64.b64encode(peaks).decode())
            figures |= _measure(page, {"zooms, with a waveform": MOVES["zooms"]})
            assert page.evaluate(HEIGHT) > height, "the lane of the waveform"
            figures |= _review(page)
            moves = {name: move for name, move in MOVES.items() if "review" not in name}
            _load(page, address)  # both runs are of one video, whose view would stay
            opened = _open(page, "signals", end_s=SIGNAL_FRAMES / FPS)
            figures |= {f"signals_{name}": value for name, value in (opened | _measure(page, moves)).items()}
    print(json.dumps(figures))


def draw_pictures(num_pictures: int) -> Iterator[NDArray[np.uint8]]:
    """Draw a square that moves."""
    for index in range(num_pictures):
        image = np.full((90, 120, 3), 60 + index % 120, np.uint8)
        image[30:60, index % 90 : index % 90 + 30] = (220, 80, 60)
        yield image


def _hear(folder: Path) -> tuple[bytes, dict[str, float]]:
    """Return the peaks of a sound of ``SOUND_S`` seconds, and the processor time of measuring them."""
    write_h264(folder / "silent.mkv", draw_pictures(SOUND_S), fps=1)
    video = add_sound(folder / "loud.mkv", folder / "silent.mkv", length_s=SOUND_S, loud_s=(0, SOUND_S))
    began_s = time.process_time()
    _, peaks = measure_peaks(video)
    waveform_s = time.process_time() - began_s
    print(f"{f'waveform of {SOUND_S} s':30} {waveform_s:8.2f} s, {len(peaks):,} peaks")
    return peaks.tobytes(), {"waveform_s": round(waveform_s, 2)}


def _write(path: Path, run: Run, *, write: Callable[[Path, Run, JudgedVideo], object]) -> None:
    assert run.clip.sample is not None
    judged = analyze_video(run.clip.sample, run.outputs, encode=_encode_apart).judged
    write(path, run, judged)
    size_mb, num_signals = path.stat().st_size / 1e6, len(run.settings.get("signals", ()))
    counts = f"{len(run.outputs)} frames, {len(judged.turns)} turns, {len(judged.failures)} failures"
    print(f"{path.stem}: {counts}, {num_signals} named signals: {size_mb:.1f} MB")


def _write_packed(path: Path, run: Run, judged: JudgedVideo) -> None:
    path.write_text(pack_run(run, judged), encoding="utf-8")


def _encode_apart(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.eye(len(texts), dtype=np.float32)


def _load(page: Page, address: str) -> None:
    """Load the page, and wait until it has shown its first run, which is empty: it would replace another one."""
    with page.expect_response(lambda response: "queue/data" in response.url):
        page.goto(address)
    page.wait_for_function("document.querySelector('#video video')?.readyState >= 2", timeout=60_000)
    page.wait_for_timeout(1000)


def _open(page: Page, name: str, *, end_s: float) -> dict[str, float]:
    """Open a run, and wait until all of it is in view."""
    open_s = page.evaluate(
        """([name, end]) => new Promise((done) => {
        const began = performance.now();
        document.querySelector(`#${name}`).click();
        const isOpen = () => document.querySelector('.ss-row')
            && Math.abs(document.querySelector('.ss').inspect().view.end - end) < 1;
        const look = () => isOpen()
            ? requestAnimationFrame(() => done((performance.now() - began) / 1000)) : requestAnimationFrame(look);
        look();
    })""",
        [name, end_s],
    )
    print(f"{f'{name}: opens':30} {open_s:8.2f} s")
    return {"open_s": round(open_s, 2)}


def _measure(page: Page, all_moves: Mapping[str, str]) -> dict[str, float]:
    session = open_meter(page, "threadTicks")
    figures: dict[str, float] = {}
    for name, moves in all_moves.items():
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
        began_s = read_meter(session)["TaskDuration"]
        found = page.evaluate(MEASURE, [SECONDS, moves])
        cpu_ms = 1000 * (read_meter(session)["TaskDuration"] - began_s) / found["frames"]
        key = name.replace(",", "").replace(" ", "_")
        figures |= {f"{key}_fps": round(found["fps"], 1), f"{key}_task_ms": round(cpu_ms, 1)}
        rate = f"{found['fps']:8.1f} frames/s, p95 {found['p95_ms']:.1f} ms"
        print(f"{name:30} {rate}, {cpu_ms:.1f} ms of the main thread a frame")
    return figures


def open_meter(page: Page, domain: str) -> CDPSession:
    """Open a session that counts seconds of a page, of the clock (``timeTicks``) or of its threads."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": domain})
    return session


def read_meter(session: CDPSession) -> Mapping[str, float]:
    """Return the counters of the page by name; ``TaskDuration`` are the seconds of its main thread's tasks."""
    return {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}


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
    # A verdict on a matched pair is an opinion on both of its events.
    assert NUM_VERDICTS <= len(inspect(page)["opinions"]) <= 2 * NUM_VERDICTS
    print(f"{'saves a verdict':30} {1000 * verdict_s:8.0f} ms")
    return {"verdict_s": round(verdict_s, 3)}


if __name__ == "__main__":
    main()
