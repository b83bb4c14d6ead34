"""What the player's script asks of the desk: keep what a reviewer did, and say what is said of a video.

The script sends actions until it hears that they are kept, so each carries its own name and is kept once. What it
sends is untrusted: it is read into records field by field, and what does not fit is refused with a sentence, never
kept in part. An answer is plain values that go to the script as JSON.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.formatting import tell_wishes
from app.identity import needs_login, reviewer_of, signed_in, typed_name
from app.player.review_context import Desk
from app.reviews.actions import Action
from app.reviews.events import reference_event
from app.reviews.history import read_review, redo, undo
from app.reviews.review import Opinion, Review
from engine.errors import EngineError
from engine.io import replace_surrogates, replace_surrogates_in
from eval.annotations.corrected_samples import CorrectedSample, apply_corrections
from eval.annotations.corrections import Correction, TurnName, name_turns
from eval.data.samples import Sample

Answer = dict[str, Any]
MOST_LETTERS = 50_000
"""Longest action, as JSON."""
SIGN_IN = "sign in with Hugging Face, in the tab Reviews"
_TAKES_BACK = {"undo": undo, "redo": redo}
_read_action = TypeAdapter(Action).validate_python


def answer(desk: Desk, asked: Mapping[str, Any], *, request: Any) -> Answer:
    """Keep actions on a video and say what is said of it.

    Args:
        desk: The store and the references.
        asked: ``video_id``, the typed name ``reviewer``, ``is_blind``, ``actions``: what to keep, in its order,
            ``has_layer``: which corrections the page shows already, and of an upload that is shown ``reference``: the
            digest of its reference, empty without one.
        request: Who asks.

    Returns:
        ``kept`` and ``refused`` (name of an action to the reason), ``state``: what is said of the video; blind, by the
        reviewer alone. With ``error``, a sentence, nothing is known of the actions: send them again.
    """
    name = signed_in(request)
    reply: Answer = {"signed_in": name, "is_blind": desk.is_blind, "kept": [], "refused": {}, "state": None}
    try:
        video_id, reference = replace_surrogates(str(asked["video_id"])), asked.get("reference")
        sample = desk.sample(video_id, reference=None if reference is None else str(reference))
        giver = str(asked["reviewer"]).strip()
        typed = typed_name(giver)
        reviewer = reviewer_of(request, typed) if name or typed else None
        if asked["actions"] and name and giver not in ("", name):
            raise ValueError(f"this was given by {giver}, and you are signed in as {name}; it waits for {giver}")
        if asked["actions"] and reviewer is None and needs_login():
            raise ValueError(SIGN_IN)
        for action in asked["actions"]:
            action_id = replace_surrogates(str(action["action_id"]))
            try:
                touched = _keep(desk, action, sample, reviewer=reviewer, video_id=video_id)
            except (ValueError, OverflowError) as error:
                reply["refused"][action_id] = str(error)
            except (TypeError, KeyError, AttributeError, RecursionError) as error:
                reply["refused"][action_id] = f"this cannot be read as something a reviewer did: {error}"
            else:
                reply["kept"].append({"action_id": action_id, "event": touched})
        only = (reviewer or "") if desk.is_blind or asked["is_blind"] else None
        review = read_review(desk.store, video_id=video_id, only=only)
        reply["state"] = _describe(sample, review, video_id, has_layer=asked["has_layer"])
    except (KeyError, TypeError, AttributeError) as error:
        reply["error"] = f"the page asked for something that cannot be read: {error}; reload it"
    except (EngineError, ValueError) as error:
        reply["error"] = str(error)
    answered: Answer = replace_surrogates_in(reply)
    return answered


def _keep(
    desk: Desk, asked: Mapping[str, Any], sample: Sample | None, *, reviewer: str | None, video_id: str
) -> str | None:
    """Keep one action; return the key of the event that it is about, if it is about one."""
    if reviewer is None:
        raise ValueError("nothing is kept without a reviewer's name")
    if len(json.dumps(asked)) > MOST_LETTERS:
        raise ValueError(f"what is said of one event must stay below {MOST_LETTERS} letters")
    kind, action_id = asked.get("kind"), replace_surrogates(str(asked["action_id"]))
    if kind in _TAKES_BACK:
        target = None if asked.get("target") is None else str(asked["target"])
        done = _TAKES_BACK[kind](desk.store, reviewer=reviewer, video_id=video_id, action_id=action_id, target=target)
        if done is None:
            raise ValueError(f"there is nothing to {kind}")
        return _event_key(done)
    action = _to_action(replace_surrogates_in(asked), reviewer=reviewer, video_id=video_id)
    if action.correction is not None:
        _check_fits(desk, action.correction, sample, video_id)
    return _event_key(desk.store.append(action))


def _to_action(asked: Mapping[str, Any], *, reviewer: str, video_id: str) -> Action:
    fields = {key: asked[key] for key in ("action_id", "kind", "verdict", "tags", "note", "moment") if key in asked}
    own_video = {"video_id": video_id}
    for name, own in (("event", own_video), ("paired", own_video), ("correction", {"reviewer": reviewer})):
        if asked.get(name) is not None:
            fields[name] = {**asked[name], **own}
    try:
        return _read_action({**fields, "reviewer": reviewer, "video_id": video_id})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {first['msg']}".removeprefix(": Value error, ")) from error


def _check_fits(desk: Desk, correction: Correction, sample: Sample | None, video_id: str) -> None:
    if sample is None:
        raise ValueError("this video has no reference to correct")
    before = read_review(desk.store, video_id=video_id).corrections.get(video_id, ())
    for found in apply_corrections(sample, (*before, correction)).unusable:
        if found.correction is correction:
            raise ValueError(found.reason)


def _event_key(action: Action) -> str | None:
    if action.correction is not None:
        return reference_event(action.video_id, action.correction.turn).key
    return action.event.key if action.event else None


def _describe(sample: Sample | None, review: Review, video_id: str, *, has_layer: object) -> Answer:
    """Say what is said of a video; the layer, the largest part, only when it is not the one that the page has."""
    said = {found.event.key: [_opinion(opinion) for opinion in found.opinions] for found in review.events}
    corrections = review.corrections.get(video_id, ())
    source = sample and sample.turns
    name = hashlib.sha256(repr((video_id, source, corrections)).encode(errors="surrogatepass")).hexdigest()[:16]
    state: Answer = {"video_id": video_id, "opinions": said, "layer_name": name, "left_out": list(review.unreadable)}
    if has_layer == name:
        return state
    return state | {"layer": _layer(sample, apply_corrections(sample, corrections)) if sample else None}


def _opinion(opinion: Opinion) -> Answer:
    return {
        "reviewer": opinion.reviewer,
        "verdict": opinion.verdict,
        "tags": list(opinion.tags),
        "note": opinion.note,
        "paired_with": dict(opinion.paired_with),
    }


def _layer(sample: Sample, corrected: CorrectedSample) -> Answer:
    """Describe the corrected reference: every turn with the name that further corrections use."""
    video_id = sample.video_id
    turns = [
        {
            **_named(video_id, found.name),
            "time": found.turn.time_s,
            "text": found.turn.text,
            "is_added": found.source is None,
            "reviewers": list(found.reviewers),
        }
        for found in corrected.turns
    ]
    return {
        "turns": turns,
        "deleted": [_named(video_id, name) for name in _gone(sample, corrected)],
        "conflicts": [
            {
                "key": reference_event(video_id, found.turn).key,
                "aspect": found.aspect,
                "wishes": tell_wishes(found.proposals),
            }
            for found in corrected.conflicts
        ],
        "unusable": [f"{found.correction.reviewer}: {found.reason}" for found in corrected.unusable],
    }


def _named(video_id: str, name: TurnName) -> Answer:
    key = reference_event(video_id, name).key
    return {"key": key, "role": name.role, "time": name.time_s, "text": name.text, "name": asdict(name)}


def _gone(sample: Sample, corrected: CorrectedSample) -> Iterable[TurnName]:
    """Return the names of the turns that are deleted."""
    kept = {found.source for found in corrected.turns}
    return (name for number, name in enumerate(name_turns(sample.turns)) if number not in kept)
