"""The streaming engine: decoding, encoding and the frame-by-frame decisions of the assistant.

The names in ``__all__`` are the public interface. They load on first use, so that ``import engine.records`` and other
light modules need no torch. A minimal run::

    from engine import StreamConfig, Streamer, Task, encode, load_model, parse_steps, read_frames

    checkpoint = load_model("assets/checkpoint", device="cpu")
    config = StreamConfig(fps=2.0)
    task = Task(goal="build the boat", steps=parse_steps("Set down the hull"))
    frames = encode(checkpoint, read_frames("boat.mp4", fps=config.fps))
    for output in Streamer(checkpoint, config).run(frames, task):
        print(output.time_s, output.response)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.config import StreamConfig
    from engine.control.controller import Task
    from engine.dialogue import parse_steps
    from engine.loading import load_model
    from engine.model.frame_encoder import encode
    from engine.records import FrameOutput, Step, UserTurn
    from engine.replay import Recording
    from engine.streamer import Streamer
    from engine.video.reader import read_frames

__all__ = [
    "FrameOutput",
    "Recording",
    "Step",
    "StreamConfig",
    "Streamer",
    "Task",
    "UserTurn",
    "encode",
    "load_model",
    "parse_steps",
    "read_frames",
]

_MODULES = {
    "FrameOutput": "engine.records",
    "Recording": "engine.replay",
    "Step": "engine.records",
    "StreamConfig": "engine.config",
    "Streamer": "engine.streamer",
    "Task": "engine.control.controller",
    "UserTurn": "engine.records",
    "encode": "engine.model.frame_encoder",
    "load_model": "engine.loading",
    "parse_steps": "engine.dialogue",
    "read_frames": "engine.video.reader",
}

if not TYPE_CHECKING:  # a type checker sees the imports above, and reports unknown names

    def __getattr__(name: str) -> object:
        """Import a public name on first use. Raises ``AttributeError`` for an unknown name."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
