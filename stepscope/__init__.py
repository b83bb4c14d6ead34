"""See why a streaming video assistant spoke, stayed silent, or lost track of a task step.

The names in ``__all__`` are the public interface. They load at their first use: records, data, metrics and the recorder
need no torch. A minimal run::

    from stepscope import StreamConfig, Streamer, Task, encode, load_model, parse_steps, read_frames

    checkpoint = load_model("assets/checkpoint", device="cpu")
    config = StreamConfig(fps=2.0)
    task = Task(goal="build the boat", steps=parse_steps("Set down the hull"))
    frames = encode(checkpoint, read_frames("boat.mp4", fps=config.fps))
    for output in Streamer(checkpoint, config).run(frames, task):
        print(output.time_s, output.response)
"""

from typing import TYPE_CHECKING

from stepscope.engine.imports import import_on_use

if TYPE_CHECKING:
    from stepscope.engine import FrameOutput as FrameOutput
    from stepscope.engine import Recording as Recording
    from stepscope.engine import Step as Step
    from stepscope.engine import StreamConfig as StreamConfig
    from stepscope.engine import Streamer as Streamer
    from stepscope.engine import Task as Task
    from stepscope.engine import UserTurn as UserTurn
    from stepscope.engine import encode as encode
    from stepscope.engine import explain_decision as explain_decision
    from stepscope.engine import load_model as load_model
    from stepscope.engine import parse_steps as parse_steps
    from stepscope.engine import read_frames as read_frames
    from stepscope.eval.data import read_samples as read_samples
    from stepscope.eval.diagnosis import explain as explain
    from stepscope.eval.metrics import LiveTurn as LiveTurn
    from stepscope.eval.metrics import corpus_metrics as corpus_metrics
    from stepscope.eval.metrics import find_match as find_match
    from stepscope.eval.metrics import live_metrics as live_metrics
    from stepscope.eval.metrics import score_text as score_text
    from stepscope.eval.protocols import PROTOCOLS as PROTOCOLS
    from stepscope.eval.protocols import score_protocol as score_protocol
    from stepscope.eval.recorder import Reasoning as Reasoning
    from stepscope.eval.recorder import RunRecorder as RunRecorder
    from stepscope.eval.recorder import SignalSpec as SignalSpec
    from stepscope.eval.recorder import Turn as Turn
    from stepscope.eval.recorder import VideoRecorder as VideoRecorder
else:
    _PUBLIC = {
        "stepscope.engine": (
            "FrameOutput Recording Step StreamConfig Streamer Task UserTurn encode explain_decision load_model "
            "parse_steps read_frames"
        ),
        "stepscope.eval.data": "read_samples",
        "stepscope.eval.diagnosis": "explain",
        "stepscope.eval.metrics": "LiveTurn corpus_metrics find_match live_metrics score_text",
        "stepscope.eval.protocols": "PROTOCOLS score_protocol",
        "stepscope.eval.recorder": "Reasoning RunRecorder SignalSpec Turn VideoRecorder",
    }
    _MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}
    __all__ = list(_MODULES)
    __getattr__, __dir__ = import_on_use(globals(), _MODULES)
