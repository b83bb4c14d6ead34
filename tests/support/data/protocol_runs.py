"""Recorded runs that say the same words at given times."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from stepscope.eval.data.loading import read_split
from stepscope.eval.recorder import RunRecorder
from tests.support.data.batches import copies, write_split

WORDS = "Hang the sail."


def record_words(runs: Path, split: Path, times_s: Mapping[str, Sequence[float]]) -> None:
    """Record a run of a split for each name, in which each video has ``WORDS`` at these times."""
    for name, said_s in times_s.items():
        with RunRecorder(runs / name, model=name, split=split) as run:
            for sample in read_split(split).samples:
                spoken = {int(time_s * sample.fps) for time_s in said_s}
                with run.video(sample.video_id) as recorder:
                    for index in range(sample.num_frames):
                        recorder.frame(index / sample.fps, response=WORDS if index in spoken else None)


def record_runs(demo_manifest: Path, folder: Path, runs: Path, *, number: int) -> Path:
    """Record ``late``, 2 s after the one reference at 2 s of each video, and ``chatty``, exact and again at 5.5 s.

    Return the split. The order of the runs depends on the protocol.
    """
    turn = {"time_s": 2.0, "role": "assistant", "text": WORDS}
    videos = [{**video, "turns": [turn]} for video in copies(demo_manifest, folder, number)]
    split = write_split(folder, *videos)
    record_words(runs, split, {"late": (4.0,), "chatty": (2.0, 5.5)})
    return split
