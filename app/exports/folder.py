"""Gather the videos of an export from a run, references and reviews, and import corrections from ELAN documents.

The run is optional.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from stepscope.app.exports.elan_edits import read_eaf_corrections, read_eaf_origin
from stepscope.app.exports.rows import ReviewedVideo
from stepscope.app.review_store.actions import Action, check_reviewer
from stepscope.app.review_store.review import Review, fold_actions
from stepscope.app.review_store.store import ReviewStore, read_review
from stepscope.engine.records import FrameOutput
from stepscope.eval.annotations.corrected_samples import CorrectedSample, apply_corrections
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.runs.folder import RunFolder

_RoleAndTime = tuple[str, int]
"""Role and start in milliseconds of a turn."""


def gather_videos(
    samples: Iterable[Sample], *, review: Review, run: RunFolder | None = None, prefer: Sequence[str] = ()
) -> tuple[ReviewedVideo, ...]:
    """Return the outputs, reference and reviews of each video.

    Unfinished videos of the run have no outputs; videos with unreadable outputs have a ``problem``.

    Without a ``run`` no outputs are exported. The reviewers in ``prefer`` win conflicts, best first. Raises
    ``ValueError`` for an invalid ``run.json``.
    """
    videos, is_stateful = [], run is None or run.has_states()
    for sample in samples:
        outputs, problem = read_known_outputs(run, sample)
        video = ReviewedVideo(
            video_id=sample.video_id,
            video_path=sample.video_path,
            start_s=sample.start_s or 0.0,
            duration_s=sample.num_frames / sample.fps,
            steps=sample.steps,
            outputs=outputs,
            has_states=is_stateful,
            sample=sample,
            review=review,
            prefer=tuple(prefer),
            problem=problem,
        )
        videos.append(video)
    return tuple(videos)


def read_known_outputs(run: RunFolder | None, sample: Sample) -> tuple[tuple[FrameOutput, ...], str]:
    """Return a video's outputs in a run and the error of reading them; empty without outputs or without an error."""
    try:
        return (run.finished_outputs(sample) if run else ()), ""
    except ValueError as error:
        return (), str(error)


def correct_samples(
    samples: Iterable[Sample], *, review: Review, prefer: Sequence[str] = ()
) -> tuple[CorrectedSample, ...]:
    """Return the corrected references, each with its conflicts and its unusable corrections."""
    return tuple(
        apply_corrections(sample, review.corrections.get(sample.video_id, ()), prefer=prefer) for sample in samples
    )


def correct_sample(store: ReviewStore, sample: Sample, *, is_blind: bool) -> CorrectedSample:
    """Return the corrected reference of one video; in blind mode, that without corrections."""
    corrections = () if is_blind else read_review(store, video_id=sample.video_id).corrections.get(sample.video_id, ())
    return apply_corrections(sample, corrections)


def import_eaf(
    path: Path,
    *,
    samples: Iterable[Sample],
    store: ReviewStore,
    reviewer: str,
    is_blind: bool = False,
    allow_deletions: bool = False,
) -> tuple[Action, ...]:
    """Store the changes of an edited ELAN document as corrections, and return them.

    Only differences from the exported document count, so later corrections by other reviewers are not reverted.
    Corrections that are in effect already are not stored again. A refused document changes nothing. With ``is_blind``,
    only the reviewer's own actions exist, whatever the document says about its export: it may have been edited.

    Raises ``ValueError`` for a document that was not exported from this store and split, or with an invalid
    annotation. Raises ``MissingTierError`` if the turns of a missing tier would be deleted without
    ``allow_deletions``.
    """
    name = check_reviewer(reviewer)
    origin = read_eaf_origin(path, samples=samples)
    sample = origin.sample
    only = name if is_blind else None
    actions = store.read(only=only)
    before = list(takewhile(lambda action: action.action_id != origin.last_action, actions))
    if origin.last_action and len(before) == len(actions):
        raise ValueError(f"{path} was exported from another store of reviews, or with some that you do not see")
    then = actions[: len(before) + 1] if origin.last_action else ()
    corrections = read_eaf_corrections(
        path,
        sample=sample,
        corrections=fold_actions(then, only=only or origin.only).corrections.get(sample.video_id, ()),
        reviewer=name,
        prefer=origin.prefer,
        allow_deletions=allow_deletions,
    )
    now = fold_actions(actions).corrections.get(sample.video_id, ())
    return store.append_all(
        Action(kind="correction", reviewer=name, video_id=sample.video_id, correction=correction)
        for correction in _list_new_corrections(sample, corrections, now)
    )


def _list_new_corrections(
    sample: Sample, corrections: Sequence[Correction], now: Sequence[Correction]
) -> Iterator[Correction]:
    """Yield the corrections that would change the corrected reference: new ones, and ones that were superseded.

    A correction affects only turns of its role and time, so it is compared with the corrections of these turns alone.
    Example: with A in effect, A is dropped; with A and then B on the same turn, A is yielded, since it reverts B.
    """
    turns, in_effect = defaultdict[_RoleAndTime, list[Turn]](list), defaultdict[_RoleAndTime, list[Correction]](list)
    for name, turn in zip(name_turns(sample.turns), sample.turns, strict=True):
        turns[name.key[:2]].append(turn)
    known = set(now)
    for correction in now:
        in_effect[correction.turn.key[:2]].append(correction)
    for correction in corrections:
        before = in_effect[correction.turn.key[:2]]
        if correction in known and not _would_change(correction, before, sample, turns):
            continue
        before.append(correction)
        known.add(correction)
        yield correction


def _would_change(
    correction: Correction, before: Sequence[Correction], sample: Sample, turns: Mapping[_RoleAndTime, list[Turn]]
) -> bool:
    """Return whether a correction that was made before changes the reference again, since others followed it."""
    part = replace(sample, turns=tuple(turns[correction.turn.key[:2]]))
    return apply_corrections(part, [*before, correction]) != apply_corrections(part, before)
