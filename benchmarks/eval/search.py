"""Time of a search among the moments of 2,000 videos of 10 minutes: ``python -m benchmarks.eval.search``.

One event in ten has the tag ``blurry``.
"""

import random
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median

from stepscope.engine.io.files import write_csv
from stepscope.eval.metrics.moments import VideoMoment
from stepscope.eval.reports.search import search_folders

NUM_VIDEOS, NUM_MOMENTS, REPEATS = 2000, 90, 5
QUERIES = (
    "wheel",
    "failure:missed cause:swap",
    '"now attach" is:message -roof',
    "near:0.05 step:S3",
    "delay>2 latency>500",
    "tag:blurry",
)


def main() -> None:
    """Print the time of the first search, which reads the table, and of each further one."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        run.mkdir()
        moments = _make_moments()
        write_csv(run / "moments.csv", map(asdict, moments))
        marks = {(one.video_id, round(one.time_s * 1000), one.text): ("tag: blurry",) for one in moments[::10]}
        began_s = time.process_time()
        search_folders({"run": run}, "wheel")
        print(f"{NUM_VIDEOS * NUM_MOMENTS:,} moments; the first search: {time.process_time() - began_s:.2f} s")
        for query in QUERIES:
            times_ms = []
            for _ in range(REPEATS):
                began_s = time.process_time()
                found = search_folders({"run": run}, query, marks=marks)
                times_ms.append(1000 * (time.process_time() - began_s))
            print(f"{query:40} {median(times_ms):6.0f} ms, {len(found):,} moments")


def _make_moments() -> list[VideoMoment]:
    chance = random.Random(0)
    parts = ["wheel", "roof", "block", "sail", "axle", "hull"]
    return [
        VideoMoment(
            video_id=f"video-{video}",
            time_s=600 * number / NUM_MOMENTS,
            what=chance.choice(["message", "message", "update", "state", "user", "near message"]),
            failure=chance.choice(["", "", "", "missed", "redundant", "wrong text"]),
            text=f"Good. Now attach the {chance.choice(parts)}.",
            reference=f"Now attach the {chance.choice(parts)}.",
            step=f"S{chance.randint(1, 9)}",
            cause=chance.choice(["", "", "swap", "decoy"]),
            delay_s=chance.uniform(-3, 3),
            probability=chance.random(),
            margin=chance.uniform(-0.5, 0.5),
            latency_ms=chance.uniform(5, 900),
        )
        for video in range(NUM_VIDEOS)
        for number in range(NUM_MOMENTS)
    ]


if __name__ == "__main__":
    main()
