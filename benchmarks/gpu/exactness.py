"""Exactness of each family and mode: equal results in float32, and counted differences in bfloat16."""

from dataclasses import replace
from typing import Final

from benchmarks.gpu.settings import BUNDLED, Figure, Figures, Settings
from benchmarks.random_model import build_random_workload
from stepscope.engine.bench.modes import CLOSE_MARGIN, as_float32, list_modes, measure, stream_in_float32
from stepscope.engine.inference.cuda_graphs import describe_graphs
from stepscope.engine.stream import StreamRequest

_FAMILIES: Final = {
    "SmolVLM, trained": BUNDLED,
    "SmolVLM": "SmolVLM2-256M",
    "VideoLLM-online": "tiny-10",
    "Qwen2.5-VL": "tiny-VL",
}
_ROWS: Final = 3


def run(settings: Settings) -> Figures:
    """Yield whether each mode equals the defining one, or how many of its decisions differ.

    Raises ``AssertionError`` at the end if a mode differs in float32.
    """
    wrong: list[str] = []
    num_frames = 24 if settings.is_tiny else 60
    for dtype in ("float32", "bfloat16"):
        for family, shape in _FAMILIES.items():
            checkpoint = settings.load(shape, dtype=dtype)
            workload = build_random_workload(
                checkpoint, num_videos=_ROWS, num_frames=num_frames, trigger_ratio=0.1, response_tokens=12
            )
            config, videos, reference = workload.config, workload.videos, None
            if dtype != "float32":
                exact = as_float32(checkpoint)
                reference = stream_in_float32(exact, [_as_float32(video) for video in videos], config, rows=_ROWS)
            modes = list_modes(config, rows=_ROWS, graphs=checkpoint.graphs is not None)
            for row in measure(checkpoint, videos, modes, reference=reference):
                name = f"{family}, {dtype}, {row.mode}"
                if dtype == "float32":
                    value = "equal" if row.is_equal and row.prob_difference <= 1e-4 else "DIFFERS"
                    wrong += [name] if value != "equal" else []
                    yield Figure(name=name, value=value, note=f"probabilities within {row.prob_difference:.0e}")
                else:
                    note = f"of {row.decisions} decisions; {row.near} are within {CLOSE_MARGIN} of the threshold"
                    yield Figure(name=name, value=float(row.differing), unit="differ", note=note)
            if checkpoint.graphs is not None:
                yield Figure(name=f"{family}, {dtype}, graphs", value=describe_graphs(checkpoint, config))
    if wrong:
        raise AssertionError(f"other results in float32: {'; '.join(wrong)}")


def _as_float32(video: StreamRequest) -> StreamRequest:
    return replace(video, features=[replace(frame, features=frame.features.float()) for frame in video.features])
