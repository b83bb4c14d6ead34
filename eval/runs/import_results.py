"""Import of result files of published systems into run folders, so that they are inspected and scored like own runs.

Two formats are detected by content; any different file is refused with an error that names the field.

1. ProAssist, ``results/{idx}.json``: ``metadata`` (``video_uid``, ``sample_idx``, ``fps``, ...) and ``predictions``,
   one object per frame with ``gen`` (``""`` or ``"."`` is silence), ``frame_idx_in_original_video`` and
   ``frame_idx_in_stream``; matches and references in it are ignored and computed again. The frame index is the first
   of those two fields that all objects have, minus that of the first object, which is the clip's first frame.
   ``timestamp_in_stream`` is ignored: it is the *end* of the frame. The sample is the one whose id is ``video_uid`` or
   starts with it; if several match (clips of one video), it is entry ``sample_idx`` of the split.
2. VideoLLM-online's ``demo.cli``: ``video_path``, ``frame_fps`` and ``conversation``, an object per frame with ``time``
   and ``cost`` (seconds), two for a frame at which a query was answered. ``content`` begins with ``(Video Time = 1.0s)
   Assistant:``, which is removed. The program stops after 100 frames. The sample is the one with that video's file
   name, or with its stem as id.

Neither holds probabilities or states: scores of probabilities, updates and states are nan, and the state stays as
it was at the start. Missing frames before the last one of a file are silent. **Source**: ProAssist's
``StreamInferenceRunner.run_inference_on_video``; VideoLLM-online's ``demo/cli.py`` and ``demo/inference.py``.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.dialogue import initial_state
from engine.records import FrameOutput, frame_at
from eval.data.json_fields import Fields
from eval.data.samples import Sample, Split
from eval.runs.folder import RunFolder, VideoRecord, digest_sample

NO_RESULT_FILE: Final = "no result file was given for it"
_SILENCE: Final = ("", ".")
_PREFIX: Final = re.compile(r"\(Video Time = [^)]*s\) ?Assistant: ?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _SystemOutput:
    """The responses of a system in one video, by frame index."""

    num_frames: int
    texts: Mapping[int, str]
    costs_s: Mapping[int, float] = field(default_factory=dict)


def import_results(files: Sequence[Path], split: Split, *, folder: RunFolder) -> dict[str, str]:
    """Write the results of published systems into an open run folder.

    Each sample gets a record: with its outputs, or with the error of its file, or with ``NO_RESULT_FILE``. Returns an
    error per file that matches no sample, or the sample of an earlier file. Raises ``ValueError`` if no file matches.
    """
    problems: dict[str, str] = {}
    found: dict[str, tuple[Path, Fields]] = {}
    for path in files:
        try:
            content = _read(path)
            video_id = _find_sample(content, split).video_id
            if video_id in found:
                raise ValueError(f"is a second result for {video_id}; give one")
            found[video_id] = (path, content)
        except ValueError as error:
            problems[str(path)] = f"{path} {error}"
    if not found:
        raise ValueError(next(iter(problems.values()), "no result files were given"))
    for sample in split.samples:
        if sample.video_id not in found:
            folder.save_video(_record(sample, None, error=NO_RESULT_FILE), ())
            continue
        path, content = found[sample.video_id]
        try:
            system_output = (
                _read_proassist(content, sample) if content.has("predictions") else _read_videollm(content, sample)
            )
            folder.save_video(_record(sample, system_output), _outputs(system_output, sample))
        except ValueError as error:
            folder.save_video(_record(sample, None, error=f"{path}: {error}"), ())
    return problems


def _record(sample: Sample, system_output: _SystemOutput | None, *, error: str = "") -> VideoRecord:
    num_frames = 0 if system_output is None else system_output.num_frames
    ends_early = system_output is not None and num_frames < sample.num_frames
    return VideoRecord(
        video_id=sample.video_id,
        source=digest_sample(sample),
        num_frames=num_frames,
        wall_s=sum(system_output.costs_s.values()) if system_output is not None and system_output.costs_s else None,
        warning=f"ends after {num_frames} of {sample.num_frames} frames" if ends_early else "",
        error=error,
    )


def _read(path: Path) -> Fields:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot be read as JSON: {error}") from error
    if isinstance(content, dict):
        fields = Fields(record=content)
        if (fields.has("predictions") and fields.has("metadata")) or fields.has("conversation"):
            return fields
    raise ValueError(
        'is of no known form; give a ProAssist result ("metadata" and "predictions") or the output of demo.cli of '
        'VideoLLM-online ("video_path" and "conversation")'
    )


def _find_sample(content: Fields, split: Split) -> Sample:
    if content.has("predictions"):
        metadata = content.read_object("metadata")
        name = metadata.read_text("video_uid")
        fits = [sample for sample in split.samples if sample.video_id == name or sample.video_id.startswith(f"{name}_")]
        if len(fits) > 1:
            place = metadata.read_index("sample_idx")
            at_place = split.entries[place : place + 1]
            fits = [sample for sample in fits if sample in at_place]
    else:
        video = Path(content.read_text("video_path"))
        name = video.name
        fits = [sample for sample in split.samples if sample.video_path is not None and sample.video_path.name == name]
        fits = fits or [sample for sample in split.samples if sample.video_id == video.stem]
    if len(fits) != 1:
        raise ValueError(
            f"is of the video {name}, which fits {len(fits)} videos of {split.path}; choose the split of that video"
        )
    return fits[0]


def _read_proassist(content: Fields, sample: Sample) -> _SystemOutput:
    _check_rate(content.read_object("metadata"), "fps", sample)
    frames = content.read_objects("predictions")
    places = ("frame_idx_in_original_video", "frame_idx_in_stream")
    place = next((name for name in places if frames and all(frame.has(name) for frame in frames)), None)
    numbers = range(len(frames)) if place is None else [frame.read_index(place) for frame in frames]
    texts: dict[int, str] = {}
    last = -1
    for frame, number in zip(frames, numbers, strict=True):
        if number - numbers[0] <= last:
            raise frame.error(place or "gen", "must be larger than that of the frame before")
        last = number - numbers[0]
        text = frame.record.get("gen")
        if not isinstance(text, str):
            raise frame.error("gen", "must be text")
        if text.strip() not in _SILENCE:
            texts[last] = text.strip()
    return _SystemOutput(num_frames=last + 1, texts=texts)


def _read_videollm(content: Fields, sample: Sample) -> _SystemOutput:
    _check_rate(content, "frame_fps", sample)
    texts: dict[int, str] = {}
    costs_s: dict[int, float] = {}
    for step in content.read_objects("conversation"):
        frame = frame_at(step.read_number("time", minimum=0), sample.fps)
        costs_s[frame] = step.read_number("cost", minimum=0)
        if step.has("role") and step.read_choice("role", ("user", "assistant")) == "assistant":
            text = _PREFIX.sub("", step.read_text("content"), count=1).strip()
            if frame in texts:
                raise step.error("time", "must differ from that of the answer before")
            if text:
                texts[frame] = text
    return _SystemOutput(num_frames=max(costs_s, default=-1) + 1, texts=texts, costs_s=costs_s)


def _check_rate(fields: Fields, name: str, sample: Sample) -> None:
    fps = fields.read_number(name, minimum=0.001, maximum=1000)
    if not math.isclose(fps, sample.fps):
        raise fields.error(name, f"must be the rate of the split, {sample.fps:g}")


def _outputs(system_output: _SystemOutput, sample: Sample) -> tuple[FrameOutput, ...]:
    if not system_output.num_frames:
        raise ValueError("holds no frames; there is nothing to score")
    if system_output.num_frames > sample.num_frames:
        raise ValueError(f"holds {system_output.num_frames} frames, but {sample.video_id} has {sample.num_frames}")
    state = initial_state(sample.steps, sample.initial_state)
    return tuple(
        FrameOutput(
            frame_index=index,
            time_s=index / sample.fps,
            speak_prob=math.nan,
            update_prob=math.nan,
            response=system_output.texts.get(index),
            updates=(),
            dst_state=dict(state),
            cache_tokens=0,
            refreshed=False,
            latency_ms=1000 * system_output.costs_s.get(index, math.nan),
        )
        for index in range(system_output.num_frames)
    )
