"""The engine's exceptions about files, weights and video. A wrong argument is a ``ValueError`` instead.

    EngineError
    ├── VideoError        a file that cannot be read as video
    ├── FeatureError      frame features that do not fit the model
    ├── CheckpointError   weights that are missing, unsafe or of the wrong shape
    └── ContextError      a prompt or turn that does not fit the context

Each message names the failure, the value and the remedy.
"""


class EngineError(Exception):
    """Base of all errors that the engine raises about its surroundings."""


class VideoError(EngineError):
    """A file that cannot be read as video."""


class FeatureError(EngineError):
    """Frame features that are damaged or do not fit the model."""


class CheckpointError(EngineError):
    """A checkpoint that is missing, unsafe to load or inconsistent."""


class ContextError(EngineError):
    """A prompt or a turn that is longer than the model's context allows."""


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message; the name of its type if the message is empty."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
