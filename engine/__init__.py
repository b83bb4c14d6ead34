"""The streaming engine: decoding, encoding and the frame-by-frame decisions of the assistant.

The names in ``__all__`` are the public interface; ``stepscope`` has them too, with an example. They load at their first
use, so that light modules, such as ``stepscope.engine.records``, need no torch.
"""

from typing import TYPE_CHECKING

from stepscope.engine.imports import import_on_use

if TYPE_CHECKING:
    from stepscope.engine.config import StreamConfig as StreamConfig
    from stepscope.engine.control.task import Task as Task
    from stepscope.engine.dialogue import parse_steps as parse_steps
    from stepscope.engine.evidence.explain import explain_decision as explain_decision
    from stepscope.engine.loading import load_model as load_model
    from stepscope.engine.model.features.frame_encoder import encode as encode
    from stepscope.engine.records import FrameOutput as FrameOutput
    from stepscope.engine.records import Step as Step
    from stepscope.engine.records import UserTurn as UserTurn
    from stepscope.engine.replay import Recording as Recording
    from stepscope.engine.stream import Streamer as Streamer
    from stepscope.engine.video.reader import read_frames as read_frames
else:
    _MODULES = {
        "FrameOutput": "stepscope.engine.records",
        "Recording": "stepscope.engine.replay",
        "Step": "stepscope.engine.records",
        "StreamConfig": "stepscope.engine.config",
        "Streamer": "stepscope.engine.stream",
        "Task": "stepscope.engine.control.task",
        "UserTurn": "stepscope.engine.records",
        "encode": "stepscope.engine.model.features.frame_encoder",
        "explain_decision": "stepscope.engine.evidence.explain",
        "load_model": "stepscope.engine.loading",
        "parse_steps": "stepscope.engine.dialogue",
        "read_frames": "stepscope.engine.video.reader",
    }
    __all__ = list(_MODULES)
    __getattr__, __dir__ = import_on_use(globals(), _MODULES)
