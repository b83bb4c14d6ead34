"""The reviews tab without a browser: progress, agreement, and events to settle."""

import json
from typing import Any

import gradio as gr
import pytest

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.exports.rows import build_tables
from stepscope.app.player.commands import QueuePlace
from stepscope.app.player.views import PlayerView
from stepscope.app.review_store.actions import Action, Event
from stepscope.app.review_store.assignments import read_assignments
from stepscope.app.review_store.events import match_events, name_events, reference_event
from stepscope.app.review_store.store import read_review
from stepscope.app.reviews import assigning, handlers
from stepscope.app.reviews.query import gather_query_videos
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.eval.annotations.corrections import Correction, TurnName, Verdict, name_turns
from stepscope.eval.data.loading import read_samples
from stepscope.eval.metrics.score import analyze_video
from stepscope.eval.runs.folder import RunFolder
from tests.support.reviews.desks import HOSTILE, ReviewedSplit, clicked_by, figures, make_query, words
from tests.support.streams.fakes import count_letters


def test_progress_agreement_and_disagreements_are_those_of_the_split_and_names_are_text(
    batches: BatchContext, reviews: ReviewContext
) -> None:
    other = Event(video_id="elsewhere", kind="generated", role="assistant", time_s=0.0, text="Hi.")
    told: list[tuple[str, Verdict]] = [("ann", "correct"), ("bob", "missed")]
    for who, verdict in told:
        action = Action(kind="verdict", reviewer=who, video_id="elsewhere", event=other, verdict=verdict)
        reviews.store.append(action)
    view = handlers.show(batches, reviews, make_query())
    assert view.status.value == "test: 15 events (reference turns) in 3 videos, 3 to settle."
    assert "4 of 15, 27%" in view.progress
    assert "bob" not in words(view)
    verdicts = "correct 5, missed 2, unclear 1"
    assert view.videos == [
        ["v0", 5, f"{HOSTILE} 4, ann 4", verdicts, 0, 1],
        [HOSTILE, 5, "", "", 0, 0],
        ["v2", 5, "", "", 0, 0],
    ]
    # four events, equal on three: raw 3/4; by chance (3*2 + 1*1 + 0*1) / 16 = 7/16, so kappa (12 - 7) / (16 - 7) = 5/9
    assert figures(view.agreement, "all verdicts").startswith("4 0.750 0.556 ")
    assert figures(view.agreement, "missed") == "4 1.000 1.000 1.000"
    assert figures(view.agreement, "redundant") == "4 1.000 \N{EN DASH} \N{EN DASH}"
    assert [row[:3] for row in view.to_settle] == [
        ["v0", 0.5, "corrections differ"],
        ["v0", 0.5, "no longer fits"],
        ["v0", 2.0, "verdicts differ"],
    ]
    assert view.to_settle[2][5] == f"{HOSTILE}: unclear, ann: correct"
    assert "the source has changed" in view.to_settle[1][5]
    assert view.prefer.choices == [(HOSTILE, HOSTILE), ("ann", "ann")]
    assert "<img" not in view.progress + view.agreement
    assert "&lt;img src=x" in view.progress


def test_a_matched_pair_is_one_event_that_one_verdict_judges(
    batches: BatchContext, reviews: ReviewContext, reviewed: ReviewedSplit
) -> None:
    sample = read_samples(reviewed.split)[0]
    name = name_turns(sample.turns)[0]
    outputs = RunFolder(reviewed.runs / "a").outputs(sample)
    said = Event(video_id="v0", kind="generated", role="assistant", time_s=1.0, text="Let's go.")
    wanted = reference_event("v0", name)
    pairs = match_events(
        name_events("v0", outputs=outputs, references=name_turns(sample.turns)),
        analyze_video(sample, outputs, encode=count_letters).judged,
    )
    assert pairs == {said.key: wanted.key}
    view = handlers.show(batches, reviews, make_query(run="a"))
    assert view.status.value.startswith("test: 15 events (reference turns and texts of a, matched pairs once)")
    assert view.videos[0][:3] == ["v0", 5, f"{HOSTILE} 3, ann 3"]  # of the pair only the reference has a verdict yet
    reviews.store.append(
        Action(kind="verdict", reviewer="ann", video_id="v0", event=said, paired=wanted, verdict="early or late")
    )
    view = handlers.show(batches, reviews, make_query(run="a"))
    assert view.videos[0][:3] == ["v0", 5, f"{HOSTILE} 3, ann 4"]
    assert "early or late 1" in str(view.videos[0][3])
    view = handlers.show(batches, reviews, make_query())  # the references only: the pair is counted with its reference
    assert view.videos[0][:3] == ["v0", 5, f"{HOSTILE} 4, ann 4"]


def test_corrections_are_counted_by_the_turns_that_differ(batches: BatchContext, reviews: ReviewContext) -> None:
    first, second, third, *_ = name_turns(batches.splits["test"].samples[2].turns)
    new = TurnName(role="assistant", time_s=1.0, text="New.")
    corrections = [
        *(Correction(reviewer="ann", kind="time", turn=first, time_s=time_s) for time_s in (1.0, 1.5, 2.0)),
        Correction(reviewer="ann", kind="text", turn=first, text="Begin."),
        Correction(reviewer="ann", kind="time", turn=second, time_s=0.0),
        Correction(reviewer="ann", kind="time", turn=second, time_s=second.time_s),  # moved back
        Correction(reviewer="ann", kind="delete", turn=third),
        Correction(reviewer="ann", kind="add", turn=new),
    ]
    for found in corrections:
        reviews.store.append(Action(kind="correction", reviewer="ann", video_id="v2", correction=found))
    assert handlers.show(batches, reviews, make_query()).videos[2][4:] == [3, 0]  # one changed, one deleted, one added


def test_who_signed_in_is_the_reviewer_whatever_is_typed(batches: BatchContext, reviews: ReviewContext) -> None:
    view = handlers.show(batches, reviews, make_query(typed=HOSTILE, is_blind=True, request=clicked_by(token="secret")))
    assert "only the reviews of ann" in view.status.value
    assert (view.reviewer.value, view.reviewer.interactive) == ("ann", False)
    assert handlers.show(batches, reviews, make_query(typed="bob")).reviewer == gr.skip()


def shown(view: PlayerView) -> tuple[str, str]:
    player = json.loads(view.player)
    return player["video_id"], player["run_name"]


def test_two_reviewers_share_a_run_and_go_through_their_queues(
    context: AppContext, batches: BatchContext, reviews: ReviewContext
) -> None:
    sue, ann = make_query(run="a", typed="sue"), make_query(run="a", typed="ann")
    view = assigning.assign(batches, reviews, sue, ["ann", HOSTILE], 100, None)
    assert view.shared.value == "3 videos of 3 assigned, 3 to several reviewers."
    # the reviewers of v0 were equal on 3 of 4 events, see test_progress
    cells = [4, "75%", "0.556"]
    assert view.workloads == [[HOSTILE, 3, 0, 4, *cells], ["ann", 3, 0, 4, *cells], ["all", 3, 0, 8, *cells]]
    view = assigning.show_queue(batches, reviews, ann)
    assert view.said.value == "ann: 0 of 3 videos done, 3 left."
    assert view.videos == [["v0", "", 4, HOSTILE], [HOSTILE, "", 0, HOSTILE], ["v2", "", 0, HOSTILE]]
    assert shown(assigning.open_next(context, batches, reviews, ann)) == ("v0", "a")
    reviews.store.append(Action(kind="done", reviewer="ann", video_id="v0", run="a"))

    def follow(video_id: str) -> PlayerView:
        place = QueuePlace(video_id=video_id, run="a", reviewer="ann")
        return assigning.open_following(context, batches, reviews, place, clicked_by())

    assert shown(follow("v0")) == (HOSTILE, "a")
    assert shown(follow("v2")) == (HOSTILE, "a")  # it was left out
    for video_id in (HOSTILE, "v2"):
        reviews.store.append(Action(kind="done", reviewer="ann", video_id=video_id, run="a"))
    view = assigning.show_queue(batches, reviews, ann)
    assert (view.said.value, view.following.interactive) == ("ann: 3 of 3 videos done, 0 left.", False)
    assert view.workloads[1][:3] == ["ann", 3, 3]
    with pytest.warns(UserWarning, match="no video is left for ann here: 3 videos assigned"):
        assert follow("v2") == PlayerView(), "nothing changes"


def test_in_blind_mode_a_reviewer_sees_their_own_work_alone(batches: BatchContext, reviews: ReviewContext) -> None:
    assigning.assign(batches, reviews, make_query(typed="sue"), ["ann", HOSTILE], 100, None)
    view = assigning.show_queue(batches, reviews, make_query(typed="ann", is_blind=True))
    assert view.workloads == [["ann", 3, 0, 4, 0, "\N{EN DASH}", "\N{EN DASH}"]]


@pytest.mark.parametrize(
    ("changes", "names", "reason"),
    [
        ({"typed": ""}, ["ann", "ben"], "write your name in Reviewer"),
        ({"run": "../a"}, ["ann", "ben"], "there is no run '../a'"),
        ({}, [], "No reviewer is named: type one name or more, each followed by Enter."),
    ],
)
def test_a_refused_assignment_is_one_sentence_and_stores_nothing(
    batches: BatchContext, reviews: ReviewContext, changes: dict[str, Any], names: list[str] | None, reason: str
) -> None:
    view = assigning.assign(batches, reviews, make_query(**{"typed": "sue", **changes}), names, 20, None)
    assert reason in view.shared.value
    assert read_assignments(reviews.store) == ()


def test_a_settled_event_leaves_the_list_and_its_final_verdict_is_exported(
    batches: BatchContext, reviews: ReviewContext
) -> None:
    query = make_query()
    before = handlers.show(batches, reviews, query).to_settle
    differing = next(
        found.event for found in read_review(reviews.store).events if len({one.verdict for one in found.opinions}) > 1
    )
    reviews.store.append(Action(kind="settle", reviewer="sue", video_id="v0", event=differing, verdict="wrong text"))
    assert [row[2] for row in handlers.show(batches, reviews, query).to_settle] == [
        row[2] for row in before if row[2] != "verdicts differ"
    ]
    rows = build_tables(gather_query_videos(batches, reviews, query, read_review(reviews.store), ())).verdicts
    assert {row.final for row in rows if row.event_key == differing.key} == {"wrong text"}
    assert {row.final for row in rows} == {"correct", "missed", "wrong text"}
