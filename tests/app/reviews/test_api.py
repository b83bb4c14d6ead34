import re
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.player.review import MAX_ACTIONS, Answer, answer
from stepscope.app.review_store import store
from stepscope.app.review_store.actions import Event
from stepscope.app.review_store.events import reference_event
from stepscope.app.review_store.store import open_store
from stepscope.app.server.identity import current_user
from stepscope.app.window.context import ReviewContext
from stepscope.engine.io.files import replace_surrogates
from stepscope.eval.data.samples import Split
from tests.support.reviews.reviewed import EVIL, MOMENT, NAMES, SAMPLE
from tests.support.streams.fakes import anybody

EVENT = Event(video_id="boat", kind="generated", role="assistant", time_s=1.5, text=EVIL)


@pytest.fixture
def reviews(tmp_path: Path) -> Iterator[ReviewContext]:
    with open_store(tmp_path / "reviews.sqlite", name_user=current_user.get) as opened:
        yield ReviewContext(store=opened, splits={"test": Split(path=tmp_path / "test.json", entries=(SAMPLE,))})


def ask(
    reviews: ReviewContext, *actions: dict[str, Any], reviewer: str = "bob", request: Any = None, **more: Any
) -> Answer:
    named = [{"action_id": str(number), **action} for number, action in enumerate(actions)]
    asked = {"video_id": "boat", "reviewer": reviewer, "is_blind": False, "has_layer": None, "actions": named, **more}
    return answer(reviews, asked, request=request or anybody())


def on_event(kind: str, **more: Any) -> dict[str, Any]:
    event = {key: value for key, value in asdict(EVENT).items() if key != "video_id"}
    return {"kind": kind, "event": event, "moment": asdict(MOMENT), **more}


def correcting(kind: str, number: int, **more: Any) -> dict[str, Any]:
    return {"kind": "correction", "correction": {"kind": kind, "turn": asdict(NAMES[number]), **more}}


def test_what_is_given_is_kept_whole_and_told(reviews: ReviewContext) -> None:
    reply = ask(
        reviews, on_event("verdict", verdict="unclear"), on_event("tags", tags=["odd"]), on_event("note", note=EVIL)
    )
    names = ("your verdict “unclear” on", "your tags on", "your note on")
    assert reply["kept"] == [
        {"action_id": str(number), "event": EVENT.key, "what": what} for number, what in enumerate(names)
    ]
    said = {
        "reviewer": "bob",
        "verdict": "unclear",
        "tags": ["odd"],
        "note": replace_surrogates(EVIL),
        "paired_with": {},
    }
    assert reply["state"]["opinions"] == {EVENT.key: [said]}
    assert [(action.event, action.moment) for action in reviews.store.read()] == [(EVENT, MOMENT)] * 3


def test_a_verdict_on_a_pair_is_told_of_both_of_its_events(reviews: ReviewContext) -> None:
    wanted = reference_event("boat", replace(NAMES[0], role="assistant"))
    paired = {key: value for key, value in asdict(wanted).items() if key != "video_id"}
    reply = ask(reviews, on_event("verdict", verdict="correct", paired=paired))
    assert [(kept["action_id"], kept["event"]) for kept in reply["kept"]] == [("0", EVENT.key)]
    assert reply["state"]["opinions"][wanted.key][0]["paired_with"] == {"verdict": EVENT.key}
    assert reply["state"]["opinions"][EVENT.key][0]["paired_with"] == {"verdict": wanted.key}
    reply = ask(reviews, on_event("verdict", verdict="correct", paired={**paired, "kind": "state"}), reviewer="cal")
    assert "a pair must be an event of the model and a turn of the reference" in reply["refused"]["0"]


def test_what_is_sent_again_is_kept_once(reviews: ReviewContext) -> None:
    for _ in range(2):
        reply = ask(reviews, on_event("verdict", verdict="unclear"), {"kind": "undo"})
        what = "your verdict “unclear” on"  # that of the undo names what it took back
        assert reply["kept"] == [{"action_id": name, "event": EVENT.key, "what": what} for name in ("0", "1")]
    assert [action.kind for action in reviews.store.read()] == ["verdict", "undo"]
    assert reply["refused"] == {}
    taken = ask(reviews, {"kind": "undo", "action_id": "0"})
    assert "another action has the action_id '0'" in taken["refused"]["0"]  # it is that of a verdict


def test_an_undo_of_what_was_refused_takes_back_nothing_else(reviews: ReviewContext) -> None:
    ask(reviews, on_event("verdict", verdict="correct"))
    wrong = {**correcting("text", 4, text=" "), "action_id": "w"}
    reply = ask(reviews, wrong, {"kind": "undo", "target": "w", "action_id": "u"})
    assert reply["refused"]["u"] == "there is nothing to undo"
    assert reply["state"]["opinions"][EVENT.key][0]["verdict"] == "correct"
    ask(reviews, {"kind": "undo", "target": "0", "action_id": "v"})
    assert ask(reviews)["state"]["opinions"] == {}


def test_corrections_are_a_layer_that_names_every_turn(reviews: ReviewContext) -> None:
    ask(reviews, correcting("boundary", 2, time_s=3.5), correcting("delete", 0), correcting("text", 4, text="Which?"))
    added = {"role": "assistant", "time_s": 5.0, "text": "Done.", "number": 0}
    reply = ask(reviews, {"action_id": "a", "kind": "correction", "correction": {"kind": "add", "turn": added}})
    layer = reply["state"]["layer"]
    turns = [(turn["time"], turn["text"], turn["is_added"], turn["reviewers"]) for turn in layer["turns"]]
    assert turns == [
        (1.0, "S1->start", False, []),
        (3.5, "S1->complete", False, ["bob"]),
        (3.5, "S2->start", False, ["bob"]),
        (4.5, "Which?", False, ["bob"]),
        (5.0, "Done.", True, ["bob"]),
    ]
    assert [turn["key"] for turn in layer["turns"][:4]] == [reference_event("boat", name).key for name in NAMES[1:]]
    assert [turn["name"] for turn in layer["deleted"]] == [asdict(NAMES[0])]
    assert (layer["conflicts"], layer["unusable"]) == ([], [])


def test_reviewers_who_want_different_things_are_told(reviews: ReviewContext) -> None:
    ask(reviews, correcting("time", 1, time_s=1.5), reviewer="ann")
    reply = ask(reviews, {**correcting("time", 1, time_s=2.0), "action_id": "b"})
    conflict = {"key": reference_event("boat", NAMES[1]).key, "aspect": "time", "wishes": "ann: 1.5, bob: 2.0"}
    assert reply["state"]["layer"]["conflicts"] == [conflict]


def test_in_blind_mode_others_are_not_told(reviews: ReviewContext) -> None:
    ask(reviews, on_event("verdict", verdict="correct"), correcting("delete", 0), reviewer="ann")
    blind = replace(reviews, is_blind=True)
    for told in (
        ask(reviews, is_blind=True),
        ask(blind),
        ask(reviews, is_blind=True, reviewer=""),
        ask(blind, reviewer=""),
    ):
        assert told["state"]["opinions"] == {}
        assert told["state"]["layer"]["deleted"] == []
    assert ask(reviews)["state"]["opinions"] != {}


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (on_event("verdict", verdict="nice"), "verdict"),
        (on_event("verdict", verdict="missed"), "'missed' does not fit: the event is something that the model wrote"),
        (on_event("note", note="x" * 60_000), "characters"),
        (on_event("note") | {"event": {**asdict(EVENT), "time_s": float("inf")}}, "event.time_s must be a number"),
        (correcting("time", 1, time_s=99.0), "be within the video"),
    ],
)
def test_what_does_not_fit_is_refused_and_the_rest_kept(
    reviews: ReviewContext, action: dict[str, Any], reason: str
) -> None:
    reply = ask(reviews, action, on_event("verdict", verdict="correct"))
    assert reason in reply["refused"]["0"]
    assert [kept["action_id"] for kept in reply["kept"]] == ["1"]
    assert len(reviews.store.read()) == 1


def test_a_reviewer_stores_so_many_actions_and_sends_some_at_a_time(
    reviews: ReviewContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = [on_event("note", note=str(number)) for number in range(MAX_ACTIONS + 1)]
    assert ask(reviews, *notes)["error"] == "a request has at most 100 actions"
    monkeypatch.setitem(store.MAX_LIMITS, "actions", 2)
    reply = ask(reviews, correcting("delete", 0), correcting("delete", 0), on_event("note", note="late"))
    assert (list(reply["refused"]), len(reply["kept"])) == (["2"], 2)
    assert reply["refused"]["2"] == "you have stored 2 actions on this video, the most that are kept"
    long = {**on_event("note", note="n" * 60), "action_id": "b"}
    monkeypatch.setattr(store, "MAX_USER_CHARS", 1000)
    token = current_user.set("192.0.2.1")
    first, second = (ask(reviews, {**long, "action_id": name}, video_id=name, reviewer=name) for name in ("d", "e"))
    third = ask(reviews, {**long, "action_id": "f"}, video_id="f", reviewer="f")["refused"]["f"]
    current_user.reset(token)
    assert (first["refused"], second["refused"]) == ({}, {})
    assert third == "you have stored 1000 characters since the page began, the most it keeps"


def test_a_correction_of_a_turn_that_is_not_there_is_refused(reviews: ReviewContext) -> None:
    turn = {**asdict(NAMES[0]), "text": "gone"}
    reply = ask(reviews, {"kind": "correction", "correction": {"kind": "delete", "turn": turn}})
    assert "the source has changed" in reply["refused"]["0"]
    upload = ask(reviews, correcting("delete", 0), video_id="mine.mp4")
    assert upload["refused"]["0"] == "this video has no reference to correct"
    assert upload["state"]["layer"] is None


def test_nothing_is_kept_without_a_name(reviews: ReviewContext) -> None:
    reply = ask(reviews, on_event("verdict", verdict="correct"), reviewer="")
    assert "name" in reply["refused"]["0"]
    assert "printable" in ask(reviews, on_event("verdict", verdict="correct"), reviewer="a\nb")["error"]
    assert reviews.store.read() == ()


def test_on_a_space_nobody_reviews_without_a_login(reviews: ReviewContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAUTH_CLIENT_ID", "id")
    reply = ask(reviews, on_event("verdict", verdict="correct"), reviewer="cleo")
    assert "sign in with Hugging Face" in reply["error"]
    assert reviews.store.read() == ()


def test_who_signed_in_cannot_speak_for_another_and_what_that_one_gave_waits(reviews: ReviewContext) -> None:
    waiting = ask(reviews, on_event("verdict", verdict="correct"), reviewer="bob", request=anybody(token="secret"))
    assert waiting["error"] == "this is by bob, but you are signed in as ann; it waits for bob"
    assert (waiting["kept"], waiting["refused"]) == ([], {})
    ask(reviews, on_event("verdict", verdict="correct"), reviewer="", request=anybody(token="secret"))
    login: dict[str, Any] = {"oauth_info": {"userinfo": {"preferred_username": "cleo"}, "expires_at": time.time() + 60}}
    ask(reviews, {**on_event("note"), "action_id": "n"}, reviewer="cleo", request=anybody(session=login))
    login["oauth_info"]["expires_at"] -= 120
    ask(reviews, {**on_event("note"), "action_id": "o"}, reviewer="bob", request=anybody(session=login))
    assert [action.reviewer for action in reviews.store.read()] == ["ann", "cleo", "bob"]


def test_a_question_that_cannot_be_read_is_an_error(reviews: ReviewContext) -> None:
    asked = {"video_id": "boat", "reviewer": "", "actions": [3], "is_blind": False}
    assert "reload" in answer(reviews, asked, request=anybody())["error"]


def test_a_store_that_is_gone_is_told_and_nothing_is_called_kept(reviews: ReviewContext, tmp_path: Path) -> None:
    reviews.store.engine.dispose()
    (tmp_path / "reviews.sqlite").unlink()
    (tmp_path / "reviews.sqlite").mkdir()
    reply = ask(reviews, on_event("verdict", verdict="correct"))
    assert re.match(r"the store [^/@]* cannot be used: ", reply["error"]), "without its folder or host"
    assert (reply["kept"], reply["refused"]) == ([], {})


def test_a_blind_reviewer_learns_from_no_refusal_what_another_added_or_deleted(reviews: ReviewContext) -> None:
    added = {"role": "update", "time_s": 1.5, "text": "S2->start", "number": 0}
    mine = {"kind": "correction", "correction": {"kind": "delete", "turn": added}}
    alone = ask(reviews, mine, is_blind=True)
    theirs = {"kind": "correction", "action_id": "a", "correction": {"kind": "add", "turn": added}}
    assert ask(reviews, theirs, correcting("delete", 1) | {"action_id": "b"}, reviewer="ann")["refused"] == {}
    assert ask(reviews, mine, is_blind=True) == alone, "as if ann had done nothing"
    later = ask(reviews, correcting("time", 1, time_s=2.0), is_blind=True)
    assert (later["refused"], later["state"]["layer"]["conflicts"]) == ({}, [])
    assert [found["aspect"] for found in ask(reviews)["state"]["layer"]["conflicts"]] == ["presence"], (
        "listed to settle"
    )
    assert "the reference has no update turn" in alone["refused"]["0"]


def test_names_make_no_new_limit_where_nobody_signs_in(reviews: ReviewContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(store.MAX_LIMITS, "actions", 3)
    monkeypatch.setitem(store.MAX_VIDEO_LIMITS, "actions", 5)

    def refusals(address: str) -> list[str]:
        token = current_user.set(address)
        found = [
            ask(reviews, on_event("note", note="n") | {"action_id": f"{address} {number}"}, reviewer=f"name {number}")
            for number in range(4)
        ]
        current_user.reset(token)
        return [reason for reply in found for reason in reply["refused"].values()]

    assert refusals("192.0.2.1") == ["you have stored 3 actions on this video, the most that are kept"]
    assert refusals("192.0.2.2") == ["all reviewers have stored 5 actions on this video, the most that are kept"] * 2
    reviews.store.set_aside(reviewer="name 0")
    assert len(refusals("192.0.2.3")) == 2, "what is set aside makes room"


def test_the_actions_of_a_request_share_one_reading_and_see_each_other(
    reviews: ReviewContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, num_reads = store.ReviewStore.read_video, [0]

    def count(*values: Any, **options: Any) -> Any:
        num_reads[0] += 1
        return read(*values, **options)

    monkeypatch.setattr(store.ReviewStore, "read_video", count)
    turns = [{"role": "assistant", "time_s": 0.1, "text": f"new {number}", "number": 0} for number in range(20)]
    added = [{"kind": "correction", "correction": {"kind": "add", "turn": turn}} for turn in turns]
    renamed = {"kind": "correction", "correction": {"kind": "text", "turn": turns[0], "text": "other"}}
    reply = ask(reviews, *added, renamed)
    assert (len(reply["kept"]), reply["refused"]) == (21, {})
    assert num_reads == [2], "for the checks of all actions, and for the state"
    undone = [{"kind": "undo", "target": target, "action_id": f"u{target}"} for target in ("20", "0")]
    reply = ask(reviews, {**renamed, "action_id": "a"}, undone[1], {**renamed, "action_id": "b"})
    assert list(reply["refused"]) == ["b"], "its turn was taken back"
