"""The tables of a run of one video of four frames, small enough to be checked by hand."""

from pathlib import Path

from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.data.samples import Split, Turn
from stepscope.eval.reports.scoring import score_run, write_tables
from stepscope.eval.reports.table_files import Results, read_results
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from tests.support.data.batches import SCORING, no_java
from tests.support.data.records import make_output, make_sample
from tests.support.streams.fakes import count_letters

SAMPLE = make_sample(
    num_frames=4,
    steps=(Step(id="S1", name="hang the sail"),),
    turns=(
        Turn(time_s=0.0, role="assistant", text="Go."),
        Turn(time_s=0.5, role="assistant", text="Good."),
        Turn(time_s=1.0, role="update", text="S1->start"),
    ),
)
"""The reference speaks at frames 0 and 1, and updates at frame 2."""
SPEAK_PROBS = (0.9, 0.4, 0.6, 0.2)
"""Above 0.5 are frame 0, a hit, and frame 2, a false alarm."""
UPDATE_PROBS = (0.1, 0.1, 0.7, 0.3)


def outputs(speak_probs: tuple[float, ...]) -> list[FrameOutput]:
    return [
        make_output(
            frame,
            speak_prob=speak,
            update_prob=update,
            response="Go." if frame in (0, 2) else None,
            updates=("S1->start",) if update > 0.5 else (),
            dst_state={"S1": "not_started" if frame < 2 else "in_progress"},
            latency_ms=10.0 * (frame + 1),
        )
        for frame, (speak, update) in enumerate(zip(speak_probs, UPDATE_PROBS, strict=True))
    ]


def score(folder: Path, *, speak_probs: tuple[float, ...] = SPEAK_PROBS) -> Results:
    """Write and score a run folder, and read its tables."""
    settings = {"split": "/val.json", "config": {"speak_threshold": 0.5, "update_threshold": 0.5}, "zero_cost": "keep"}
    with RunFolder.open(folder, settings) as run:
        record = VideoRecord(video_id="a", source=digest_sample(SAMPLE), num_frames=4, wall_s=0.5)
        run.save_video(record, outputs(speak_probs))
    with no_java() as scorer:
        split = Split(path=Path("val.json"), entries=(SAMPLE,))
        write_tables(folder, score_run(folder, split, SCORING, encode=count_letters, scorer=scorer), settings)
    return read_results(folder)
