"""Run folders without a model: outputs that follow a reference, with failures."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from stepscope.engine.dialogue import apply_update, fill_legality, initial_state
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from tests.support.data.records import make_output

WRONG = "Something else entirely: 12345."


def follow_reference(sample: Sample) -> tuple[FrameOutput, ...]:
    """Return outputs that repeat the reference; of four messages the second is wrong and the third is missing.

    Each user turn is answered with nonsense.
    """
    by_frame: dict[int, list[Turn]] = {}
    for turn in sample.turns:
        by_frame.setdefault(frame_at(turn.time_s, sample.fps), []).append(turn)
    return fill_legality(tuple(_outputs(sample, by_frame)), initial_state(sample.steps, sample.initial_state))


def _outputs(sample: Sample, by_frame: dict[int, list[Turn]]) -> Iterator[FrameOutput]:
    state, count = initial_state(sample.steps, sample.initial_state), 0
    for index in range(sample.num_frames):
        response, updates = None, tuple(turn.text for turn in by_frame.get(index, ()) if turn.role == "update")
        for turn in by_frame.get(index, ()):
            if turn.role == "assistant":
                response = {1: WRONG, 2: None}.get(count % 4, turn.text)
                count += 1
        if response is None and any(turn.role == "user" for turn in by_frame.get(index, ())):
            response = WRONG
        for text in updates:
            state = dict(apply_update(state, text).state)
        yield make_output(
            index,
            fps=sample.fps,
            speak_prob=0.9 if response else 0.3 if index % 5 == 0 else 0.05,
            update_prob=0.8 if updates else 0.1,
            response=response,
            updates=updates,
            dst_state=state,
            cache_tokens=100 + index,
            latency_ms=5.0,
        )


def save_run(folder: Path, split: Path, *, failed: Sequence[str] = ()) -> RunFolder:
    """Write a run of a split, in which the videos ``failed`` have no outputs."""
    settings = {
        "split": str(split.resolve()),
        "checkpoint": "/home/someone/checkpoint",
        "model_digest": "feed",
        "device": "cpu",
        "config": {"speak_threshold": 0.5, "update_threshold": 0.5},
    }
    with RunFolder.open(folder, settings) as run:
        for sample in read_samples(split):
            error = "the video is damaged" if sample.video_id in failed else ""
            outputs = () if error else follow_reference(sample)
            run.save_video(
                VideoRecord(
                    video_id=sample.video_id,
                    source=digest_sample(sample),
                    num_frames=len(outputs),
                    device="cpu",
                    error=error,
                ),
                outputs,
            )
    return RunFolder(folder)
