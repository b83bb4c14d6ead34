"""ProAssist, ``results/{idx}.json``.

``metadata`` (``video_uid``, ``sample_idx``, ``fps``, ...) and ``predictions``, one object per frame with ``gen``
(``""`` or ``"."`` is silence), ``frame_idx_in_original_video`` and ``frame_idx_in_stream``; matches and references in
it are ignored and computed again. The frame index is the first of those two fields that all objects have, minus that of
the first object, which is the clip's first frame. ``timestamp_in_stream`` is ignored: it is the *end* of the frame. The
sample is the one whose id is ``video_uid`` or starts with it; if several match (clips of one video), it is entry
``sample_idx`` of the split. **Source**: ``StreamInferenceRunner.run_inference_on_video``.
"""

import math
from typing import Final

from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.runs.imports.system_output import Result, ResultForm, SystemOutput, check_fit

_SILENCE: Final = ("", ".")


def _find_sample(result: Result, split: Split) -> Sample:
    metadata = result.fields.read_object("metadata")
    name = metadata.read_text("video_uid")
    fits = [sample for sample in split.samples if _is_of(sample, name)]
    if len(fits) > 1:
        place = metadata.read_index("sample_idx")
        at_place = split.entries[place : place + 1]
        fits = [sample for sample in fits if sample in at_place]
    return check_fit(fits, [name], split)


def _is_of(sample: Sample, name: str) -> bool:
    has_id = sample.video_id == name or sample.video_id.startswith(f"{name}_")
    return has_id or (sample.video_path is not None and sample.video_path.stem == name)


def _read(content: Fields, sample: Sample) -> SystemOutput:
    check_rate(content.read_object("metadata"), "fps", sample)
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
    return SystemOutput(num_frames=last + 1, texts=texts, num_entries=len(frames))


def check_rate(fields: Fields, name: str, sample: Sample) -> None:
    """Raise ``ValueError`` unless a field is the frame rate of the split."""
    fps = fields.read_number(name, minimum=0.001, maximum=1000)
    if not math.isclose(fps, sample.fps):
        raise fields.error(name, f"must be the rate of the split, {sample.fps:g}")


FORM: Final = ResultForm(
    name="ProAssist",
    missing="probabilities, states of the steps, latencies, cache lengths",
    matches=lambda fields: fields.has("predictions") and fields.has("metadata"),
    find_sample=_find_sample,
    read=_read,
)
