"""A video that was run and reviewed by two, with hostile texts where texts can be."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from stepscope.app.exports.rows import ReviewedVideo
from stepscope.app.review_store.actions import Action, Event, PageState
from stepscope.app.review_store.review import Opinion, Review, fold_actions
from stepscope.engine.records import FrameOutput
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.samples import Sample, Turn
from tests.support.data.records import make_output
from tests.support.data.strategies import BOAT

EVIL = "=cmd|'/c calc'!A0 <script>alert(1)</script>\n\n--> ]]> \u202eevil\u202c \x07\x00 \ud83d &lt;"
SAMPLE = replace(
    BOAT,
    turns=(
        replace(BOAT.turns[0], cause="drop"),
        Turn(time_s=1.0, role="update", text="S1->start"),
        Turn(time_s=3.0, role="update", text="S1->complete"),
        Turn(time_s=3.0, role="update", text="S2->start"),
        Turn(time_s=4.5, role="user", text=EVIL),
    ),
)
NAMES = name_turns(SAMPLE.turns)
MOMENT = PageState(run_digest="r1", model_digest="m1", speak_threshold=0.5, update_threshold=0.25, playhead_s=1.5)
REVIEWERS = ("=cmd()", "<script>")


def output(index: int) -> FrameOutput:
    return make_output(
        index,
        speak_prob=0.75,
        update_prob=0.25,
        response=EVIL if index == 3 else None,
        updates=("S1->start",) if index == 2 else (),
        dst_state={"S1": "in_progress" if index >= 2 else "not_started", "S2": "not_started"},
    )


def reviewed_video(*corrections: Correction, sample: Sample = SAMPLE) -> ReviewedVideo:
    event = Event(video_id="boat", kind="generated", role="assistant", time_s=1.5, text=EVIL)
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    actions = [
        Action(kind="verdict", reviewer=by, video_id="boat", event=event, verdict="unclear", moment=MOMENT, at=at)
        for by in REVIEWERS
    ]
    actions.append(Action(kind="note", reviewer="=cmd()", video_id="boat", event=event, note=EVIL, at=at))
    actions.append(Action(kind="tags", reviewer="=cmd()", video_id="boat", event=event, tags=("+1", EVIL), at=at))
    actions += [Action(kind="correction", reviewer=c.reviewer, video_id="boat", correction=c) for c in corrections]
    return ReviewedVideo(
        video_id="boat",
        video_path=Path("/videos/a b.mp4"),
        duration_s=6.0,
        steps=sample.steps,
        outputs=tuple(output(index) for index in range(12)),
        sample=sample,
        review=fold_actions(actions),
    )


def opinion(review: Review, event: Event, reviewer: str) -> Opinion:
    """Return what a reviewer says of an event; an empty opinion where there is none."""
    said = (said for found in review.events if found.event.key == event.key for said in found.opinions)
    return next((one for one in said if one.reviewer == reviewer), Opinion(reviewer=reviewer))


UNRUN = replace(SAMPLE, video_id="../car =1", turns=SAMPLE.turns[:1])
SAMPLES = (SAMPLE, UNRUN)
