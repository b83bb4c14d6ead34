"""The stream written in plain transformers gives the decisions of the engine."""

from dataclasses import replace
from pathlib import Path

from benchmarks.eval.plain_pipeline import PlainPipeline
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.features.frame_encoder import encode
from stepscope.engine.records import FrameOutput
from stepscope.engine.stream import Streamer
from stepscope.engine.video.reader import read_frames
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import build_task

ASSETS = Path(__file__).parents[2] / "assets"


def test_plain_transformers_decide_as_the_engine_does() -> None:
    checkpoint = load_model(ASSETS / "checkpoint", device="cpu")
    sample = read_split(ASSETS / "demo" / "test.json").samples[0]
    config = replace(StreamConfig(), fps=sample.fps)
    assert sample.video_path is not None
    frames = read_frames(sample.video_path, fps=sample.fps, excerpt=sample.excerpt)
    ours = list(Streamer(checkpoint, config).run(encode(checkpoint, frames), build_task(sample)))
    plain = PlainPipeline(checkpoint).run(sample, config)
    assert [decisions(output) for output in plain] == [decisions(output) for output in ours]
    assert sum(output.response is not None for output in ours) > 3
    assert sum(bool(output.updates) for output in ours) > 3


def decisions(output: FrameOutput) -> tuple[object, ...]:
    return output.response, output.updates, dict(output.dst_state), output.cache_tokens
