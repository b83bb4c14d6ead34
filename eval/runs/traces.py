"""Traces: a CSV row per frame with the model's decisions, texts and states.

A row holds run, model, device and thresholds. The first row of each video also holds the whole provenance as JSON,
which would be too large for every row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from engine.io import Cell, to_json, write_csv
from engine.json_records import read_record
from engine.records import FrameOutput
from eval.data.samples import Sample
from eval.runs.folder import RunFolder
from eval.runs.provenance import Provenance

TRACE_COLUMNS: Final = (
    "video_id",
    "frame_index",
    "time_s",
    "speak_prob",
    "update_prob",
    "spoke",
    "updated",
    "response",
    "updates",
    "states",
    "cache_tokens",
    "refreshed",
    "latency_ms",
    "first_token_ms",
    "run",
    "model_digest",
    "device",
    "speak_threshold",
    "update_threshold",
    "provenance",
)
"""``spoke``, ``updated`` and ``refreshed`` are 1 or 0; ``updates`` is a JSON list, ``states`` a JSON object by step."""


class _ScoringEncoder(BaseModel):
    """Schema of the text encoder in ``metrics.json``."""

    text_encoder: str
    text_encoder_version: str = ""
    text_encoder_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedVideo:
    """The outputs of one video in one run."""

    video_id: str
    outputs: Sequence[FrameOutput]
    """One per frame."""
    provenance: Provenance


def read_provenance(run: RunFolder) -> Provenance:
    """Return the provenance of a run folder, with the text encoder of its scores."""
    try:
        encoder = read_record(_ScoringEncoder, run.path / "metrics.json").model_dump(exclude_unset=True)
    except (FileNotFoundError, ValueError):
        encoder = {}  # not scored yet: the text encoder is that of run.json
    return Provenance.of_settings(run.path.resolve().name, {**(run.settings() or {}), **encoder})


def iter_traced_videos(run: RunFolder, samples: Iterable[Sample]) -> Iterator[TracedVideo]:
    """Yield the outputs of samples in a run, in order; those of an unfinished video are empty.

    Raises ``ValueError`` for invalid outputs.
    """
    source = read_provenance(run)
    for sample in samples:
        yield TracedVideo(video_id=sample.video_id, outputs=run.finished_outputs(sample), provenance=source)


def write_traces(path: Path, videos: Iterable[TracedVideo]) -> None:
    """Write ``TRACE_COLUMNS`` atomically, a row per frame; unknown values are empty cells."""
    write_csv(path, (row for video in videos for row in iter_trace_rows(video)), columns=TRACE_COLUMNS)


def iter_trace_rows(video: TracedVideo) -> Iterator[dict[str, Cell]]:
    """Yield the rows of one video in frame order."""
    source = video.provenance
    of_run: dict[str, Cell] = {name: value for name, value in source.columns().items() if name in TRACE_COLUMNS}
    for number, output in enumerate(video.outputs):
        yield {
            "video_id": video.video_id,
            "frame_index": output.frame_index,
            "time_s": output.time_s,
            "speak_prob": output.speak_prob,
            "update_prob": output.update_prob,
            "spoke": int(output.response is not None),
            "updated": int(bool(output.updates)),
            "response": output.response,
            "updates": to_json(output.updates),
            "states": to_json(dict(output.dst_state)),
            "cache_tokens": output.cache_tokens,
            "refreshed": int(output.refreshed),
            "latency_ms": output.latency_ms,
            "first_token_ms": output.first_token_ms,
            **of_run,
            "provenance": to_json(asdict(source)) if number == 0 else None,
        }
