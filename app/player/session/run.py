"""One run as the page shows it: the clip, the task, the settings, and the outputs so far."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from app.videos import Clip
from engine.config import StreamConfig
from engine.control.controller import Task
from engine.dialogue import UpdateLegality, apply_update, format_user_turn, initial_state
from engine.records import FrameOutput
from engine.replay import Thresholds
from eval.matching.sentence_encoders import DEFAULT_ENCODER
from eval.matching.turns import Encode
from eval.metrics.score import ScoredVideo, score_video
from eval.metrics.videollm_online import LiveCounts
from eval.reports.scoring import ScoreSettings
from eval.runs.provenance import Provenance

PAGE_SCORING: Final = ScoreSettings(text_encoder=DEFAULT_ENCODER)
"""How runs are scored that begin on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskText:
    """A task as it is written in the boxes of the page."""

    goal: str
    steps: str
    """One a line."""
    user_turns: str
    """One a line."""


def write_task(task: Task) -> TaskText:
    """Write a task so that reading it gives the same one."""
    return TaskText(
        goal=task.goal,
        steps="\n".join(f"{step.id}: {step.name}" for step in task.steps),
        user_turns="\n".join(map(format_user_turn, task.user_turns)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run, finished or not."""

    clip: Clip
    """The video."""
    task: Task
    """Goal, steps and user turns as they were when it began."""
    config: StreamConfig
    """Settings as they were when it began."""
    written: TaskText | None = None
    """The task as it was typed; None for one that was not."""
    model_digest: str = ""
    """Digest of the checkpoint."""
    outputs: tuple[FrameOutput, ...] = ()
    """One per frame so far."""
    name: str = ""
    """The run folder that it was read from; empty for a run of this page."""
    scoring: ScoreSettings = PAGE_SCORING
    """How it is judged."""
    live: LiveCounts | None = None
    """Counts of the teacher-forced pass, if there was one."""
    is_finished: bool = False
    """Whether it came to the end of the video."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Checkpoint, device, versions and text encoder, named as in ``run.json``."""

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds that it was made with."""
        return Thresholds(speak=self.config.speak_threshold, update=self.config.update_threshold)

    @property
    def reached_s(self) -> float:
        """Time of the last frame, in seconds."""
        return self.outputs[-1].time_s if self.outputs else 0.0

    @property
    def provenance(self) -> Provenance:
        """Where the outputs and scores come from."""
        settings = {**self.settings, "model_digest": self.model_digest, "config": asdict(self.config)}
        return Provenance.of_settings(self.name or self.digest, settings)

    @property
    def digest(self) -> str:
        """What the outputs follow from, checkpoint, video, task and settings, as 12 characters.

        How many frames are fed at once is no such setting: the outputs are the same.
        """
        source = [self.model_digest, self.clip.video_id, asdict(self.task), asdict(self.config.frame_by_frame())]
        return hashlib.sha256(json.dumps(source, default=dict, sort_keys=True).encode()).hexdigest()[:12]


def score_outputs(run: Run, encode: Encode) -> ScoredVideo | None:
    """Judge and count the run by its own settings; None without a reference, or before its first frame."""
    if run.clip.sample is None or not run.outputs:
        return None
    return score_video(
        run.clip.sample,
        run.outputs,
        encode=encode,
        dataset=run.scoring.dataset,
        zero_cost=run.scoring.zero_cost,
        illegal=run.config.illegal_updates,
        live=run.live,
        has_states="imported" not in run.settings,
    )


class UpdateJudge:
    """Judges the updates of a run output by output; it keeps the state in between."""

    def __init__(self, run: Run) -> None:
        """Begin at the initial state of the run's task."""
        self._state: Mapping[str, str] = initial_state(run.task.steps, run.task.initial_state)
        self._illegal = run.config.illegal_updates

    def judge(self, output: FrameOutput) -> tuple[UpdateLegality, ...]:
        """Return whether each update of the next output is legal, illegal or malformed."""
        verdicts = []
        for text in output.updates:
            change = apply_update(self._state, text, illegal=self._illegal)
            self._state = change.state
            verdicts.append(change.legality)
        return tuple(verdicts)


def judge_updates(run: Run) -> dict[int, tuple[UpdateLegality, ...]]:
    """Say of every update whether it was legal, illegal or malformed: verdicts by frame."""
    judge = UpdateJudge(run)
    return {output.frame_index: judge.judge(output) for output in run.outputs if output.updates}
