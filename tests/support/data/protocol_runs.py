"""Two recorded runs whose order depends on the protocol."""

from pathlib import Path

from stepscope.eval.recorder import RunRecorder
from tests.support.data.batches import copies, write_split

WORDS = "Hang the sail."


def record_runs(demo_manifest: Path, folder: Path, runs: Path, *, number: int) -> Path:
    """Record ``late``, 2 s after the one reference at 2 s of each video, and ``chatty``, exact and again at 5.5 s.

    Return the split.
    """
    turn = {"time_s": 2.0, "role": "assistant", "text": WORDS}
    videos = [{**video, "turns": [turn]} for video in copies(demo_manifest, folder, number)]
    split = write_split(folder, *videos)
    for name, times_s in (("late", (4.0,)), ("chatty", (2.0, 5.5))):
        with RunRecorder(runs / name, model=name, split=split) as run:
            for video in videos:
                spoken = {int(time_s * video["fps"]) for time_s in times_s}
                with run.video(video["video_id"]) as recorder:
                    for index in range(video["num_frames"]):
                        recorder.frame(index / video["fps"], response=WORDS if index in spoken else None)
    return split
