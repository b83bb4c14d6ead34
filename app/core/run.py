"""The run record of the page: the clip, the task, the settings and the outputs so far; and the files exported of it."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from stepscope.app.core.videos import Clip
from stepscope.app.formatting import format_clock
from stepscope.engine.config import StreamConfig, Thresholds
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import format_user_turn, parse_steps, parse_user_turn
from stepscope.engine.evidence.records import Evidence
from stepscope.engine.io.files import replace_surrogates, strip_text, write_json
from stepscope.engine.model.files.bundled import BUNDLED_DIGESTS
from stepscope.engine.records import FrameOutput, write_outputs
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.matching.grading import COSINE_JUDGE, NamedJudge
from stepscope.eval.matching.turns import DEFAULT_ENCODER, Encode
from stepscope.eval.metrics.matched_video import LiveCounts
from stepscope.eval.metrics.score import VideoAnalysis, analyze_video
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import has_states, read_signal_specs
from stepscope.eval.runs.provenance import WHAT_IF, Provenance, VideoTraces, describe_questions, write_traces
from stepscope.eval.runs.roots import DiagnosedVideo, RunDiagnosis

MAX_TASK_CHARS: Final = 200_000
"""Maximum length of goal, steps and user turns together: every turn takes time to split into tokens."""
PAGE_SCORING: Final = ScoreSettings(text_encoder=DEFAULT_ENCODER)
BUNDLED_MODEL_WARNING: Final = (
    "The bundled model was trained on drawings only. On other videos its output is meaningless."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskText:
    """The text of the task boxes."""

    goal: str
    steps: str
    """One per line."""
    user_turns: str
    """One per line."""


def check_task_text(*texts: str) -> None:
    """Raise ``ValueError`` if the texts of the task boxes have more than ``MAX_TASK_CHARS`` together."""
    if (number := sum(map(len, texts))) > MAX_TASK_CHARS:
        raise ValueError(f"goal, steps and user turns have at most {MAX_TASK_CHARS} characters; got {number}")


def check_has_task(name: str, task: Task, *, needs_steps: bool, cure: str) -> None:
    """Raise ``ValueError`` with the cure if the boxes of the user's own video lack its goal or steps."""
    missing = [] if task.goal else ["a goal"]
    missing += ["its steps, one per line"] if needs_steps and not task.steps else []
    if missing:
        raise ValueError(f"{name} needs {' and '.join(missing)}; enter them, {cure}")


def write_task(task: Task) -> TaskText:
    """Return a task as text that parses to the same task, but for ends of lines in its texts, which become blanks."""
    return TaskText(
        goal=_join_lines(task.goal),
        steps="\n".join(_join_lines(f"{step.id}: {step.name}") for step in task.steps),
        user_turns="\n".join(_join_lines(format_user_turn(turn)) for turn in task.user_turns),
    )


def _join_lines(text: str) -> str:
    return " ".join(text.splitlines())


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a run folder holds about the failures of one video."""

    digest: str
    """That of the run; see ``Run.digest``."""
    diagnosis: RunDiagnosis | None = None
    video: DiagnosedVideo | None = None
    """None if it has no diagnosis."""
    problem: str = ""
    """Why it has none, if that is known."""
    evidence: tuple[Evidence, ...] = ()
    shown: frozenset[str] | None = None
    """Keys of the failures whose reasons are sent to the browser; None for all. A blind reviewer has judged them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """The run that a branch differs from, and how; see ``app.player.branches``."""

    root: "Run"
    changes: str
    """Text of a file of ``stepscope run --branch``."""
    name: str = ""
    """The changes in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run, finished or not."""

    clip: Clip
    task: Task
    config: StreamConfig
    typed_task: TaskText | None = None
    """The task as typed; None if it was not typed on the page."""
    model_digest: str = ""
    outputs: tuple[FrameOutput, ...] = ()
    """One per processed frame."""
    name: str = ""
    """Name of the run folder; empty for a run of this page."""
    kept_as: str = ""
    """Name of the saved run that has these outputs, of a run without a name."""
    letter: str = ""
    """``A`` or ``B`` in a comparison of two runs; else empty."""
    scoring: ScoreSettings = PAGE_SCORING
    judge: NamedJudge | None = None
    """Judge of replies inside reply spans; None for the cosine bands."""
    live: LiveCounts | None = None
    """Counts of the teacher-forced pass; None without one."""
    is_finished: bool = False
    """Whether it reached the end of the video."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Checkpoint, device, versions and text encoder, with the keys of ``run.json``."""
    kept: Kept | None = None
    """Of a run that was read from a folder; see ``is_kept``."""
    branch: Branch | None = None
    """Of a *what if*; None for a plain run."""
    has_other_steps: bool = False
    """Whether the video has a reference, which its clip is without, since the steps differ."""

    @property
    def is_kept(self) -> bool:
        """Whether ``kept`` is about these settings: it is not after a run with others that follows from this one."""
        return self.kept is not None and self.kept.digest == self.digest

    @property
    def reference(self) -> Sample | None:
        """The sample of the video if its turns are a reference to score against; else None."""
        sample = self.clip.sample
        return sample if sample is not None and sample.has_reference else None

    @property
    def has_states(self) -> bool:
        """Whether the states of the steps in the outputs are the system's own."""
        return has_states(self.settings) and self.config.policy.has_updates

    @property
    def scoring_settings(self) -> dict[str, Any]:
        """The settings and the judge of its scores, named as in ``metrics.json``."""
        writer = {"reference_writer": self.clip.reference_writer} if self.clip.reference_writer else {}
        return {**asdict(self.scoring), "judge": self.judge.name if self.judge else COSINE_JUDGE, **writer}

    @property
    def is_untrained(self) -> bool:
        """Whether its model was never trained for the signals."""
        return self.settings.get("is_untrained") is True

    @property
    def warning(self) -> str:
        """The warning that the bundled model made this run, of a video that it cannot know; else empty.

        A live session has its own mark of a bundled video, ``is_drawing``: its recording is another file.
        """
        if self.model_digest not in BUNDLED_DIGESTS:
            return ""
        is_known = self.settings.get("is_drawing")
        return "" if (self.clip.is_drawing if is_known is None else is_known) else BUNDLED_MODEL_WARNING

    @property
    def thresholds(self) -> Thresholds:
        """The decision thresholds."""
        return Thresholds(speak=self.config.speak_threshold, update=self.config.update_threshold)

    @property
    def known_thresholds(self) -> dict[str, float]:
        """The thresholds by name, without those that a recorded or imported run does not name."""
        thresholds = {name: self.provenance.threshold(name) for name in ("speak", "update")}
        return {name: value for name, value in thresholds.items() if value is not None}

    @property
    def reached_s(self) -> float:
        """Time of the last frame, in seconds."""
        return self.outputs[-1].time_s if self.outputs else 0.0

    @property
    def provenance(self) -> Provenance:
        """Provenance of the outputs and scores; a setting that the ``run.json`` of a saved run lacks is unknown."""
        config = {} if "imported" in self.settings else asdict(self.config)
        config = {name: value for name, value in config.items() if name in self.settings.get("config", config)}
        settings = {**self.settings, "model_digest": self.model_digest, "config": config}
        if self.task.questions:
            settings["asked_in_run"] = describe_questions(self.task.questions)
        if self.branch is not None:
            settings["asked_in_run"] = f"{WHAT_IF} {self.branch.name}"
        return Provenance.of_settings(self.name or self.digest, settings)

    def before_first_frame(self, *, task: Task, settings: Mapping[str, Any]) -> "Run":
        """Return this run with another task, to be streamed by the page, which has these settings."""
        unknown: dict[str, Any] = {"outputs": (), "name": "", "kept_as": "", "letter": "", "live": None}
        return replace(self, task=task, settings=settings, is_finished=False, **unknown)

    def with_letter_beside(self, other: "Run | None") -> "Run":
        """Return the run with the letter, A or B, that the run below it lacks; without a letter if it is alone."""
        letter = "" if other is None else {"A": "B", "B": "A"}.get(other.letter, "")
        return self if letter == self.letter else replace(self, letter=letter)

    def describe_lower_run(self, other: "Run | None") -> str:
        """Return the end of a sentence about the run shown below this one, with both letters; empty without one."""
        if other is None:
            return ""
        names = sorted(
            (run.letter, run.name or (run.branch and run.branch.name) or "this run") for run in (self, other)
        )
        letters = ", ".join(f"{letter} is {name}" for letter, name in names)
        return f"; the lanes of {f'the run {other.name}' if other.name else other.letter} are below. {letters}"

    @property
    def digest(self) -> str:
        """12 hex digits of everything that determines the outputs: checkpoint, video, task and settings.

        The number of frames per forward pass is excluded, because it does not change the outputs. So are
        settings with their defaults: a link stays valid when a setting is added.
        """
        defaults = asdict(type(self.config)())
        changed = asdict(self.config.frame_by_frame()).items()
        settings = {name: value for name, value in changed if value != defaults[name]}
        source = [self.model_digest, self.clip.video_id, asdict(self.task), settings]
        if self.branch is not None:
            source = [self.branch.root.digest, self.branch.changes]
        return hashlib.sha256(json.dumps(source, default=dict, sort_keys=True).encode()).hexdigest()[:12]


def can_score(sample: Sample, task: Task) -> bool:
    """Whether a reference can score a run of a task: it has the same steps, or none, which leaves states unscored."""
    return sample.steps in ((), task.steps)


def analyze_run(run: Run, encode: Encode) -> VideoAnalysis | None:
    """Return the analysis of a run under its own settings; None without a reference or before the first frame."""
    if run.reference is None or not run.outputs:
        return None
    return analyze_video(
        run.reference,
        run.outputs,
        encode=encode,
        dataset=run.scoring.dataset,
        zero_cost=run.scoring.zero_cost,
        live=run.live,
        has_states=run.has_states and run.reference.steps == run.task.steps,
        grade=None if run.judge is None else run.judge.grade,
        specs=read_signal_specs(run.settings),
    )


def read_task(clip: Clip, *, goal: str | None, steps: str | None, user_turns: str | None) -> Task:
    """Return the task in the boxes, or that of the clip if they are unchanged; None counts as empty.

    Raises ``ValueError`` with the invalid line.
    """
    goal, steps, user_turns = (replace_surrogates(text or "") for text in (goal, steps, user_turns))
    check_task_text(goal, steps, user_turns)
    if clip.sample is not None:
        own = build_task(clip.sample)
        if TaskText(goal=goal, steps=steps, user_turns=user_turns) == write_task(own):
            return own
    parsed = parse_steps(steps)
    turns = tuple(parse_user_turn(line) for line in user_turns.splitlines() if strip_text(line))
    for turn in turns:
        if turn.time_s >= clip.duration_s:
            at, end_s = format_clock(turn.time_s), format_clock(clip.duration_s)
            raise ValueError(f"the user turn at {at} comes after the end of the video ({end_s}): {turn.text!r}")
    known = {step.id for step in parsed}
    states = clip.sample.initial_state if clip.sample else {}
    return Task(
        goal=strip_text(goal),
        steps=parsed,
        user_turns=turns,
        initial_state={step_id: state for step_id, state in states.items() if step_id in known},
    )


RUN_FILES: Final = ("traces.csv", "outputs.jsonl", "provenance.json")
MAX_NAME = 100


def file_name(*parts: str) -> str:
    """Return a safe file name: the parts joined with hyphens, the last one unchanged."""
    *names, last = parts
    stem = re.sub(r"[^\w.-]+", "_", "-".join(filter(None, names)))[:MAX_NAME].strip("._-")
    return f"{stem or 'run'}-{last}"


def write_run_file(folder: Path, run: Run, content: str) -> Path:
    """Write one of ``RUN_FILES``, named after its video and run, into a folder; return its path."""
    path = folder / file_name(run.clip.name, run.name or run.digest, content)
    write_content(path, run, content)
    return path


def write_content(path: Path, run: Run, content: str) -> None:
    """Write one of ``RUN_FILES`` of a run to a path. Raises ``ValueError`` if ``content`` is unknown."""
    if content == "traces.csv":
        video = VideoTraces(
            video_id=run.clip.video_id, outputs=run.outputs, run=run.name or run.digest, has_states=run.has_states
        )
        write_traces(path, [video], signals=read_signal_specs(run.settings))
    elif content == "outputs.jsonl":
        write_outputs(path, run.outputs)
    elif content == "provenance.json":
        branch = {} if run.branch is None else {"root": run.branch.root.digest, "changes": run.branch.changes}
        origin = {"video_id": run.clip.video_id, **asdict(run.provenance), "digest": run.digest, **branch}
        write_json(path, {**origin, "task": asdict(run.task)})
    else:
        raise ValueError(f"there is no export {content!r}; choose one of {', '.join(RUN_FILES)}")
