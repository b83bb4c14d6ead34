"""A controller driven by a scripted runner, and strategies of its turns."""

from typing import Any, get_args

from hypothesis import strategies as st

from stepscope.engine.config import ContextStrategy, StreamConfig
from stepscope.engine.control.controller import StreamController
from stepscope.engine.control.intervention import Intervention
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.records import FrameOutput
from tests.support.streams.fakes import STEPS, CharacterCodec, ScriptedRunner

Turns = dict[int, tuple[tuple[str, ...], str | None]]
SMALL: dict[str, Any] = {"max_new_tokens": 20, "max_update_tokens": 14}
STRATEGIES = st.sampled_from([name for name in get_args(ContextStrategy) if name != "none"])
FORGETFUL: dict[str, Any] = {"reserved_seq_len": 110, "kept_tokens": 17, "max_summary_tokens": 9}


def stream(
    turns: Turns, *, num_frames: int, task: Task | None = None, tokens_per_frame: int = 1, **settings: Any
) -> tuple[list[FrameOutput], ScriptedRunner]:
    config = StreamConfig(**{**SMALL, **settings})
    runner = ScriptedRunner(turns=turns, num_frames=num_frames, tokens_per_frame=tokens_per_frame)
    controller = StreamController(
        task or Task(goal="g", steps=STEPS), config=config, codec=CharacterCodec(), tokens_per_frame=tokens_per_frame
    )
    return runner.drive(controller.run()), runner


_STEP_UPDATES = st.lists(st.sampled_from(["S1->start", "S1->complete", "S2->start", "S2->complete", "x"]), max_size=3)
_RESPONSES = st.none() | st.text("abc ", max_size=24) | st.sampled_from(["<think>a</think>b", "<think>never ends"])
ANY_TURNS = st.dictionaries(st.integers(0, 59), st.tuples(_STEP_UPDATES.map(tuple), _RESPONSES), max_size=20)


def run_again(
    runner: ScriptedRunner,
    prior_run: PriorRun,
    *,
    speak: float,
    update: float,
    task: Task,
    intervention: Intervention | None = None,
    **settings: Any,
) -> tuple[list[FrameOutput], StreamController]:
    """Drive a run with other thresholds through the runner of an earlier one."""
    config = StreamConfig(**{**SMALL, **settings}, speak_threshold=speak, update_threshold=update)
    controller = StreamController(
        task,
        config=config,
        codec=CharacterCodec(),
        tokens_per_frame=1,
        prior_run=prior_run,
        intervention=intervention,
        is_traced=True,
    )
    return runner.drive(controller.run()), controller
