"""How long the page is blocked while an exact sweep runs: the longest tasks of its main thread.

The bundled run is swept by the bundled model on the page, as *Run each point* does, at 441 points (the page offers at
most 361), for ``--seconds`` or to its end.
Meanwhile tabs are clicked. Prints the figures and, as the last line, JSON. Ends with status 1 if a task of the main
thread took more than 200 ms of processor time, which other programs on the machine do not change. Needs Chromium and
the development packages.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from tests.support.pages.browser import open_browser, open_page, serve
from tests.support.servers.sweep_page import SIZE

ASSETS = Path(__file__).parents[2] / "assets"
LIMIT_MS = 200.0
CLICK_EVERY_S = 2.0
OBSERVE = """() => {
    window.tasks = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.tasks.push(entry.duration);
    }).observe({type: 'longtask'});
}"""
UPDATES = """() => {
    window.updates = 0;
    const progress = document.querySelector('#sweep_progress');
    const options = {childList: true, subtree: true, characterData: true};
    new MutationObserver(() => { window.updates += 1; }).observe(progress, options);
}"""
HAS_ENDED = "!document.querySelector('#exact').disabled"


def main() -> None:
    """Sweep the bundled run on the page, use the page at the same time, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=90.0)
    options = parser.parse_args()
    data = ASSETS / "demo" / "test.json"
    with (
        tempfile.TemporaryDirectory() as name,
        serve(data=data, checkpoint=ASSETS / "checkpoint", runs=Path(name), page="sweep_page") as address,
        open_browser() as browser,
    ):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        figures = _watch(browser, page, address, options.seconds)
    print(json.dumps(figures))
    sys.exit(figures["longest_cpu_ms"] > LIMIT_MS)


def _find_longest_cpu_ms(events: Sequence[Mapping[str, Any]]) -> float:
    """Return the most processor time of a task of the page's main thread, in a Chromium trace of the sweep."""
    is_main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = (event for event in events if event["name"] == "ThreadControllerImpl::RunTask")
    timed = [event for event in tasks if (event["pid"], event["tid"]) in is_main and "tdur" in event]  # which ended
    return max(float(event["tdur"]) / 1000 for event in timed)


def _watch(browser: Browser, page: Page, address: str, seconds: float) -> dict[str, float]:
    open_page(page, address)
    page.get_by_role("tab", name="Batch").click()
    page.get_by_role("tab", name="Thresholds").click()
    page.locator("#size input").click()
    page.get_by_role("option", name=str(SIZE), exact=True).click()
    page.wait_for_function("document.querySelector('#heat .main-svg') && !document.querySelector('#exact').disabled")
    page.click("#exact")
    page.wait_for_function("document.querySelector('#sweep_progress').textContent.includes(' runs, ')")
    browser.start_tracing(page=page, categories=["toplevel"])
    page.evaluate(OBSERVE)
    page.evaluate(UPDATES)
    began, clicks = time.perf_counter(), list[float]()
    while time.perf_counter() - began < seconds and not page.evaluate(HAS_ENDED):
        for tab in ("Videos", "Scores"):
            asked = time.perf_counter()
            page.get_by_role("tab", name=tab).click()
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            clicks.append(1000 * (time.perf_counter() - asked))
        page.wait_for_timeout(1000 * CLICK_EVERY_S)
    lasted_s = time.perf_counter() - began
    progress = page.locator("#sweep_progress").text_content() or ""
    tasks = sorted(page.evaluate("window.tasks"), reverse=True)
    trace = json.loads(browser.stop_tracing())["traceEvents"]
    figures = {
        "lasted_s": round(lasted_s, 1),
        "longest_ms": tasks[0] if tasks else 0.0,
        "longest_cpu_ms": round(_find_longest_cpu_ms(trace), 1),
        "num_over_limit": sum(task > LIMIT_MS for task in tasks),
        "busy_share": round(sum(tasks) / 1000 / lasted_s, 4),
        "updates_per_s": round(page.evaluate("window.updates") / lasted_s, 2),
        "slowest_click_ms": round(max(clicks), 1),
    }
    print(progress)
    print(
        f"{figures['lasted_s']} s of the sweep: {figures['updates_per_s']} updates a second; tasks over 50 ms took "
        f"{100 * figures['busy_share']:.1f} % of the time, the longest {figures['longest_ms']:.0f} ms "
        f"({figures['longest_cpu_ms']:.0f} ms of processor time at most), {figures['num_over_limit']} over "
        f"{LIMIT_MS:.0f} ms; slowest click on a tab {figures['slowest_click_ms']:.0f} ms"
    )
    return figures


if __name__ == "__main__":
    main()
