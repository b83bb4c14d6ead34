"""The queue of a reviewer and the table of a supervisor, without a browser."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from stepscope.app.context import AppContext, ReviewContext
from stepscope.app.controls.widgets import list_components
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.slices import slices_path
from stepscope.app.exports.rows import build_tables
from stepscope.app.reviews.actions import Action
from stepscope.app.reviews.assignments import read_assignments
from stepscope.app.reviews.store import read_review
from stepscope.app.tabs.reviews import assigning, handlers
from stepscope.app.tabs.reviews.query import UNSPLIT, gather_query_videos
from stepscope.app.web.views import PlayerView
from tests.support.reviews.desks import HOSTILE, clicked_by, make_query


def shown(view: PlayerView) -> tuple[str, str]:
    player = json.loads(view.run.player)
    return player["video_id"], player["run_name"]


def test_two_reviewers_share_a_run_and_go_through_their_queues(
    context: AppContext, batches: BatchContext, reviews: ReviewContext
) -> None:
    sue, ann = make_query(run="a", typed="sue"), make_query(run="a", typed="ann")
    empty = assigning.show_queue(batches, reviews, make_query(run="a"))
    assert "listed here, with what is done: write your name in Reviewer." in empty.said.value
    assert "0 videos of 3 assigned, 0 to several reviewers. Type the names" in empty.shared.value
    view = assigning.assign(batches, reviews, sue, ["ann", HOSTILE], 100, None)
    assert view.shared.value == "3 videos of 3 assigned, 3 to several reviewers."
    nothing = "is assigned to sue here. Choose another split, or assign some under Assign."
    assert view.said.value == f"No video {nothing}"
    elsewhere = assigning.show_queue(batches, reviews, replace(ann, run=None))
    assert elsewhere.said.value == "No video is assigned to ann here. There are some in the run a: choose it as Run."
    # the reviewers of v0 were equal on 3 of 4 events, see test_progress
    cells = [4, "75%", "0.56"]
    assert view.workloads == [[HOSTILE, 3, 0, 4, *cells], ["ann", 3, 0, 4, *cells], ["all", 3, 0, 8, *cells]]
    view = assigning.show_queue(batches, reviews, ann)
    assert view.said.value == "ann: 0 of 3 videos done, 3 left."
    assert view.videos == [["v0", "", 4, HOSTILE], [HOSTILE, "", 0, HOSTILE], ["v2", "", 0, HOSTILE]]
    assert {"ann", "sue"} & {value for _, value in view.names.choices} == {"ann"}
    assert shown(assigning.open_next(context, batches, reviews, None, ann)) == ("v0", "a")
    reviews.store.append(Action(kind="done", reviewer="ann", video_id="v0", run="a"))

    def follow(video_id: str, reviewer: str = "ann") -> PlayerView:
        event: Any = SimpleNamespace(video_id=video_id, run="a", reviewer=reviewer)
        return assigning.open_following(context, batches, reviews, None, event, clicked_by())

    assert shown(follow("v0")) == (HOSTILE, "a")
    assert shown(follow("v2")) == (HOSTILE, "a")  # it was left out
    for video_id in (HOSTILE, "v2"):
        reviews.store.append(Action(kind="done", reviewer="ann", video_id=video_id, run="a"))
    view = assigning.show_queue(batches, reviews, ann)
    assert (view.said.value, view.following.interactive) == ("ann: 3 of 3 videos done, 0 left.", False)
    assert view.workloads[1][:3] == ["ann", 3, 3]
    with pytest.warns(UserWarning, match="no video is left for ann here: 3 videos assigned"):
        assert all(value == gr.skip() for value in list_components(follow("v2")))
    with pytest.warns(UserWarning, match="the video is in no split"):
        follow("elsewhere")
    with pytest.warns(UserWarning, match="name is 1 to 80"):
        follow("v0", "")


def test_a_slice_of_the_references_alone_is_assigned(
    context: AppContext, batches: BatchContext, reviews: ReviewContext
) -> None:
    path = slices_path(batches.runs, reviews.splits["test"].path)
    path.parent.mkdir()
    path.write_text(json.dumps({"slices": {"late": ["v2"]}}), encoding="utf-8")
    ann = make_query(typed="ann")
    view = assigning.assign(batches, reviews, ann, ["ann"], 0, "late")
    assert [value for _, value in view.slices.choices] == [assigning.ALL_VIDEOS, "late"]
    assert view.videos == [["v2", "", 0, ""]]
    assert shown(assigning.open_next(context, batches, reviews, None, ann)) == ("v2", "")
    assert assigning.show_queue(batches, reviews, make_query(run="a", typed="ann")).videos == []


def test_in_blind_mode_a_reviewer_sees_their_own_work_alone(batches: BatchContext, reviews: ReviewContext) -> None:
    assigning.assign(batches, reviews, make_query(typed="sue"), ["ann", HOSTILE], 100, None)
    view = assigning.show_queue(batches, reviews, make_query(typed="ann", is_blind=True))
    assert view.workloads == [["ann", 3, 0, 4, 0, "\N{EN DASH}", "\N{EN DASH}"]]


@pytest.mark.parametrize(
    ("changes", "names", "reason"),
    [
        ({"typed": ""}, ["ann", "ben"], "write your name in Reviewer"),
        ({"split": UNSPLIT}, ["ann", "ben"], "uploads are not assigned"),
        ({"run": "../a"}, ["ann", "ben"], "there is no run '../a'"),
        ({}, ["ann"], "an overlap needs two reviewers"),
        ({}, ["ann", "b\0"], "1 to 80 printable characters"),
        ({}, None, "name 1 to 100 reviewers"),
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
    reviews.store.append(Action(kind="settle", reviewer="sue", video_id="v0", event=differing, verdict="wrong content"))
    assert [row[2] for row in handlers.show(batches, reviews, query).to_settle] == [
        row[2] for row in before if row[2] != "verdicts differ"
    ]
    rows = build_tables(gather_query_videos(batches, reviews, query, read_review(reviews.store), ())).verdicts
    assert {row.final for row in rows if row.event_key == differing.key} == {"wrong content"}
    assert {row.final for row in rows} == {"correct", "missed", "wrong content"}
