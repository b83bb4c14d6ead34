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
    from engine.config import StreamConfig as StreamConfig
    from engine.control.task import Task as Task
    from engine.dialogue import parse_steps as parse_steps
    from engine.loading import load_model as load_model
    from engine.model.features.frame_encoder import encode as encode
    from engine.records import FrameOutput as FrameOutput
    from engine.records import Step as Step
    from engine.records import UserTurn as UserTurn
    from engine.replay import Recording as Recording
    from engine.streamer import Streamer as Streamer
    from engine.video.reader import read_frames as read_frames
else:
    _MODULES = {
        "FrameOutput": "engine.records",
        "Recording": "engine.replay",
        "Step": "engine.records",
        "StreamConfig": "engine.config",
        "Streamer": "engine.streamer",
        "Task": "engine.control.task",
        "UserTurn": "engine.records",
        "encode": "engine.model.features.frame_encoder",
        "load_model": "engine.loading",
        "parse_steps": "engine.dialogue",
        "read_frames": "engine.video.reader",
    }
    __all__ = list(_MODULES)

    def __getattr__(name: str) -> object:
        """Import a public name at its first use."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        """Return the names of the module, with those that are not imported yet."""
        return sorted({*globals(), *_MODULES})
