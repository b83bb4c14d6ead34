"""A split from video files to tables: ``python -m benchmarks.eval.end_to_end [SPLIT]``, by default the test split.

Pipelines run one after the other in one process, with one torch thread. The last one has the embeddings of an earlier
run, which ``--features`` keeps. Each decodes, encodes, streams, writes its run folder and scores it, without Java.

The first two take one video at a time, one frame at a time, and encode inline: plain transformers with decord
(``benchmarks.eval.plain_pipeline``), and the engine with its decoder and kernels. Two columns compare with them. CPU
seconds count all threads of this process: compare these where others use the machine.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.engine.decode import measure
from benchmarks.eval.plain_pipeline import PlainPipeline
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.encoder_pool import count_cores
from stepscope.engine.model.features.frame_encoder import FrameFeatures, encode_images
from stepscope.engine.records import FrameOutput
from stepscope.engine.stream import Streamer
from stepscope.engine.video.reader import Frame, read_frames
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Split, build_task
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.matching.turns import DEFAULT_ENCODER, TextEncoder
from stepscope.eval.metrics.text import TextScorer
from stepscope.eval.reports.scoring import ScoreSettings, score_run, write_tables
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from stepscope.eval.runs.streaming.video_runs import run_samples
from stepscope.eval.runs.worker_messages import VideoResult, WorkerConfig

ASSETS = Path(__file__).parents[2] / "assets"
BATCH_SIZE = 16
NUM_PLAIN = 2
"""The first pipelines, which the others are compared with."""
NO_JAVA = Path("/nowhere/java")
Results = Iterable[VideoResult]


def main(path: Path) -> None:
    """Run the pipelines; print their times."""
    torch.set_num_threads(1)
    split, checkpoint, encoder = read_split(path), load_model(ASSETS / "checkpoint", device="cpu"), load_encoder()
    encoder.encode(["warm up"])
    plain = PlainPipeline(checkpoint)
    run_alone, run_together = (partial(run_batches, batch_size=size) for size in (1, BATCH_SIZE))
    for results in (run_plain(plain, split.samples[:1]), run_alone(checkpoint, split.samples[:1])):
        list(results)  # warm-up: first passes are slow
    pipelines: dict[str, Callable[[Checkpoint, Sequence[Sample]], Results]] = {
        "plain transformers": lambda _, samples: run_plain(plain, samples),
        "frame by frame": run_frames,
        "one video at a time": run_alone,
        f"{BATCH_SIZE} videos at once": run_together,
    }
    plain_s, reference = list[float](), None
    print(f"{'':22} {'wall':>8} {'CPU':>8} {'/plain':>8} {'/frame':>8}")
    with TemporaryDirectory() as folder:
        run_kept = partial(run_together, features=Path(folder) / "features")
        list(run_kept(checkpoint, split.samples))
        pipelines["embeddings kept"] = run_kept
        for name, run in pipelines.items():
            out = Path(folder) / name
            results = run(checkpoint, split.samples)
            _, (wall_s, cpu_s) = measure(partial(run_and_score, split, results, out, encoder))
            decisions = read_decisions(out, split)
            reference = reference or decisions
            if len(plain_s) < NUM_PLAIN:
                plain_s.append(wall_s)
            ratios = [f"{other_s / wall_s:.1f}x" for other_s in plain_s] + [""] * (NUM_PLAIN - len(plain_s))
            equal = "same decisions" if decisions == reference else "DECISIONS DIFFER"
            print(f"{name:22} {wall_s:6.1f} s {cpu_s:6.1f} s {ratios[0]:>8} {ratios[1]:>8}  {equal}")


def run_plain(pipeline: PlainPipeline, samples: Sequence[Sample]) -> Results:
    """Run one video at a time, one frame and one token per pass, without the engine."""
    for sample in samples:
        yield make_result(sample, pipeline.run(sample, replace(WorkerConfig(checkpoint="").config, fps=sample.fps)))


def run_frames(checkpoint: Checkpoint, samples: Sequence[Sample]) -> Results:
    """Run one video at a time, one frame and one token per pass, by the engine."""
    for sample in samples:
        config = replace(WorkerConfig(checkpoint="").config, fps=sample.fps).frame_by_frame()
        features = (
            FrameFeatures(index=frame.index, time_s=frame.time_s, features=encode_images(checkpoint, [frame.image])[0])
            for frame in read(sample)
        )
        yield make_result(sample, Streamer(checkpoint, config).run(features, build_task(sample)))


def make_result(sample: Sample, found: Iterable[FrameOutput]) -> VideoResult:
    """Return the result of a video with its record."""
    outputs = tuple(found)
    record = VideoRecord(video_id=sample.video_id, source=digest_sample(sample), num_frames=len(outputs))
    return VideoResult(record=record, outputs=outputs)


def run_batches(
    checkpoint: Checkpoint, samples: Sequence[Sample], *, batch_size: int, features: Path | None = None
) -> Results:
    """Run several videos in one forward pass, as a worker does; ``features`` is its folder of kept embeddings."""
    events = run_samples(
        checkpoint,
        WorkerConfig(checkpoint="", features=features),
        samples,
        device="cpu",
        batch_size=batch_size,
        num_cores=count_cores(),
    )
    return (event for event in events if isinstance(event, VideoResult))


def run_and_score(split: Split, results: Results, out: Path, encoder: TextEncoder) -> None:
    """Write a run folder with its tables, as ``stepscope eval`` does."""
    settings = ScoreSettings(text_encoder=DEFAULT_ENCODER)
    with RunFolder.open(out, {"split": str(split.path.resolve())}) as folder, TextScorer(java=NO_JAVA) as scorer:
        for result in results:
            folder.save_video(result.record, result.outputs)
        run = score_run(out, split, settings, encode=encoder.encode, scorer=scorer)
        write_tables(out, run, {})


def read_decisions(out: Path, split: Split) -> list[tuple[object, ...]]:
    """Return the texts and states of a run."""
    outputs: list[FrameOutput] = [output for sample in split.samples for output in RunFolder(out).outputs(sample)]
    return [(output.response, output.updates, dict(output.dst_state)) for output in outputs]


def read(sample: Sample) -> Iterator[Frame]:
    """Decode a sample's video."""
    assert sample.video_path is not None
    return read_frames(sample.video_path, fps=sample.fps, excerpt=sample.excerpt)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ASSETS / "demo" / "test.json")
