"""Recordings of a session of MiniCPM-o-Demo, in two forms; docs/result-files.md describes them.

**Source**: MiniCPM-o-Demo (28b60cf), ``session_recorder.py``; (6a513af), ``session_recording.py`` and
``docs/backend-protocol/schema.md``.
"""

from collections.abc import Mapping
from typing import Any, Final

from stepscope.engine.io.files import replace_surrogates
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.runs.imports.system_output import (
    NO_TEXT,
    Result,
    ResultForm,
    SystemOutput,
    check_new_frame,
    find_by_file,
    place_entry,
    read_optional,
)

_TIMES: Final = ("prefill_ms", "llm_ms", "tts_ms", "n_tokens")
EVENTS: Final = "events"
"""Field of a record that holds the lines of a file."""
_PUSHES: Final = ("input.append", "push", "input", "backend.push")
_TIMING: Final = {
    "prefill_ms": "prefill_ms",
    "cost_llm_ms": "llm_ms",
    "cost_tts_ms": "tts_ms",
    "wall_clock_ms": "all_ms",
    "n_tokens": "n_tokens",
    "kv_cache_length": "kv_cache_length",
}
"""The names of values in ``recording.json``, by those in ``metrics``."""


def _find_sample(result: Result, split: Split) -> Sample:
    """Return the sample of a session's folder, or of the name of its file."""
    return find_by_file([result.path.resolve().parent.name, result.path.name], split)


def _read_recording(content: Fields, sample: Sample) -> SystemOutput:
    output, texts = SystemOutput(), dict[int, str | None]()
    message: int | None = None
    for chunk in content.read_objects("chunks"):
        frame = place_entry(chunk, "index", float(chunk.read_index("index")), sample)
        check_new_frame(chunk, "index", frame, output.states, sample)
        result = chunk.read_object("result")
        output.states[frame] = result.read_choice("mode", ("LISTEN", "SPEAK")).lower()
        timing = result.read_object("timing", may_be_missing=True)
        output.signals[frame] = {name: read_optional(timing, name) for name in _TIMES if timing.has(name)}
        if timing.has("all_ms"):
            output.costs_s[frame] = timing.read_number("all_ms", minimum=0) / 1000
        if timing.has("kv_cache_length"):
            output.cache_tokens[frame] = timing.read_index("kv_cache_length")
        if output.states[frame] == "listen":
            message = None
            continue
        message = frame if message is None else message
        text = result.read_text("text", may_be_blank=True) if result.has("text") else None
        if text is not None or message not in texts:
            texts[message] = text if texts.get(message) is None else f"{texts[message]}{text}"
        if result.record.get("end_of_turn") is True:
            message = None
    for frame, text in texts.items():
        output.add_text(frame, NO_TEXT if text is None else text)
    if None in texts.values():
        output.warn("the recording has sound without the text of its words")
    return output.hold_within_seconds(sample)


def _is_recording(fields: Fields) -> bool:
    chunks = fields.record.get("chunks")
    return isinstance(chunks, list) and any(isinstance(chunk, dict) and "result" in chunk for chunk in chunks)


def is_event(value: object) -> bool:
    """Whether a JSON value is a line of a recording."""
    return isinstance(value, dict) and value.get("dir") in ("up", "down") and isinstance(value.get("frame"), dict)


def _read_stream(content: Fields, sample: Sample) -> SystemOutput:
    events = content.read_objects(EVENTS)
    if all(event.has("seq") for event in events):
        events = tuple(sorted(events, key=lambda event: event.read_index("seq")))  # threads write them
    chunks: list[dict[str, Any]] = []
    audio: list[Mapping[str, float | str]] = []
    second = -1
    for event in events:
        message = event.read_object("frame")
        if event.record["dir"] == "up" and message.record.get("type") in _PUSHES:
            second += 1
            if message.read_object("input", may_be_missing=True).has("messages"):
                rule = "must be a second of sound and pictures: a turn-based session has no times in a video"
                raise message.error("input", rule)
            _add_audio(audio, second, "user", message.read_object("input", may_be_missing=True))
        elif message.record.get("type") == "response.output.delta" and second >= 0:
            if not chunks or chunks[-1]["index"] != second:
                chunks.append({"index": second, "result": {"mode": "LISTEN", "timing": {}}})
            _add_answer(chunks[-1]["result"], message)
            _add_audio(audio, second, "assistant", message)
    output = _read_recording(Fields(record={"chunks": chunks}), sample)
    output.audio = audio
    return output


def _add_audio(audio: list[Mapping[str, float | str]], second: int, speaker: str, holder: Fields) -> None:
    """Add the path of the sound of a message; the program writes ``@blob/0000.wav`` for a file beside it."""
    path = holder.record.get("audio")
    if isinstance(path, str) and path.startswith("@"):
        audio.append({"time_s": float(second), "from": speaker, "path": replace_surrogates(path[1:])})


def _add_answer(result: dict[str, Any], message: Fields) -> None:
    kind = message.read_choice("kind", ("listen", "text", "audio"))
    if kind != "listen":
        result["mode"] = "SPEAK"
    if kind == "text":
        result["text"] = result.get("text", "") + message.read_text("text", may_be_blank=True)
    metrics: Mapping[str, object] = message.read_object("metrics", may_be_missing=True).record
    result["timing"] |= {ours: metrics[name] for name, ours in _TIMING.items() if metrics.get(name) is not None}


def _is_stream(fields: Fields) -> bool:
    events = fields.record.get(EVENTS)
    return isinstance(events, list) and bool(events) and all(map(is_event, events))


RECORDING: Final = ResultForm(
    name="MiniCPM-o-Demo",
    missing="probabilities, updates and states of the steps",
    matches=_is_recording,
    find_sample=_find_sample,
    read=_read_recording,
)
STREAM: Final = ResultForm(
    name="MiniCPM-o-Demo stream",
    missing="probabilities, updates and states of the steps",
    matches=_is_stream,
    find_sample=_find_sample,
    read=_read_stream,
)
