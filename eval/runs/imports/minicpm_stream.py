"""Recording of a session of newer versions of MiniCPM-o-Demo, ``data/sessions/<id>/stream.jsonl``.

A line per message of the protocol: ``seq``, ``ts``, ``dir`` (``up`` from the user, ``down`` from the model) and
``frame``, the message. A push (``input.append``) is one second of sound and pictures, and the answers after it
(``response.output.delta``) belong to its second: ``kind`` is ``listen``, ``text`` or ``audio``, with ``text`` and
``metrics``. So each push with an answer is a chunk of ``recording.json``, whose reader makes the results. Lines are
ordered by ``seq``, because threads write them. **Source**: MiniCPM-o-Demo (6a513af), ``session_recording.py`` and
``docs/backend-protocol/schema.md``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from stepscope.engine.io.files import replace_surrogates
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.imports import minicpm
from stepscope.eval.runs.imports.system_output import ResultForm, SystemOutput

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


def is_event(value: object) -> bool:
    """Whether a JSON value is a line of a recording."""
    return isinstance(value, dict) and value.get("dir") in ("up", "down") and isinstance(value.get("frame"), dict)


def _read(content: Fields, sample: Sample) -> SystemOutput:
    events = content.read_objects(EVENTS)
    if all(event.has("seq") for event in events):
        events = tuple(sorted(events, key=lambda event: event.read_index("seq")))
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
                chunks.append({"index": second, "result": {"mode": "LISTEN", "text": "", "timing": {}}})
            _add_answer(chunks[-1]["result"], message)
            _add_audio(audio, second, "assistant", message)
    return replace(minicpm.read_recording(Fields(record={"chunks": chunks}), sample), audio=audio)


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
        result["text"] += message.read_text("text", may_be_blank=True)
    metrics: Mapping[str, object] = message.read_object("metrics", may_be_missing=True).record
    result["timing"] |= {ours: metrics[name] for name, ours in _TIMING.items() if metrics.get(name) is not None}


def _is_stream(fields: Fields) -> bool:
    events = fields.record.get(EVENTS)
    return isinstance(events, list) and bool(events) and all(map(is_event, events))


FORM: Final = ResultForm(
    name="MiniCPM-o-Demo stream",
    missing="probabilities, updates and states of the steps",
    matches=_is_stream,
    find_sample=minicpm.find_sample,
    read=_read,
)
