"""Decoding as the plan predicts it against its CPU time, by codec: ``python -m benchmarks.eval.plan [CONSTANTS]``.

The constants are those of the package, or of another file, which must be of this machine. They were measured on other
videos: each codec here encodes the same moving picture with noise, 640 x 360 at 30 pictures/s, 15 s long.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.engine.decode import ENCODINGS, FPS, SAMPLED_FPS, measure, sample, write_video
from engine.video.decoding_work import measure_decoding
from engine.video.reader import SAMPLED_DECODERS
from eval.planning.constants import CONSTANTS, read_machines
from eval.planning.predict import time_pictures

SECONDS = 15


def main(constants: Path) -> None:
    """Print a row for each codec and rate."""
    machine = read_machines(constants)[0]
    with TemporaryDirectory() as folder:
        for name, encoding in ENCODINGS.items():
            path = Path(folder) / f"video{encoding.suffix}"
            with ThreadPoolExecutor(1) as pool:  # SVT-AV1 gives the thread that opens it real-time priority, if it may
                pool.submit(write_video, path, encoding, num_pictures=SECONDS * FPS).result()
            for fps in SAMPLED_FPS:
                work = measure_decoding(path, fps=fps)
                predicted_s = time_pictures(work, machine)
                frames, (_, cpu_s) = measure(partial(sample, path, fps=fps, decoders=SAMPLED_DECODERS))
                print(
                    f"{name:24} {fps:4.1f} fps: {work.pictures:4.0f} pictures, {work.megabytes:5.2f} MB; predicted "
                    f"{predicted_s:6.3f} s, measured {cpu_s:6.3f} s, {predicted_s / cpu_s - 1:+7.1%}; by frames alone "
                    f"{len(frames) * machine.decode_frame_s / cpu_s - 1:+7.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CONSTANTS)
