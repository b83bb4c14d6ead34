"""A reviewed split as files in a folder, and corrections from a document that was edited in ELAN.

What is exported is what a run, the source's references and a store of reviews say together; a run may be missing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from eval.corrections import CorrectedSample, Correction, apply_corrections
from eval.runs import RunFolder, output_path
from eval.samples import Sample

ExportForm = Literal["csv", "json", "webvtt", "eaf", "dataset"]
EXPORT_FORMS: tuple[ExportForm, ...] = get_args(ExportForm)


def gather_videos(
    samples: Iterable[Sample], *, review: Review, run: RunFolder | None = None, prefer: Sequence[str] = ()
) -> tuple[ReviewedVideo, ...]:
    """Put together what is known of videos; one that the run did not finish has no outputs.

    Args:
        samples: The source's references.
        review: What reviewers say.
        run: What the model did.
        prefer: Whose corrections count in a conflict, best first.

    Raises ``ValueError`` for outputs that cannot be read.
    """
    videos = []
    for sample in samples:
        video = ReviewedVideo(
            video_id=sample.video_id,
            video_path=sample.video_path,
            duration_s=sample.num_frames / sample.fps,
            steps=sample.steps,
            outputs=run.known_outputs(sample) if run else (),
            sample=sample,
            review=review,
            prefer=tuple(prefer),
        )
        videos.append(video)
    return tuple(videos)


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


def import_eaf(path: Path, *, samples: Iterable[Sample], store: ReviewStore, reviewer: str) -> tuple[Action, ...]:
    """Keep what a reviewer changed in a document as corrections, and return them.

    Only what differs from the document as it was exported counts, so corrections by others since then stand; what the
    reviewer wants already is not kept again.
    Raises ``ValueError`` for a document that was not exported from this store and split, or that holds what no
    reference can.
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
    )
    now = list(fold_actions(actions).corrections.get(sample.video_id, ()))
    kept = []
    for correction in corrections:
        if not _is_wanted(sample, correction, now):
            now.append(correction)
            action = Action(kind="correction", reviewer=name, video_id=sample.video_id, correction=correction)
            kept.append(store.append(action))
    return tuple(kept)


def _is_wanted(sample: Sample, correction: Correction, now: list[Correction]) -> bool:
    """Say whether a correction is among those that count, and not superseded by a later one."""
    return correction in now and apply_corrections(sample, [*now, correction]) == apply_corrections(sample, now)
