"""A run of 10 s with one failure of every kind, for the player and for reviews."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.app.core.run import Run
from stepscope.app.core.videos import Clip
from stepscope.app.review_store.events import name_events
from stepscope.app.window.payload import pack_run
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import fill_legality, initial_state
from stepscope.engine.records import Step, UserTurn
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.data.samples import Turn
from stepscope.eval.data.writers import write_samples
from stepscope.eval.metrics.matched_video import JudgedVideo
from stepscope.eval.metrics.score import analyze_video
from tests.support.data.records import make_output, make_sample
from tests.support.streams.fakes import count_letters

HOSTILE = "<img src=x onerror=window.hacked=1> {{window.hacked=1}} ${window.hacked=1} </script> مرحبا 🙂 " + "x" * 5000
STEPS = (Step(id="S1", name="attach the wheel"), Step(id="S2", name="put on the roof"))


def make_run(folder: Path, *, text: str = "", seed: int = 0) -> Run:
    """Return a run of 10 s at 2 fps with one failure of every kind; ``text`` is appended in every lane."""
    rng = np.random.default_rng(seed)
    turns = (
        Turn(time_s=1.0, role="update", text="S1->start"),
        Turn(time_s=1.0, role="assistant", text=f"Now the wheel. {text}"),
        Turn(time_s=3.0, role="user", text=f"What is next? {text}"),
        Turn(time_s=4.0, role="update", text="S1->complete"),
        Turn(time_s=4.0, role="assistant", text=f"Now the roof. {text}"),
        Turn(time_s=6.0, role="assistant", text=f"Careful! {text}"),
        Turn(time_s=8.5, role="update", text="S2->start"),
    )
    sample = make_sample(
        video_path=folder / "a.mp4",
        steps=tuple(replace(step, name=f"{step.name} {text}") for step in STEPS),
        turns=turns,
    )
    writes: dict[int, tuple[tuple[str, ...], str | None]] = {
        2: (("S1->start",), f"Now the wheel. {text}"),
        7: (("S1->complete", "S2->begin"), None),
        11: ((), f"Now the roof. {text}"),
        18: ((), f"!?%&/ 12345 {text}"),
    }
    states = {2: {"S1": "in_progress"}, 7: {"S1": "completed"}}
    state, outputs = {"S1": "not_started", "S2": "not_started"}, []
    for index in range(20):
        updates, response = writes.get(index, ((), None))
        state = {**state, **states.get(index, {})}
        outputs.append(
            make_output(
                index,
                speak_prob=float(rng.uniform(0.5, 1) if response else rng.uniform(0, 0.5)),
                update_prob=float(rng.uniform(0.5, 1) if updates else rng.uniform(0, 0.5)),
                response=response,
                updates=updates,
                dst_state=state,
                cache_tokens=100 + 3 * index if index < 15 else 60,
                refreshed=index == 15,
                latency_ms=float(rng.uniform(1, 9)),
            )
        )
    clip = Clip(
        name="a", path=folder / "a.mp4", fps=2.0, num_frames=20, duration_s=10.0, sample=sample, is_bundled=True
    )
    return Run(
        clip=clip,
        task=Task(goal="build", steps=sample.steps, user_turns=(UserTurn(time_s=3.0, text=f"What is next? {text}"),)),
        config=StreamConfig(),
        outputs=fill_legality(outputs, initial_state(STEPS)),
        is_finished=True,
    )


def judge(run: Run) -> JudgedVideo:
    assert run.clip.sample is not None
    return analyze_video(run.clip.sample, run.outputs, encode=count_letters).judged


def write_reviewed(path: Path, run: Run, judged: JudgedVideo) -> None:
    """Write the player payload of a run with its events, and its split in the folder ``reviews``."""
    sample = run.clip.sample
    assert sample is not None
    names = name_turns(sample.turns)
    events = name_events(run.clip.video_id, outputs=run.outputs, references=names, judged=judged)
    path.write_text(pack_run(run, judged, events=events), encoding="utf-8")
    (path.parent / "reviews").mkdir()
    write_samples(path.parent / "reviews" / "split.json", [sample], file_format="manifest")


def keys_of_failures(pack: dict[str, Any]) -> list[str]:
    """Return the key of the event of each failure."""
    states = [event["key"] for event in pack["events"] if event["kind"] == "state"]
    turns = {event["turn"]: event["key"] for event in pack["events"] if event["turn"] is not None}
    references = {event["reference"]: event["key"] for event in pack["events"] if event["reference"] is not None}
    keys = []
    for failure in pack["failures"]:
        if failure["kind"] == "wrong state":
            keys.append(states.pop(0))
        else:
            keys.append(references[failure["reference"]] if failure["turn"] is None else turns[failure["turn"]])
    return keys
