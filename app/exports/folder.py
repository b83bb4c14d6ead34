"""A reviewed split as files in a folder, and corrections from a document that was edited in ELAN.

What is exported is what a run, the source's references and a store of reviews say together; a run may be missing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Literal, get_args

from app.exports.dataset import write_dataset
from app.exports.elan import write_eaf
from app.exports.elan_edits import read_eaf_corrections, read_eaf_origin
from app.exports.tables import write_csv_tables, write_json_tables
from app.exports.tabulate import ReviewedVideo, tabulate
from app.exports.webvtt import write_webvtt
from app.reviews.actions import Action, check_reviewer
from app.reviews.review import Review, fold_actions
from app.reviews.store import ReviewStore
from engine.records import FrameOutput
from eval.annotations.corrected_samples import CorrectedSample, apply_corrections
from eval.annotations.corrections import Correction, name_turns
from eval.data.samples import Sample, Turn
from eval.runs.folder import RunFolder, output_path

ExportForm = Literal["csv", "json", "webvtt", "eaf", "dataset"]
_Moment = tuple[str, int]
EXPORT_FORMS: tuple[ExportForm, ...] = get_args(ExportForm)


def gather_videos(
    samples: Iterable[Sample], *, review: Review, run: RunFolder | None = None, prefer: Sequence[str] = ()
) -> tuple[ReviewedVideo, ...]:
    """Put together what is known of videos.

    One that the run did not finish has no outputs, and one whose outputs cannot be read has a ``problem``.

    Args:
        samples: The source's references.
        review: What reviewers say.
        run: What the model did.
        prefer: Whose corrections count in a conflict, best first.
    """
    videos = []
    for sample in samples:
        outputs, problem = read_known_outputs(run, sample)
        video = ReviewedVideo(
            video_id=sample.video_id,
            video_path=sample.video_path,
            start_s=sample.start_s or 0.0,
            duration_s=sample.num_frames / sample.fps,
            steps=sample.steps,
            outputs=outputs,
            sample=sample,
            review=review,
            prefer=tuple(prefer),
            problem=problem,
        )
        videos.append(video)
    return tuple(videos)


def read_known_outputs(run: RunFolder | None, sample: Sample) -> tuple[tuple[FrameOutput, ...], str]:
    """Return a video's outputs in a run, if there are any, and why they cannot be read, if they cannot."""
    try:
        return (run.finished_outputs(sample) if run else ()), ""
    except ValueError as error:
        return (), str(error)


def write_export(folder: Path, videos: Sequence[ReviewedVideo], *, form: ExportForm, split: str = "test") -> None:
    """Write videos into a folder, each file whole or not at all.

    ``csv``: a file per table; ``json``: ``review.json``; ``webvtt`` and ``eaf``: a file per video; ``dataset``: for
    Hugging Face's ``datasets``, as the split ``split``. Raises ``ValueError`` for a name of a split that it refuses.
    """
    writers: Mapping[ExportForm, Callable[[], None]] = {
        "csv": lambda: write_csv_tables(folder, tabulate(videos)),
        "json": lambda: write_json_tables(folder / "review.json", tabulate(videos)),
        "dataset": lambda: write_dataset(folder, {split: tabulate(videos)}),
    }
    if form in writers:
        writers[form]()
        return
    for video in videos:
        path = output_path(folder, video.video_id)
        if form == "eaf":
            write_eaf(path.with_suffix(".eaf"), video)
        else:
            write_webvtt(path.with_suffix(".vtt"), tabulate([video]))


def correct_samples(
    samples: Iterable[Sample], *, review: Review, prefer: Sequence[str] = ()
) -> tuple[CorrectedSample, ...]:
    """Return the references as corrected, each with its conflicts and with what does not fit it."""
    return tuple(
        apply_corrections(sample, review.corrections.get(sample.video_id, ()), prefer=prefer) for sample in samples
    )


def import_eaf(
    path: Path, *, samples: Iterable[Sample], store: ReviewStore, reviewer: str, allow_deletions: bool = False
) -> tuple[Action, ...]:
    """Keep what a reviewer changed in a document as corrections, and return them.

    Only what differs from the document as it was exported counts, so corrections by others since then stand; what the
    reviewer wants already is not kept again.
    Raises ``ValueError`` for a document that was not exported from this store and split, or that holds what no
    reference can, and ``MissingTierError`` for one without a tier whose turns would be deleted, unless
    ``allow_deletions``. Then nothing is kept.
    """
    name = check_reviewer(reviewer)
    origin = read_eaf_origin(path, samples=samples)
    sample = origin.sample
    actions = store.read()
    before = list(takewhile(lambda action: action.action_id != origin.last_action, actions))
    if origin.last_action and len(before) == len(actions):
        raise ValueError(f"{path} was exported from another store of reviews; name that one")
    then = actions[: len(before) + 1] if origin.last_action else ()
    corrections = read_eaf_corrections(
        path,
        sample=sample,
        corrections=fold_actions(then, only=origin.only).corrections.get(sample.video_id, ()),
        reviewer=name,
        prefer=origin.prefer,
        allow_deletions=allow_deletions,
    )
    now = fold_actions(actions).corrections.get(sample.video_id, ())
    return store.append_all(
        Action(kind="correction", reviewer=name, video_id=sample.video_id, correction=correction)
        for correction in _list_unwanted(sample, corrections, now)
    )


def _list_unwanted(
    sample: Sample, corrections: Sequence[Correction], now: Iterable[Correction]
) -> Iterator[Correction]:
    """Yield the corrections that are not among those that count, or were superseded by a later one.

    A correction concerns turns of one role and moment alone, so each is held against what is wanted of those.
    """
    turns, wanted = defaultdict[_Moment, list[Turn]](list), defaultdict[_Moment, list[Correction]](list)
    for name, turn in zip(name_turns(sample.turns), sample.turns, strict=True):
        turns[name.key[:2]].append(turn)
    for counting in now:
        wanted[counting.turn.key[:2]].append(counting)
    for correction in corrections:
        moment = correction.turn.key[:2]
        before, part = wanted[moment], replace(sample, turns=tuple(turns[moment]))
        is_there = correction in before
        if not is_there or apply_corrections(part, [*before, correction]) != apply_corrections(part, before):
            before.append(correction)
            yield correction
