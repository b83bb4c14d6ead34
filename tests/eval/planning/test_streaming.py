"""Passes of the cost model against those of workers, and against those that the measurement streams."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.loading import load_model
from engine.model.checkpoint import Checkpoint
from engine.model.features.frame_encoder import encode
from engine.stream import StreamRequest
from engine.streamer import Streamer
from engine.video.reader import read_frames
from eval.data.loading import read_samples
from eval.data.samples import Sample, build_task
from eval.planning import predict
from eval.planning import streaming as planning_streaming
from eval.planning.fitting import fit_quantity
from eval.planning.predict import count_work, share_out
from eval.planning.streaming import stream_videos
from eval.planning.workload import VideoLoad, measure_load
from eval.runs.streaming import video_runs
from eval.runs.streaming.video_runs import run_samples
from eval.runs.worker_messages import HEAD_START_FRAMES, VideoResult
from tests.eval.planning.test_predict import MODEL
from tests.support.data.batches import SHORT, make_worker_config

CountPasses = Callable[..., tuple[int, list[VideoResult]]]


@pytest.fixture(scope="module")
def checkpoint(tiny_folder: Path) -> Checkpoint:
    return load_model(tiny_folder, device="cpu")


@pytest.fixture
def samples(six_videos: Path) -> list[Sample]:
    return sorted(read_samples(six_videos), key=lambda sample: -sample.num_frames)


@pytest.fixture
def count_passes(checkpoint: Checkpoint, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> CountPasses:
    """Return a function that runs samples as a worker does, and returns its passes and results."""
    streamers = list[Streamer]()

    def make_streamer(*arguments: Any) -> Streamer:
        streamers.append(Streamer(*arguments))
        return streamers[-1]

    def run(samples: list[Sample], *, batch_size: int) -> tuple[int, list[VideoResult]]:
        events = run_samples(checkpoint, make_worker_config(tiny_folder), samples, device="cpu", batch_size=batch_size)
        results = [event for event in events if isinstance(event, VideoResult)]
        return streamers[-1].counts.passes, results

    monkeypatch.setattr(video_runs, "Streamer", make_streamer)
    return run


@pytest.mark.parametrize(
    ("head_start", "tolerance"),
    [
        pytest.param(HEAD_START_FRAMES, 0.05, id="the first video ends alone"),
        pytest.param(15, 0.2, id="the others join after 15 frames"),  # passes of 8 frames: 15 are 15 to 22
    ],
)
def test_predicted_passes_are_those_of_the_workers(
    samples: list[Sample],
    count_passes: CountPasses,
    monkeypatch: pytest.MonkeyPatch,
    head_start: int,
    tolerance: float,
) -> None:
    monkeypatch.setattr(video_runs, "HEAD_START_FRAMES", head_start)
    monkeypatch.setattr(predict, "HEAD_START_FRAMES", head_start)
    loads, passes = dict[str, VideoLoad](), list[float]()
    for sample in samples:
        number, (result,) = count_passes([sample], batch_size=1)
        loads[sample.video_id] = measure_load(sample, result.outputs)
        passes.append(number)
    fitted = fit_quantity(list(loads.values()), passes, has_prompt=False)
    model = replace(MODEL, first_passes=fitted, passes=fitted)  # its drafts are never right
    by_frames = {load.frames: sample for sample, load in zip(samples, loads.values(), strict=True)}
    for num_workers, batch_size in ((1, 2), (1, 6), (2, 3), (3, 2)):
        shares = share_out(list(loads.values()), num_workers)
        predicted = sum(count_work(share, model, batch_size=batch_size).passes for share in shares)
        counted = sum(
            count_passes([by_frames[load.frames] for load in share], batch_size=batch_size)[0] for share in shares
        )
        assert predicted == pytest.approx(counted, rel=tolerance), (num_workers, batch_size)


def test_the_measurement_streams_as_a_worker_does(
    checkpoint: Checkpoint, samples: list[Sample], count_passes: CountPasses, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [
        StreamRequest(
            video_id=sample.video_id,
            features=list(encode(checkpoint, read_frames(sample.video_path or "", fps=sample.fps))),
            task=build_task(sample),
            fps=sample.fps,
        )
        for sample in samples
    ]
    for head_start in (HEAD_START_FRAMES, 15, 0):
        monkeypatch.setattr(video_runs, "HEAD_START_FRAMES", head_start)
        monkeypatch.setattr(planning_streaming, "HEAD_START_FRAMES", head_start)
        streamed = stream_videos(checkpoint, SHORT, requests, batch_size=4, clock=iter(range(9)).__next__)
        assert streamed.timed.work.passes == count_passes(samples, batch_size=4)[0]
