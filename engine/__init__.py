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

from typing import TYPE_CHECKING

from engine.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from engine.config import StreamConfig as StreamConfig
    from engine.control.controller import Task as Task
    from engine.dialogue import parse_steps as parse_steps
    from engine.loading import load_model as load_model
    from engine.model.frame_encoder import encode as encode
    from engine.records import FrameOutput as FrameOutput
    from engine.records import Step as Step
    from engine.records import UserTurn as UserTurn
    from engine.replay import Recording as Recording
    from engine.streamer import Streamer as Streamer
    from engine.video.reader import read_frames as read_frames
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        FrameOutput="engine.records",
        Recording="engine.replay",
        Step="engine.records",
        StreamConfig="engine.config",
        Streamer="engine.streamer",
        Task="engine.control.controller",
        UserTurn="engine.records",
        encode="engine.model.frame_encoder",
        load_model="engine.loading",
        parse_steps="engine.dialogue",
        read_frames="engine.video.reader",
    )
