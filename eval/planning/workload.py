"""The workload of a video, which determines its cost: frames, triggers, lengths of texts, its file. No torch."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from engine.dialogue import initial_state
from engine.errors import VideoError
from engine.records import FrameOutput
from engine.video.decoding_work import DecodingWork, measure_decoding
from eval.data.samples import Sample

MAX_FILES: Final = 64
"""Video files of a split that are opened; the others count as these on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoLoad:
    """The workload of one video."""

    frames: int
    """Sampled frames."""
    turns: int
    """Responses and updates."""
    characters: int
    """Characters of these texts."""
    prompt_characters: int
    """Characters of goal, steps and user turns."""
    frame_bytes: int
    """Bytes of one silent frame in a run file."""
    decoding: DecodingWork | None = None
    """The pictures to decode; None if the file was not read."""


@dataclass(frozen=True, slots=True)
class PerVideo:
    """Coefficients of a quantity that is linear in the workload of a video."""

    frame: float = 0.0
    turn: float = 0.0
    character: float = 0.0
    prompt_character: float = 0.0

    def of(self, load: VideoLoad) -> float:
        """Return the quantity for one video."""
        return sum(
            coefficient * value
            for coefficient, value in zip(
                (self.frame, self.turn, self.character, self.prompt_character), list_values(load), strict=True
            )
        )


def list_values(load: VideoLoad) -> tuple[float, ...]:
    """Return the values that the coefficients of ``PerVideo`` multiply, in their order."""
    return load.frames, load.turns, load.characters, load.prompt_characters


def read_loads(samples: Sequence[Sample]) -> list[VideoLoad]:
    """Return the workload of each sample as ``read_load`` does; at most ``MAX_FILES`` video files are opened."""
    step = max(1, -(-len(samples) // MAX_FILES))
    opened = {sample.video_id for sample in islice(samples, 0, None, step)}
    return [read_load(sample, reads_file=sample.video_id in opened) for sample in samples]


def read_load(sample: Sample, *, reads_file: bool = True) -> VideoLoad:
    """Return the workload of a sample, as if the assistant gave the turns of the reference.

    Its ``decoding`` is None if its file is missing or invalid, or without ``reads_file``.
    """
    texts = [turn.text for turn in sample.turns if turn.role != "user"]
    load = _make_load(sample, sample.num_frames, texts)
    if sample.video_path is not None and reads_file:
        with suppress(VideoError):  # the run reports it
            return replace(load, decoding=measure_decoding(sample.video_path, fps=sample.fps, excerpt=sample.excerpt))
    return load


def measure_load(sample: Sample, outputs: Iterable[FrameOutput]) -> VideoLoad:
    """Return the workload of a sample's outputs, which may be those of its first frames."""
    outputs = list(outputs)
    texts = [text for output in outputs for text in (*output.updates, *filter(None, [output.response]))]
    return _make_load(sample, len(outputs), texts)


def _make_load(sample: Sample, num_frames: int, texts: list[str]) -> VideoLoad:
    given = [sample.goal, *(step.name for step in sample.steps), *(turn.text for turn in sample.user_turns)]
    return VideoLoad(
        frames=num_frames,
        turns=len(texts),
        characters=sum(map(len, texts)),
        prompt_characters=sum(map(len, given)),
        frame_bytes=len(_typical_output(sample).to_json()) + 1,
    )


def _typical_output(sample: Sample) -> FrameOutput:
    return FrameOutput(
        frame_index=50,
        time_s=25.5,
        speak_prob=0.0123456789012345,
        update_prob=0.0123456789012345,
        response=None,
        updates=(),
        dst_state=initial_state(sample.steps),
        cache_tokens=1000,
        refreshed=False,
        latency_ms=1.234,
        legality=(),
    )
