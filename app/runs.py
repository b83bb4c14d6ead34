"""One run as the page shows it: the clip, the task, the settings, and the outputs so far."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from app.clips import Clip
from engine.config import StreamConfig
from engine.control import Task
from engine.dialogue import Verdict, apply_update, initial_state
from engine.records import FrameOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run, finished or not."""

    clip: Clip
    """The video."""
    task: Task
    """Goal, steps and user turns as they were when it began."""
    config: StreamConfig
    """Settings as they were when it began."""
    model_digest: str = ""
    """Digest of the checkpoint."""
    outputs: tuple[FrameOutput, ...] = ()
    """One per frame so far."""
    name: str = ""
    """The run folder that it was read from; empty for a run of this page."""
    is_finished: bool = False
    """Whether it came to the end of the video."""

    @property
    def reached_s(self) -> float:
        """Time of the last frame, in seconds."""
        return self.outputs[-1].time_s if self.outputs else 0.0

    @property
    def digest(self) -> str:
        """What the outputs follow from, checkpoint, video, task and settings, as 12 characters.

        How many frames are fed at once is no such setting: the outputs are the same.
        """
        source = [self.model_digest, self.clip.video_id, asdict(self.task), asdict(self.config.one_by_one())]
        return hashlib.sha256(json.dumps(source, default=dict, sort_keys=True).encode()).hexdigest()[:12]


def judge_updates(run: Run) -> dict[int, tuple[Verdict, ...]]:
    """Say of every update whether it was legal, illegal or malformed: verdicts by frame."""
    state: Mapping[str, str] = initial_state(run.task.steps, run.task.initial_state)
    verdicts = {}
    for output in run.outputs:
        judged = list[Verdict]()
        for text in output.updates:
            change = apply_update(state, text, illegal=run.config.illegal_updates)
            state = change.state
            judged.append(change.verdict)
        if judged:
            verdicts[output.frame_index] = tuple(judged)
    return verdicts
