"""Runs the benchmark of a GPU: ``python -m benchmarks.gpu [--minutes 8] [--out DIR] [--device cuda] [--tiny]``."""

import argparse
import sys
import time
from pathlib import Path

from benchmarks.gpu.parts import PARTS, Result, choose_start, format_value, run_part, write
from benchmarks.gpu.settings import Settings


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="time for all parts (default: 8)")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), help="folder of the results")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu (default: cuda)")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, to try the benchmark on a CPU")
    return parser


def main() -> int:
    """Run all parts within the time, writing the results after each one; return 1 if a part failed."""
    parser = make_parser()
    options = parser.parse_args()
    if not 0 < options.minutes < float("inf"):
        parser.error(f"--minutes must be a positive number; got {options.minutes:g}")
    options.out.mkdir(parents=True, exist_ok=True)
    settings = Settings(device=options.device, is_tiny=options.tiny, out=options.out.resolve())
    about = {"device": options.device, "shapes": "tiny" if options.tiny else "published", "minutes": options.minutes}
    end_s, results, start = time.monotonic() + 60 * options.minutes, list[Result](), choose_start()
    for number, part in enumerate(PARTS):
        # the time that earlier parts left over is shared by the weights of the rest
        rest = sum(later.weight for later in PARTS[number:])
        left_s = end_s - time.monotonic()
        limit_s = max(left_s * part.weight / rest if part.weight else left_s, 0.0)
        results.append(run_part(part, settings, limit_s=limit_s, start=start))
        write(options.out, results, about)
        _print(results[-1])
        if number == 0 and results[0].state != "done":
            return 1  # nothing runs on this device
    print(f"{options.out / 'gpu.md'} and gpu.json have the results")
    return 1 if any(result.state == "failed" for result in results) else 0


def _print(result: Result) -> None:
    reason = f": {result.reason}" if result.reason else ""
    print(f"{result.name}: {result.state}{reason} ({result.seconds:.1f} s)")
    for figure in result.figures:
        goal = f", goal {figure.goal}" if figure.goal else ""
        note = f" ({figure.note})" if figure.note else ""
        print(f"  {figure.name}: {format_value(figure)}{goal}{note}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
