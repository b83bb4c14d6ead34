"""Memory and threads of the page's server while 500 windows are opened and closed, 10 at a time.

Each window sends the events of an opening page, shows a run, and ends its connections. The server keeps what a closed
window showed for a second instead of an hour. Prints memory and threads after each hundred and, as the last line, JSON.
Needs the development packages.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.pages.browser import free_port, wait_until_up
from tests.support.pages.page_http import PageClient
from tests.support.servers.programs import Program

NUM_WINDOWS, AT_ONCE, STEP = 500, 10, 100


def main() -> None:
    """Open and close windows, and print the figures."""
    with tempfile.TemporaryDirectory() as name, (Path(name) / "log").open("w") as log:
        address = f"http://127.0.0.1:{(port := free_port())}"
        words = [sys.executable, "-m", "stepscope.app", *("--device", "cpu"), *("--runs", f"{name}/runs")]
        brief = os.environ | {"GRADIO_IS_E2E_TEST": "1"}
        with subprocess.Popen([*words, "--port", str(port)], stdout=log, stderr=log, env=brief) as process:
            try:
                wait_until_up(Program(pid=process.pid, log=Path(log.name)), address)
                figures = _measure(address, process.pid)
            finally:
                process.terminate()
    print(json.dumps(figures))


def _measure(address: str, pid: int) -> dict[str, float]:
    with PageClient(address=address) as client:
        events = [event for event in client.events() if "load" in (what for _, what in event["targets"])]
        opening = client.find_event("player", "open_focus", into="video")["id"]

    def open_window(number: int) -> None:
        with (
            PageClient(address=address) as window,
            window.http.stream("GET", f"/gradio_api/heartbeat/{window.session}") as heartbeat,
        ):
            lines = heartbeat.iter_lines()  # the connection ends with it
            next(lines)
            for event in events:
                if event["backend_fn"]:
                    window.join(event["id"], [None] * len(event["inputs"])).raise_for_status()
            window.messages()
            video = ("robot-hard", "boat")[number % 2]
            window.run(opening, [None], event_data={"split": "test", "run": "", "video": video})
            del lines

    memory, threads = list[float](), list[int]()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, NUM_WINDOWS + STEP, STEP):
            memory.append(statistics.median(_memory_mb(pid) for _ in range(3)))
            threads.append(len(os.listdir(f"/proc/{pid}/task")))
            print(f"after {first:3} windows {memory[-1]:6.0f} MB, {threads[-1]} threads", flush=True)
            if first < NUM_WINDOWS:
                list(pool.map(open_window, range(first, first + STEP)))
                time.sleep(2)
    grown = (memory[-1] - memory[1]) / (NUM_WINDOWS - STEP)
    return {"memory_mb": memory[-1], "grown_kb_a_window": round(1000 * grown, 1), "threads": threads[-1]}


def _memory_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
