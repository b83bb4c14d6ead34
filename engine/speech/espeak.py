"""Speech by espeak-ng, whose library and voices are in the wheel of ``espeakng-loader``. It works offline, on a CPU.

Source: ``speak_lib.h`` of espeak-ng, for the constants and the order of the arguments.
"""

import ctypes
import re
from functools import cache
from threading import Lock
from typing import Any, Final

import espeakng_loader

from stepscope.engine.errors import EngineError

SAMPLE_RATE: Final = 22_050
MAX_CHARS: Final = 1000
"""Characters of a text at most, about a minute of speech."""
_SYNCHRONOUS: Final = 2  # AUDIO_OUTPUT_SYNCHRONOUS: samples go to the callback, before espeak_Synth returns
_DO_NOT_EXIT: Final = 0x8000  # espeakINITIALIZE_DONT_EXIT: without voices it returns an error
_UTF8: Final = 1  # espeakCHARS_UTF8; without espeakSSML and espeakPHONEMES, so that markup is read as text
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
"""Control characters; ``\\x01`` begins a command of espeak-ng."""
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


class SpeechError(EngineError):
    """Text cannot be spoken."""


class _Espeak:
    """The library, which has one voice and one output for the process."""

    def __init__(self) -> None:
        try:
            self._library: Any = ctypes.CDLL(espeakng_loader.get_library_path())
            data = espeakng_loader.get_data_path()
        except (OSError, RuntimeError) as error:
            raise SpeechError(f"espeak-ng cannot be loaded: {error}") from error
        if self._library.espeak_Initialize(_SYNCHRONOUS, 0, data.encode(), _DO_NOT_EXIT) != SAMPLE_RATE:
            raise SpeechError(f"espeak-ng does not start with the voices in {data}")
        if self._library.espeak_SetVoiceByName(b"en") != 0:
            raise SpeechError("espeak-ng has no English voice")
        self._library.espeak_Synth.argtypes = [
            *(ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int),
            *(ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p),
        ]
        self._chunks: list[bytes] = []
        self._lock = Lock()
        self._callback = _Callback(self._collect)  # kept: the library has only its address
        self._library.espeak_SetSynthCallback(self._callback)

    def synthesize(self, text: str) -> bytes:
        encoded = text.encode() + b"\0"
        with self._lock:
            self._chunks = []
            status = self._library.espeak_Synth(encoded, len(encoded), 0, 1, 0, _UTF8, None, None)
            pcm = b"".join(self._chunks)
        if status != 0:
            raise SpeechError(f"espeak-ng cannot speak this text (status {status})")
        return pcm

    def _collect(self, samples: Any, num_samples: int, _events: Any) -> int:
        if samples and num_samples > 0:
            self._chunks.append(ctypes.string_at(samples, 2 * num_samples))
        return 0


@cache
def _load() -> _Espeak:
    return _Espeak()


def synthesize(text: str) -> bytes:
    """Return a text as speech: mono PCM of 16 bits, little-endian, at ``SAMPLE_RATE``; empty for a blank text.

    Safe in several threads; one text is spoken at a time.

    Raises:
        SpeechError: The library cannot be loaded or refuses the text.
        ValueError: More than ``MAX_CHARS`` characters.
    """
    if len(text) > MAX_CHARS:
        raise ValueError(f"a spoken text has at most {MAX_CHARS} characters; got {len(text)}")
    words = _CONTROL.sub(" ", text).encode(errors="replace").decode().strip()
    return _load().synthesize(words) if words else b""


_END: Final = re.compile(r"(?<=[.!?…])[\"')\]\u2019\u201d]*\s+|\n+")
_MAX_CHARS: Final = 300
"""Length at which a part without an end of a sentence is cut at a space."""


class SentenceBuffer:
    """Collects the parts of a text and returns its sentences."""

    def __init__(self) -> None:
        self._rest = ""

    def push(self, part: str) -> list[str]:
        """Add a part; return the sentences that are complete now. A sentence ends with a mark before a space."""
        self._rest += part
        sentences = []
        while (end := self._find_end()) is not None:
            sentences.append(self._rest[:end].strip())
            self._rest = self._rest[end:]
        return [sentence for sentence in sentences if sentence]

    def flush(self) -> list[str]:
        """Return the rest as the last sentence; empty if there is none."""
        rest, self._rest = self._rest.strip(), ""
        return [rest] if rest else []

    def _find_end(self) -> int | None:
        match = _END.search(self._rest)
        if match is not None and match.end() <= _MAX_CHARS:
            return match.end()
        if len(self._rest) < _MAX_CHARS:
            return None
        space = self._rest.rfind(" ", 1, _MAX_CHARS)
        return space if space > 0 else _MAX_CHARS
