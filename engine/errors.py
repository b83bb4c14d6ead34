"""What can go wrong in the world, as a tree. A wrong argument is a ``ValueError`` instead.

    EngineError
    ├── VideoError        a file that cannot be read as video
    ├── FeatureError      frame features that do not fit the model
    ├── CheckpointError   weights that are missing, unsafe or of another shape
    └── ContextError      a prompt or turn that does not fit the context

Each message says what failed, on which value, and what to do.
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
