"""The reviews tab without a browser: progress, agreement, and events to settle."""

from dataclasses import replace

import gradio as gr

from stepscope.app.context import ReviewContext
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.reviews.actions import Action, Event
from stepscope.app.reviews.events import match_events, name_events, reference_event
from stepscope.app.tabs.reviews import handlers
from stepscope.eval.annotations.corrections import Correction, TurnName, Verdict, name_turns
from stepscope.eval.data.loading import read_samples
from stepscope.eval.metrics.score import analyze_video
from stepscope.eval.runs.folder import RunFolder
from tests.support.reviews.desks import HOSTILE, ReviewedSplit, clicked_by, figures, make_query, words
from tests.support.streams.fakes import count_letters


def test_progress_agreement_and_what_is_to_be_settled_are_those_of_the_split(
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
    assert figures(view.agreement, "false alarm") == "4 1.000 \N{EN DASH} \N{EN DASH}"
    assert [row[:3] for row in view.to_settle] == [
        ["v0", 0.5, "corrections differ"],
        ["v0", 0.5, "no longer fits"],
        ["v0", 2.0, "verdicts differ"],
    ]
    assert view.to_settle[2][5] == f"{HOSTILE}: unclear, ann: correct"
    assert "the source has changed" in view.to_settle[1][5]
    assert view.prefer.choices == [(HOSTILE, HOSTILE), ("ann", "ann")]


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


def test_what_was_judged_besides_counts_as_an_event_of_its_video(batches: BatchContext, reviews: ReviewContext) -> None:
    told: list[tuple[float, Verdict | None]] = [(1.0, "correct"), (1.5, None)]  # of a run; the second was taken back
    for time_s, verdict in told:
        event = Event(video_id="v0", kind="generated", role="assistant", time_s=time_s, text="Let's go.")
        reviews.store.append(Action(kind="verdict", reviewer="ann", video_id="v0", event=event, verdict=verdict))
    view = handlers.show(batches, reviews, make_query())
    assert view.status.value.startswith("test: 16 events (reference turns, and 1 more that were judged) in 3 videos")
    assert view.videos[0][:4] == ["v0", 6, f"{HOSTILE} 4, ann 5", "correct 6, missed 2, unclear 1"]
    assert "5 of 16, 31%" in view.progress
    view = handlers.show(batches, reviews, make_query(run="a"))  # which wrote it: 5 + 1 events of v0
    assert view.status.value.startswith("test: 15 events (reference turns and texts of a, matched pairs once) in 3")
    assert view.videos[0][:3] == ["v0", 5, f"{HOSTILE} 3, ann 4"]  # only ann judged both sides of the pair


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


def test_names_in_markup_are_text(batches: BatchContext, reviews: ReviewContext) -> None:
    view = handlers.show(batches, reviews, make_query())
    assert "<img" not in view.progress + view.agreement
    assert "&lt;img src=x" in view.progress


def test_a_run_adds_what_it_wrote_and_only_runs_of_the_split_are_offered(
    batches: BatchContext, reviews: ReviewContext
) -> None:
    (batches.runs / "b").mkdir()
    RunFolder(batches.runs / "b").write_settings({"split": "/elsewhere.json"})
    view = handlers.show(batches, reviews, make_query(run="a"))
    assert view.status.value.startswith("test: 15 events (reference turns and texts of a, matched pairs once)")
    assert [value for _, value in view.runs.choices] == ["", "a"]
    assert view.runs.value == "a"
    view = handlers.show(batches, reviews, make_query(run="../a"))
    assert view.status.value == "⚠ there is no run '../a'; choose one from the list."
    assert view.runs.value == ""
    assert handlers.show(batches, replace(reviews, splits={}), make_query()).status.value.startswith(
        "⚠ there is no split"
    )


def test_who_signed_in_is_the_reviewer_whatever_is_typed(batches: BatchContext, reviews: ReviewContext) -> None:
    view = handlers.show(batches, reviews, make_query(typed=HOSTILE, is_blind=True, request=clicked_by(token="secret")))
    assert "only the reviews of ann" in view.status.value
    assert (view.reviewer.value, view.reviewer.interactive) == ("ann", False)
    assert handlers.show(batches, reviews, make_query(typed="bob")).reviewer == gr.skip()
