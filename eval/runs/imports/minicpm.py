"""Recording of a session of MiniCPM-o-Demo, ``data/sessions/<id>/recording.json``.

``chunks``, or a list of them: one for each second, with ``index`` and ``result`` (``mode``: LISTEN or SPEAK, ``text``,
``end_of_turn``, and ``timing`` with ``prefill_ms``, ``llm_ms``, ``tts_ms``, ``all_ms``, ``n_tokens`` and
``kv_cache_length``). Chunk ``i`` is at ``i`` seconds; its mode, values and cache length hold for the frames of that
second, its latency is that of the first. The text of consecutive SPEAK chunks is one message, at the first of them. The
sample is the one whose id or file name is that of the session's folder. **Source**: MiniCPM-o-Demo (28b60cf),
``session_recorder.py``.
"""

from typing import Final

from stepscope.engine.records import frame_at
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.runs.imports.system_output import (
    Result,
    ResultForm,
    SystemOutput,
    check_new_frame,
    find_by_file,
    hold_within_second,
    read_optional,
)

_TIMES: Final = ("prefill_ms", "llm_ms", "tts_ms", "n_tokens")


def find_sample(result: Result, split: Split) -> Sample:
    """Return the sample of a session's folder, or of the name of its file."""
    return find_by_file([result.path.resolve().parent.name, result.path.name], split)


def read_recording(content: Fields, sample: Sample) -> SystemOutput:
    """Read the chunks of a session. Raises ``ValueError`` naming the field."""
    texts: dict[int, str] = {}
    costs_s: dict[int, float] = {}
    states: dict[int, str] = {}
    signals: dict[int, dict[str, float]] = {}
    cache_tokens: dict[int, int] = {}
    message: int | None = None
    for chunk in content.read_objects("chunks"):
        frame = frame_at(float(chunk.read_index("index")), sample.fps)
        check_new_frame(chunk, "index", frame, states, sample)
        result = chunk.read_object("result")
        states[frame] = result.read_choice("mode", ("LISTEN", "SPEAK")).lower()
        timing = result.read_object("timing", may_be_missing=True)
        signals[frame] = {name: read_optional(timing, name) for name in _TIMES if timing.has(name)}
        if timing.has("all_ms"):
            costs_s[frame] = timing.read_number("all_ms", minimum=0) / 1000
        if timing.has("kv_cache_length"):
            cache_tokens[frame] = timing.read_index("kv_cache_length")
        if states[frame] == "listen":
            message = None
            continue
        message = frame if message is None else message
        text = result.read_text("text", may_be_blank=True) if result.has("text") else ""
        texts[message] = texts.get(message, "") + text
        if result.record.get("end_of_turn") is True:
            message = None
    states, cache_tokens = hold_within_second(states, sample), hold_within_second(cache_tokens, sample)
    return SystemOutput(
        num_frames=max(states, default=-1) + 1,
        texts={frame: text.strip() for frame, text in texts.items() if text.strip()},
        costs_s=costs_s,
        signals=hold_within_second(signals, sample),
        states=states,
        cache_tokens=cache_tokens,
    )


def _is_recording(fields: Fields) -> bool:
    chunks = fields.record.get("chunks")
    return isinstance(chunks, list) and any(isinstance(chunk, dict) and "result" in chunk for chunk in chunks)


FORM: Final = ResultForm(
    name="MiniCPM-o-Demo",
    missing="probabilities, updates and states of the steps",
    matches=_is_recording,
    find_sample=find_sample,
    read=read_recording,
)
