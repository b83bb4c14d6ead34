"""Traces: a CSV row per frame with the model's decisions, texts and states.

A row holds run, model, device and thresholds. The first row of each video also holds the whole provenance as JSON,
which would be too large for every row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.io.files import Cell, replace_surrogates, to_json, write_csv
from stepscope.engine.io.json_records import read_record
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.provenance import Provenance

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
    "state",
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
"""``spoke``, ``updated`` and ``refreshed`` are 1 or 0; ``updates`` is a JSON list, ``states`` a JSON object by step,
``state`` that of the assistant itself. A column ``signal_NAME`` for each named signal follows."""


class _ScoringEncoder(BaseModel):
    """Schema of the text encoder in ``metrics.json``."""

    text_encoder: str
    text_encoder_version: str = ""
    text_encoder_digest: str = ""
    judge: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedVideo:
    """The outputs of one video in one run."""

    video_id: str
    outputs: Sequence[FrameOutput]
    """One per frame."""
    provenance: Provenance
    has_states: bool = True
    """Whether the states of the steps in the outputs are the system's own; otherwise they are not written."""


def read_provenance(run: RunFolder) -> Provenance:
    """Return the provenance of a run folder, with the text encoder and the judge of its scores."""
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
        yield TracedVideo(
            video_id=sample.video_id,
            outputs=run.finished_outputs(sample),
            provenance=source,
            has_states=run.has_states(),
        )


def write_traces(path: Path, videos: Iterable[TracedVideo], *, signals: Sequence[SignalSpec] = ()) -> None:
    """Write ``TRACE_COLUMNS`` and those of the signals atomically, a row per frame; unknown values are empty cells."""
    rows = (row for video in videos for row in iter_trace_rows(video))
    write_csv(path, rows, columns=[*TRACE_COLUMNS, *(_signal_column(spec.name) for spec in signals)])


def _signal_column(name: str) -> str:
    return f"signal_{replace_surrogates(name)}"


def iter_trace_rows(video: TracedVideo) -> Iterator[dict[str, Cell]]:
    """Yield the rows of one video in frame order, with further fields beside ``TRACE_COLUMNS``."""
    source = video.provenance
    of_run: dict[str, Cell] = {name: value for name, value in source.columns().items() if name in TRACE_COLUMNS}
    for number, output in enumerate(video.outputs):
        yield {
            **{field.name: getattr(output, field.name) for field in fields(output)},
            **{_signal_column(name): value for name, value in output.signals.items()},
            **of_run,
            "video_id": video.video_id,
            "spoke": int(output.response is not None),
            "updated": int(bool(output.updates)),
            "cache_tokens": output.cache_tokens or None,
            "states": to_json(dict(output.dst_state)) if video.has_states else None,
            "refreshed": int(output.refreshed),
            "provenance": to_json(asdict(source)) if number == 0 else None,
        }
