"""The API of the player's script for reviews: store a reviewer's actions, and return the reviews of a video.

The script retries until an action is confirmed; each action has an id and is stored once. Requests are untrusted:
they are validated field by field, and an invalid action is refused with a message, never stored in part. Replies are
plain values that are sent as JSON.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stepscope.app.formatting import format_wishes
from stepscope.app.review_store.actions import PARTS, Action, check_verdict
from stepscope.app.review_store.assignments import read_assignments
from stepscope.app.review_store.events import reference_event
from stepscope.app.review_store.review import Review
from stepscope.app.review_store.store import read_review, redo, undo
from stepscope.app.server.identity import needs_login, reviewer_of, signed_in, typed_name
from stepscope.app.window.context import ReviewContext
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import replace_surrogates, replace_surrogates_in
from stepscope.eval.annotations.corrected_samples import CorrectedSample, apply_corrections, check_fits
from stepscope.eval.annotations.corrections import TurnName, name_turns
from stepscope.eval.data.samples import Sample
from stepscope.eval.data.vocabulary import Vocabulary, read_vocabulary

Answer = dict[str, Any]
MAX_ACTIONS = 100
SIGN_IN = "sign in with Hugging Face, in the tab Reviews"
_UNDO_REDO = {"undo": undo, "redo": redo}
_read_action = TypeAdapter(Action).validate_python


def answer(reviews: ReviewContext, query: Mapping[str, Any], *, request: Any) -> Answer:
    """Store actions on a video, and return its reviews.

    Args:
        reviews: The store and the references.
        query: ``video_id``; ``reviewer``, the typed name; ``is_blind``; ``actions``, in their order; ``has_layer``, the
            name of the layer of corrections that the page has; for an upload ``reference``, the digest of its
            reference, empty without one.
        request: The ``gr.Request``, which identifies a signed-in user.

    Returns:
        ``kept``: the stored actions; ``refused``: reasons by action id; ``state``: the reviews of the video, in blind
        mode those of the reviewer alone. With ``error``, a message, the fate of the actions is unknown: send them
        again.
    """
    name = signed_in(request)
    reply: Answer = {"signed_in": name, "is_blind": reviews.is_blind, "kept": [], "refused": {}, "state": None}
    try:
        video_id, reference = replace_surrogates(str(query["video_id"])), query.get("reference")
        sample = reviews.sample(video_id, reference=None if reference is None else str(reference))
        author = str(query["reviewer"]).strip()
        typed = typed_name(author)
        reviewer = reviewer_of(request, typed) if name or typed else None
        if query["actions"] and name and author not in ("", name):
            raise ValueError(f"this is by {author}, but you are signed in as {name}; it waits for {author}")
        if query["actions"] and reviewer is None and needs_login():
            raise ValueError(SIGN_IN)
        if len(query["actions"]) > MAX_ACTIONS:
            raise ValueError(f"a request has at most {MAX_ACTIONS} actions")
        only = (reviewer or "") if reviews.is_blind or query["is_blind"] else None
        known = cache(lambda: _list_known_turns(reviews, sample, only=only))  # read once per request
        for action in query["actions"]:
            action_id = replace_surrogates(str(action["action_id"]))
            try:
                done = _store_action(reviews, action, sample, known, reviewer=reviewer, video_id=video_id)
            except (ValueError, OverflowError) as error:
                reply["refused"][action_id] = str(error)
            except (TypeError, KeyError, AttributeError, RecursionError) as error:
                reply["refused"][action_id] = f"this is not a valid action: {error}"
            else:
                kept = {"action_id": action_id, "event": _event_key(done), "what": _name_action(done)}
                reply["kept"].append(kept)
        review = read_review(reviews.store, video_id=video_id, only=only)
        described = _describe(sample, review, video_id, has_layer=query["has_layer"])
        reply["state"] = described | {
            "queue": _list_queue(reviews, video_id, reviewer),
            "vocabulary": _list_vocabulary(reviews, video_id),
        }
    except (KeyError, TypeError, AttributeError) as error:
        reply["error"] = f"the page sent an invalid request: {error}; reload it"
    except (EngineError, ValueError) as error:
        reply["error"] = str(error)
    answered: Answer = replace_surrogates_in(reply)
    return answered


def _store_action(
    reviews: ReviewContext,
    fields: Mapping[str, Any],
    sample: Sample | None,
    known: Any,
    *,
    reviewer: str | None,
    video_id: str,
) -> Action:
    """Store one action and return it; return of an undo or redo the action that it takes or brings back."""
    if reviewer is None:
        raise ValueError("nothing is stored without a reviewer's name")
    kind, action_id = fields.get("kind"), replace_surrogates(str(fields["action_id"]))
    if kind in _UNDO_REDO:
        target = None if fields.get("target") is None else str(fields["target"])
        done = _UNDO_REDO[kind](reviews.store, reviewer=reviewer, video_id=video_id, action_id=action_id, target=target)
        if done is None:
            raise ValueError(f"there is nothing to {kind}")
        known.cache_clear()
        return done
    action = _to_action(replace_surrogates_in(fields), reviewer=reviewer, video_id=video_id)
    check_verdict(action)
    if (correction := action.correction) is not None:
        if sample is None:
            raise ValueError("this video has no reference to correct")
        check_fits(sample, correction, known())
    stored = reviews.store.append(action)
    if correction is not None:
        known().add(correction.turn.key)  # of an addition; the others are known
    return stored


def _to_action(fields: Mapping[str, Any], *, reviewer: str, video_id: str) -> Action:
    if fields.get("kind") == "assign":
        raise ValueError("videos are assigned in the tab Reviews")
    names = ("action_id", "kind", *PARTS, "run", "moment")
    record = {key: fields[key] for key in names if key in fields}
    own_video = {"video_id": video_id}
    for name, own in (("event", own_video), ("paired", own_video), ("correction", {"reviewer": reviewer})):
        if fields.get(name) is not None:
            record[name] = {**fields[name], **own}
    try:
        return _read_action({**record, "reviewer": reviewer, "video_id": video_id})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {first['msg']}".removeprefix(": Value error, ")) from error


def _list_known_turns(reviews: ReviewContext, sample: Sample | None, *, only: str | None) -> set[object]:
    """Return the keys of the turns that a reviewer's corrections may name: those that they see, when blind their own.

    A collision with another's is stored, so that no refusal reveals it; the reviews tab lists it to settle.
    """
    if sample is None:
        return set()
    before = read_review(reviews.store, video_id=sample.video_id, only=only).corrections.get(sample.video_id, ())
    return {name.key for name in (*name_turns(sample.turns), *(one.turn for one in before if one.kind == "add"))}


def _event_key(action: Action) -> str | None:
    if action.correction is not None:
        return reference_event(action.video_id, action.correction.turn).key
    return action.event.key if action.event else None


def _name_action(action: Action) -> str:
    """Return an action in words that an event follows, such as ``your deletion of``."""
    if (correction := action.correction) is not None:
        return f"your {({'add': 'addition', 'delete': 'deletion'}).get(correction.kind, 'correction')} of"
    if action.kind in ("verdict", "settle"):
        name = "final verdict" if action.kind == "settle" else "verdict"
        return f"your {name} “{action.verdict}” on" if action.verdict else f"your removal of the {name} on"
    if action.kind == "done":
        return "that you are done with this video"
    return f"your {action.kind} on"


def _list_queue(reviews: ReviewContext, video_id: str, reviewer: str | None) -> list[Answer]:
    return [
        {
            "run": found.run,
            "is_done": reviewer in found.done,
            "others": [one for one in found.reviewers if one != reviewer],
        }
        for found in reversed(read_assignments(reviews.store, video_id=video_id))
        if reviewer in found.reviewers
    ]


def _list_vocabulary(reviews: ReviewContext, video_id: str) -> Answer:
    """Return names with meanings of the first split of a video that has some; ``problem`` if a file cannot be used."""
    known = (read_vocabulary(reviews.splits[name].path) for name in reviews.splits_of(video_id))
    try:
        found = next((one for one in known if one.traits), Vocabulary())
    except ValueError as error:
        return {"tags": [], "causes": [], "problem": str(error)}
    return {"tags": list(found.tags.items()), "causes": list(found.causes.items()), "problem": ""}


def _describe(sample: Sample | None, review: Review, video_id: str, *, has_layer: object) -> Answer:
    """Return the reviews of a video; with the layer, the largest part, only if the page does not have it yet."""
    names = ("reviewer", *PARTS, "paired_with")
    opinions = {
        found.event.key: [{name: getattr(opinion, name) for name in names} for opinion in found.opinions]
        for found in review.events
    }
    finals = {found.event.key: [found.final, found.settled_by] for found in review.events if found.final}
    corrections = review.corrections.get(video_id, ())
    source = sample and sample.turns
    name = hashlib.sha256(repr((video_id, source, corrections)).encode(errors="surrogatepass")).hexdigest()[:16]
    state: Answer = {
        "video_id": video_id,
        "opinions": opinions,
        "finals": finals,
        "proposals": _list_proposals(review, video_id),
        "layer_name": name,
        "left_out": list(review.unreadable),
    }
    if has_layer == name:
        return state
    return state | {"layer": _layer(sample, apply_corrections(sample, corrections)) if sample else None}


def _list_proposals(review: Review, video_id: str) -> dict[str, list[Answer]]:
    """Return the corrections that programs propose and no person has made, by the key of the event of their turn."""
    made = {replace(one, reviewer="") for one in review.corrections.get(video_id, ())}
    proposals = dict[str, list[Answer]]()
    for one in review.proposals.get(video_id, ()):
        if replace(one, reviewer="") not in made:
            proposals.setdefault(reference_event(video_id, one.turn).key, []).append(asdict(one))
    return proposals


def _layer(sample: Sample, corrected: CorrectedSample) -> Answer:
    """Return the corrected reference; every turn has the name that further corrections refer to."""
    video_id = sample.video_id
    turns = [
        {
            **_named(video_id, found.name),
            "time": found.turn.time_s,
            "end": found.turn.end_s,
            "text": found.turn.text,
            "is_added": found.source is None,
            "reviewers": list(found.reviewers),
        }
        for found in corrected.turns
    ]
    kept = {found.source for found in corrected.turns}
    deleted = [name for number, name in enumerate(name_turns(sample.turns)) if number not in kept]
    return {
        "turns": turns,
        "deleted": [_named(video_id, name) for name in deleted],
        "conflicts": [
            {
                "key": reference_event(video_id, found.turn).key,
                "aspect": found.aspect,
                "wishes": format_wishes(found.proposals),
            }
            for found in corrected.conflicts
        ],
        "unusable": [f"{found.correction.reviewer}: {found.reason}" for found in corrected.unusable],
    }


def _named(video_id: str, name: TurnName) -> Answer:
    key = reference_event(video_id, name).key
    return {"key": key, "role": name.role, "time": name.time_s, "text": name.text, "name": asdict(name)}
