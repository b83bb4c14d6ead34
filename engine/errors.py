"""The engine's exceptions about files, weights and video. A wrong argument is a ``ValueError`` instead.

Each message names the failure, the value and the remedy.
"""

from pathlib import Path
from typing import ClassVar, Final


class EngineError(Exception):
    """Base of all errors that the engine raises about its surroundings."""

    exit_code: ClassVar[int] = 2
    """That of a command which it ends."""


class VideoError(EngineError):
    """A file that cannot be read as video."""


class FeatureError(EngineError):
    """Frame features that are damaged or do not fit the model."""


class CheckpointError(EngineError):
    """A checkpoint that is missing, unsafe to load or inconsistent."""


class ContextError(EngineError):
    """A prompt or a turn that is longer than the model's context allows."""


OUT_OF_MEMORY: Final = "the memory of the device is full; end other programs on it, or choose a smaller model or batch"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory is exhausted, of a GPU too, whose error is known by its name: torch may not be loaded."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message; the name of its type if the message is empty.

    The message of an ``OSError`` is the name of its file and the reason, without its number and the folders.
    """
    if isinstance(error, OSError) and error.strerror:
        name = Path(error.filename).name if isinstance(error.filename, str) else ""
        return f"{name}: {error.strerror}" if name else error.strerror
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
