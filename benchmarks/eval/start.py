"""CPU seconds of commands, and the time to the first video of a split: ``python -m benchmarks.eval.start [CHECKOUT]``.

Each command runs in a process of its own, three times, of which the fastest counts. With another checkout of the
project, for example of an earlier version, its commands run in turn with these, and the last column is the ratio. Of a
version before the command ``stepscope`` only ``python -m stepscope.eval run`` is measured.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 3
_PROGRAM: Final = "import sys; from stepscope.app.cli.entry import main; sys.exit(main())"
_DEMO: Final = ROOT / "assets" / "demo"
COMMANDS: Final = {
    "stepscope --help": ["--help"],
    "stepscope metrics": ["metrics"],
    "stepscope compare": ["compare", str(_DEMO / "run"), "{folder}/other", "--split", str(_DEMO / "test.json")],
    "stepscope run, a video of 43 s": [
        "run",
        str(_DEMO / "boat.mp4"),
        "--out",
        "{folder}/boat.jsonl",
        "--device",
        "cpu",
    ],
}


def main(before: Path | None) -> None:
    """Print a row for each command, then those of a split."""
    checkouts = [ROOT] if before is None else [before.resolve(), ROOT]
    with TemporaryDirectory() as name:
        folder = Path(name)
        copytree(_DEMO / "run", folder / "other")
        commands = COMMANDS if all(map(has_program, checkouts)) else {}
        for title, words in commands.items():
            rounds = [[measure(checkout, words, folder) for checkout in checkouts] for _ in range(ROUNDS)]
            print_row(title, [min(times) for times in zip(*rounds, strict=True)])
        splits = [
            [measure_split(checkout, folder / f"{number} {index}") for index, checkout in enumerate(checkouts)]
            for number in range(ROUNDS)
        ]
        for column, title in enumerate(("wall: first video of a split", "wall: last video", "wall: tables")):
            print_row(title, [min(times[column] for times in of_checkout) for of_checkout in zip(*splits, strict=True)])


def print_row(title: str, seconds: Sequence[float]) -> None:
    """Print seconds in each checkout, and how many times faster the last one is."""
    ratio = f"  {seconds[0] / seconds[-1]:4.1f}x" if len(seconds) > 1 else ""
    print(f"{title:32}" + "".join(f"{value:8.2f} s" for value in seconds) + ratio, flush=True)


def measure(checkout: Path, words: Sequence[str], folder: Path) -> float:
    """Return the CPU seconds of a command in a checkout."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [word.format(folder=folder) for word in words]
    done = subprocess.run([sys.executable, "-c", _PROGRAM, *words], cwd=checkout, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime


def has_program(checkout: Path) -> bool:
    """Return whether a checkout has the command ``stepscope``."""
    return (checkout / "app" / "cli" / "entry.py").is_file()


def measure_split(checkout: Path, out: Path) -> tuple[float, float, float]:
    """Return the seconds to the first video, the last one and the tables of the bundled test split."""
    began_s, videos_s = time.perf_counter(), list[float]()
    program = ["-c", _PROGRAM, "eval"] if has_program(checkout) else ["-m", "stepscope.eval", "run"]
    words = [*program, str(_DEMO / "test.json"), "--out", str(out), "--devices", "cpu:2"]
    with subprocess.Popen(
        [sys.executable, *words], cwd=checkout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            time.sleep(0.01)
            num_videos = sum(1 for _ in out.glob("*.record.json"))
            videos_s += [time.perf_counter() - began_s] * (num_videos - len(videos_s))
    assert process.returncode == 0
    return videos_s[0], videos_s[-1], time.perf_counter() - began_s


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
