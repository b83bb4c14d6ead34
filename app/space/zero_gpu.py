"""The model on ZeroGPU, where a function has a GPU for one call, in a forked process.

The package ``spaces`` pickles the arguments and the results, and replaces an exception by the name of its class. So the
process returns errors, as it does warnings about a damaged video, which are texts. It keeps nothing between two calls.
"""

import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from importlib import import_module
from typing import Any, Final

import gradio as gr

from stepscope.app.core.plan import StreamPlan, inspect_plan, stream_plan
from stepscope.engine.errors import EngineError
from stepscope.engine.inspection import FrameInspection
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.records import FrameOutput
from stepscope.engine.video.reader import OnDamage

START_S: Final = 10.0
"""Estimated seconds to move the model to the GPU and to read the first frames."""
FRAME_S: Final = 0.05
"""Estimated seconds per frame of the largest SmolVLM2."""
MAX_S: Final = 120.0
"""Maximum seconds of a call, the daily quota of a visitor without an account."""
Gpu = Callable[..., Any]


def find_gpu() -> Gpu | None:
    """Return ``spaces.GPU`` on ZeroGPU, else None. Call it before CUDA is used, because it replaces CUDA there."""
    if os.environ.get("SPACES_ZERO_GPU", "").lower() not in ("1", "t", "true"):
        return None
    decorator: Gpu = import_module("spaces").GPU
    return decorator


class ZeroGpuModel:
    """A ``RemoteModel`` on ZeroGPU: one call of the GPU per run. Create it before the page is launched.

    The forked process finds the checkpoint in its memory, on the GPU.
    """

    def __init__(self, checkpoint: Checkpoint, gpu: Gpu) -> None:
        def stream(plan: StreamPlan) -> Generator[FrameOutput | str | Exception]:
            damages: list[str] = []
            try:
                with closing(stream_plan(checkpoint, plan, damages.append)) as outputs:
                    yield from outputs
            except (EngineError, ValueError) as error:
                yield error
            yield from damages

        def inspect(plan: StreamPlan, outputs: Sequence[FrameOutput]) -> FrameInspection | Exception:
            try:
                return inspect_plan(checkpoint, plan, outputs)
            except (EngineError, ValueError) as error:
                return error

        self._stream = gpu(duration=estimate_s)(stream)
        self._inspect = gpu(duration=lambda plan, outputs: estimate_s(plan))(inspect)

    def stream(self, plan: StreamPlan, on_damage: OnDamage) -> Generator[FrameOutput]:
        """Stream the video of a plan; see ``stream_plan``. Raises ``EngineError`` if the call is refused."""
        try:
            with closing(self._stream(plan)) as received:
                for item in received:
                    if isinstance(item, Exception):
                        raise item
                    if isinstance(item, str):
                        on_damage(item)
                    else:
                        yield item
        except gr.Error as error:
            raise _translate(error) from error

    def inspect(self, plan: StreamPlan, outputs: Sequence[FrameOutput]) -> FrameInspection:
        """Inspect the last frame of a plan; see ``inspect_plan``. Raises as ``stream``."""
        try:
            found: FrameInspection | Exception = self._inspect(plan, outputs)
        except gr.Error as error:
            raise _translate(error) from error
        if isinstance(found, Exception):
            raise found
        return found


def estimate_s(plan: StreamPlan) -> float:
    """Return the estimated seconds of a call, for which the GPU is reserved."""
    num_frames = plan.clip.num_frames if plan.num_frames is None else plan.num_frames
    return min(START_S + FRAME_S * num_frames, MAX_S)


def _translate(error: gr.Error) -> EngineError:
    """Return a refusal of ZeroGPU, whose message may be HTML, as a sentence of plain text."""
    text = " ".join(re.sub(r"<[^<>]*>", " ", str(error.message)).split())
    return EngineError(f"ZeroGPU: {text or 'the call was refused'}")
