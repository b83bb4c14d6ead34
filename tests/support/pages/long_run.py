"""A synthetic run of any length with a reference, for tests and benchmarks of long videos."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from stepscope.app.core.run import Run
from stepscope.app.core.videos import Clip
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.dialogue import apply_update, fill_legality, initial_state
from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.data.samples import Turn
from tests.support.data.records import make_output, make_sample

FPS, NUM_STEPS = 2.0, 12
WORDS = ("now", "attach", "the", "wheel", "to", "board", "turn", "it", "until", "holds", "pick", "up", "cabin")


def make_long_run(video: Path, *, num_frames: int, num_turns: int, num_steps: int = NUM_STEPS) -> Run:
    """Return a finished synthetic run of ``num_frames`` at ``FPS`` whose reference has ``num_turns`` turns."""
    rng = np.random.default_rng(0)
    steps = tuple(Step(id=f"S{number}", name=f"attach the part {number}") for number in range(1, num_steps + 1))
    frames = np.sort(rng.choice(num_frames, num_turns, replace=False)).tolist()
    said, updates, turns = dict[int, str](), dict[int, tuple[str, ...]](), list[Turn]()
    for number, frame in enumerate(frames):
        text = " ".join(rng.choice(WORDS, 8))
        if number % 3 == 0:
            update = f"S{int(rng.integers(num_steps)) + 1}->{'start' if rng.random() < 0.5 else 'complete'}"
            turns.append(Turn(time_s=frame / FPS, role="update", text=update))
            updates[min(num_frames - 1, frame + int(rng.integers(3)))] = (update,)
        else:
            turns.append(Turn(time_s=frame / FPS, role="assistant", text=text))
            if rng.random() < 0.9:
                said[min(num_frames - 1, frame + int(rng.integers(3)))] = text
    sample = make_sample(
        video_id="long", video_path=video, fps=FPS, num_frames=num_frames, steps=steps, turns=tuple(turns)
    )
    clip = Clip(
        name="long",
        path=video,
        fps=FPS,
        num_frames=num_frames,
        duration_s=num_frames / FPS,
        sample=sample,
        is_bundled=True,
    )
    run = Run(clip=clip, task=Task(goal="build", steps=steps), config=StreamConfig(), is_finished=True)
    return replace(
        run, outputs=fill_legality(tuple(_outputs(num_frames, steps, said, updates, rng)), initial_state(steps))
    )


def _outputs(
    num_frames: int,
    steps: tuple[Step, ...],
    said: dict[int, str],
    updates: dict[int, tuple[str, ...]],
    rng: np.random.Generator,
) -> Iterator[FrameOutput]:
    state = initial_state(steps)
    for index in range(num_frames):
        for text in updates.get(index, ()):
            state = dict(apply_update(state, text).state)
        yield make_output(
            index,
            fps=FPS,
            speak_prob=float(rng.beta(8, 1) if index in said else rng.beta(1, 8)),
            update_prob=float(rng.beta(8, 1) if index in updates else rng.beta(1, 8)),
            response=said.get(index),
            updates=updates.get(index, ()),
            dst_state=state,
            cache_tokens=200 + 3 * index % 3000,
            refreshed=index > 0 and 3 * index % 3000 == 0,
            latency_ms=float(rng.gamma(2, 4)),
        )


def with_signals(run: Run, number: int) -> Run:
    """Return the run with ``number`` named signals of all policies, some without a threshold, and assistant states."""
    policies = ("above", "running-sum", "drop", "above")
    specs = tuple(
        SignalSpec(
            name=f"s{n}",
            label=f"signal {n}",
            threshold=(0.5, 2.0, 0.3, None)[n % 4],
            decides=("speak", "speak", "update", None)[n % 4],
            policy=policies[n % 4],
        )
        for n in range(number)
    )
    rng = np.random.default_rng(1)
    values = rng.beta(1, 4, (len(run.outputs), number)).tolist()
    words = rng.choice(("silent", "standby", "respond", "delegate"), len(run.outputs) // 5 + 1).tolist()
    outputs = tuple(
        replace(
            output,
            signals={spec.name: value for spec, value in zip(specs, row, strict=True)},
            state=words[output.frame_index // 5],
        )
        for output, row in zip(run.outputs, values, strict=True)
    )
    return replace(run, outputs=outputs, settings={**run.settings, "signals": [asdict(spec) for spec in specs]})
