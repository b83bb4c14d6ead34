"""A small split with a run, reviewed by two who do not agree, for the reviews tab."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stepscope.app.controls.widgets import Updates
from stepscope.app.review_store.actions import Action
from stepscope.app.review_store.events import reference_event
from stepscope.app.review_store.store import open_store
from stepscope.app.reviews.query import ReviewQuery
from stepscope.engine.records import FrameOutput
from stepscope.eval.annotations.corrections import Correction, Verdict, name_turns
from stepscope.eval.data.loading import read_samples
from stepscope.eval.runs.folder import RunFolder, VideoRecord
from tests.support.data.batches import copies
from tests.support.data.records import make_output
from tests.support.streams.fakes import anybody

HOSTILE = "<img src=x onerror=window.hacked=1> {{1+1}} ${1+1}"
VERDICTS_BY_REVIEWER: dict[str, Sequence[Verdict]] = {
    "ann": ("correct", "correct", "missed", "correct"),
    HOSTILE: ("correct", "correct", "missed", "unclear"),
}
"""Verdicts on the first turns of ``v0``; they differ on ``S2->start`` at 2 s."""


@dataclass(frozen=True, kw_only=True)
class ReviewedSplit:
    """Where it lies."""

    split: Path
    """The manifest ``test.json``; its second video has a hostile name."""
    runs: Path
    """Holds the run ``a`` and the store."""
    store: Path
    """The store of reviews."""


def write_reviewed(demo_manifest: Path, folder: Path) -> ReviewedSplit:
    """Write three videos of 6 s, a run of them, and a store with verdicts and corrections on the first."""
    videos = copies(demo_manifest, folder, 3)
    videos = [{**video, "fps": 2.0, "num_frames": 12} for video in videos]  # turns at the starts of frames
    videos[1]["video_id"] = HOSTILE
    split = folder / "test.json"
    split.write_text(json.dumps({"videos": videos}), encoding="utf-8")
    runs = folder / "runs"
    run = RunFolder(runs / "a")
    for sample in read_samples(split):
        states = dict.fromkeys((step.id for step in sample.steps), "not_started")
        outputs = [output(index, index / sample.fps, states) for index in range(sample.num_frames)]
        run.save_video(VideoRecord(video_id=sample.video_id, source="s", num_frames=sample.num_frames), outputs)
    run.write_settings({"split": str(split.resolve()), "model_digest": "m"})
    store = runs / "reviews.sqlite"
    fill(split, store)
    return ReviewedSplit(split=split, runs=runs, store=store)


def output(index: int, time_s: float, states: dict[str, str]) -> FrameOutput:
    return make_output(
        index,
        time_s=time_s,
        speak_prob=0.75,
        update_prob=0.25,
        response="Let's go." if index == 2 else None,
        dst_state=states,
    )


def fill(split: Path, where: Path) -> None:
    """Keep the verdicts of ``VERDICTS_BY_REVIEWER``, corrections of one turn that differ, and one that does not fit."""
    sample = read_samples(split)[0]
    names = name_turns(sample.turns)
    corrections = [
        Correction(reviewer=who, kind="text", turn=names[0], text=f"Begin. {who}") for who in ("ann", HOSTILE)
    ]
    gone = names[0].__class__(role="assistant", time_s=0.5, text="Something older.")
    corrections.append(Correction(reviewer="ann", kind="delete", turn=gone))
    with open_store(where) as store:
        for who, verdicts in VERDICTS_BY_REVIEWER.items():
            for name, verdict in zip(names, verdicts, strict=False):
                event = reference_event("v0", name)
                store.append(Action(kind="verdict", reviewer=who, video_id="v0", event=event, verdict=verdict))
        for found in corrections:
            store.append(Action(kind="correction", reviewer=found.reviewer, video_id="v0", correction=found))


def clicked_by(**who: Any) -> Any:
    """Return a request as Gradio hands it to events, of whom ``tests.support.streams.fakes.anybody`` says."""
    return SimpleNamespace(request=anybody(**who))


def make_query(**changes: Any) -> ReviewQuery:
    query = {"split": "test", "run": None, "typed": "", "is_blind": False, "request": clicked_by()}
    return ReviewQuery(**{**query, **changes})


def clicked(*cells: Any) -> Any:
    return SimpleNamespace(row_value=list(cells))


def words(view: Updates) -> str:
    """Return all that a view shows."""
    rest = (view.progress, view.videos, view.agreement, view.to_settle)
    return json.dumps([view.status.value, getattr(view.prefer, "choices", None), *rest])


def figures(markup: str, verdict: str) -> str:
    """Return the row of a verdict in the table of the agreement, its cells with a blank between them."""
    row = markup.split(f"<td>{verdict}</td>")[1].split("</tr>")[0]
    return row.replace("</td><td>", " ").replace("<td>", "").replace("</td>", "")
