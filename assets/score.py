"""Score a checkpoint on newly generated scenes, free-running through the engine.

Frames with output are matched one to one with reference frames at most one frame away, nearest first. F1 is over
frames; the text score is the fraction of matched frames whose texts equal those of the reference.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from stepscope.assets.demo_videos import SIZE, TEST_VIDEOS, Kind, make_kind
from stepscope.assets.scenes.annotate import annotate
from stepscope.assets.scenes.draw import draw_frame
from stepscope.assets.scenes.scene import FPS, Scene
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import TRANSITIONS, apply_update, initial_state
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import encode
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.stream import Streamer
from stepscope.engine.video.reader import Frame, read_frames

Baseline = Literal["silent", "random"]
SCORE_SEED = 4_000_000
_NEXT = {before: transition for transition, (before, _) in TRANSITIONS.items()}
TOLERANCE_FRAMES = 1


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of one kind of turn over videos."""

    predicted: int = 0
    expected: int = 0
    matched: int = 0
    exact: int = 0
    """Matched pairs with equal texts."""

    def add(self, predicted: Mapping[int, Sequence[str]], expected: Mapping[int, Sequence[str]]) -> None:
        """Add one video; both arguments map frame indices to texts."""
        pairs = match_frames(predicted, expected)
        self.predicted += len(predicted)
        self.expected += len(expected)
        self.matched += len(pairs)
        self.exact += sum(sorted(predicted[p]) == sorted(expected[e]) for p, e in pairs)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall over frames; nan without frames."""
        total = self.predicted + self.expected
        return 2 * self.matched / total if total else float("nan")

    @property
    def exact_rate(self) -> float:
        """Fraction of matched frames with equal texts; nan without matches."""
        return self.exact / self.matched if self.matched else float("nan")


@dataclass(slots=True, kw_only=True)
class Score:
    """Counts over the videos of one kind."""

    num_videos: int = 0
    updates: Tally = field(default_factory=Tally)
    responses: Tally = field(default_factory=Tally)
    """Sentences, without answers to the user."""
    answers: Tally = field(default_factory=Tally)
    right_states: int = 0
    """Frames whose complete state equals the reference."""
    num_frames: int = 0

    def row(self) -> str:
        """Return the scores as one line of the table; see ``HEADER``."""
        return (
            f"{self.num_videos:6} {self.updates.f1:9.3f} {self.updates.exact_rate:11.3f} {self.responses.f1:9.3f} "
            f"{self.responses.exact_rate:11.3f} {self.answers.exact_rate:12.3f} "
            f"{self.right_states / max(1, self.num_frames):11.3f}"
        )


HEADER = "videos update-F1 update-text speak-F1  speak-text  answer-text state-right"


def match_frames(predicted: Iterable[int], expected: Iterable[int]) -> list[tuple[int, int]]:
    """Pair frames at most ``TOLERANCE_FRAMES`` apart, nearest first, each at most once.

    Predicted 3, 6 and expected 4, 6 with tolerance 1 give ``[(6, 6), (3, 4)]``.
    """
    wanted = list(expected)
    near = sorted((abs(p - e), p, e) for p in predicted for e in wanted if abs(p - e) <= TOLERANCE_FRAMES)
    pairs: list[tuple[int, int]] = []
    for _, frame, reference in near:
        if all(frame != p and reference != e for p, e in pairs):
            pairs.append((frame, reference))
    return pairs


def score_kind(checkpoint: Checkpoint, kind: Kind, *, num_videos: int, family: str | None = None) -> Score:
    """Generate, stream and score scenes of one kind, of all trained families or of ``family``."""
    scenes = (make_kind(kind, SCORE_SEED + number, family=family) for number in range(num_videos))
    return _score(checkpoint, ((scene, _drawn_frames(scene)) for scene in scenes))


def score_baseline(name: Baseline, kind: Kind, *, num_videos: int) -> Score:
    """Score a baseline without vision: always silent, or random actions at the rate of the reference."""
    score = Score()
    for number in range(num_videos):
        scene = make_kind(kind, SCORE_SEED + number)
        random = np.random.default_rng([SCORE_SEED + number, 41])
        add_video(score, scene, _act_randomly(scene, random, activity=float(name == "random")))
    return score


def _act_randomly(scene: Scene, random: np.random.Generator, *, activity: float) -> list[FrameOutput]:
    """Return random legal updates and random sentences of the reference, at ``activity`` times its rate."""
    turns = annotate(scene)
    sentences = [turn.text for turn in turns if turn.role == "assistant"]
    speak_prob = activity * len(sentences) / scene.num_frames
    update_prob = activity * len({turn.time_s for turn in turns if turn.role == "update"}) / scene.num_frames
    state, outputs = initial_state(scene.steps), []
    for frame in range(scene.num_frames):
        legal = [f"{step_id}->{_NEXT[now]}" for step_id, now in state.items() if now in _NEXT]
        updates = (str(random.choice(legal)),) if legal and random.random() < update_prob else ()
        for text in updates:
            state = dict(apply_update(state, text).state)
        output = FrameOutput(
            frame_index=frame,
            time_s=frame / FPS,
            speak_prob=speak_prob,
            update_prob=update_prob,
            response=str(random.choice(sentences)) if random.random() < speak_prob else None,
            updates=updates,
            dst_state=state,
            cache_tokens=0,
            refreshed=False,
            latency_ms=0,
        )
        outputs.append(output)
    return outputs


def score_bundled(checkpoint: Checkpoint, folder: Path) -> Score:
    """Stream and score the bundled videos, decoded from their files."""
    scenes = (make_kind(video.kind, video.seed, family=video.family) for video in TEST_VIDEOS)
    frames = (read_frames(folder / f"{video.video_id}.mp4", fps=FPS) for video in TEST_VIDEOS)
    return _score(checkpoint, zip(scenes, frames, strict=True))


def _score(checkpoint: Checkpoint, videos: Iterable[tuple[Scene, Iterable[Frame]]]) -> Score:
    score, streamer = Score(), Streamer(checkpoint, StreamConfig(fps=FPS, lookahead=16))
    for scene, frames in videos:
        turns = tuple(UserTurn(time_s=t.time_s, text=t.text) for t in annotate(scene) if t.role == "user")
        task = Task(goal=scene.goal, steps=scene.steps, user_turns=turns)
        add_video(score, scene, list(streamer.run(encode(checkpoint, frames), task)))
    return score


def _drawn_frames(scene: Scene) -> Iterable[Frame]:
    for index in range(scene.num_frames):
        image = draw_frame(scene, index / FPS, height=SIZE[0], width=SIZE[1])
        yield Frame(index=index, time_s=index / FPS, image=image)


def add_video(score: Score, scene: Scene, outputs: Sequence[FrameOutput]) -> None:
    """Add one streamed scene to a score."""
    references: dict[str, dict[int, list[str]]] = {"update": {}, "user": {}, "assistant": {}}
    for turn in annotate(scene):
        references[turn.role].setdefault(round(turn.time_s * FPS), []).append(turn.text)
    asked = {frame: references["assistant"].pop(frame) for frame in references["user"]}
    said = {o.frame_index: [o.response] for o in outputs if o.response is not None}
    score.num_videos += 1
    score.updates.add({o.frame_index: o.updates for o in outputs if o.updates}, references["update"])
    score.answers.add({f: said.pop(f) for f in asked if f in said}, asked)
    score.responses.add(said, references["assistant"])
    state = initial_state(scene.steps)
    for output in outputs:
        for text in references["update"].get(output.frame_index, ()):
            state = dict(apply_update(state, text).state)
        score.right_states += dict(output.dst_state) == state
        score.num_frames += 1
