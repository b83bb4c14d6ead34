"""The commands of exports and reviews."""

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from stepscope.app.core.slices import read_slices, slices_path
from stepscope.app.exports.corrected_split import write_corrected_split
from stepscope.app.exports.elan_edits import MissingTierError
from stepscope.app.exports.folder import correct_samples, gather_videos, import_eaf
from stepscope.app.exports.formats import write_export
from stepscope.app.exports.options import (
    STORE,
    AgreementOptions,
    AssignOptions,
    ImportOptions,
    PruneOptions,
    SplitOptions,
    TracesOptions,
    WriteOptions,
)
from stepscope.app.exports.rows import explain_no_predictions
from stepscope.app.formatting import format_wishes
from stepscope.app.review_store.assignments import assign_videos, measure_work, measure_workloads, read_assignments
from stepscope.app.review_store.database import check_store_location
from stepscope.app.review_store.review import (
    Review,
    describe_calibration,
    fold_actions,
    measure_programs,
    review_agreement,
    review_disagreements,
)
from stepscope.app.review_store.store import open_store, read_review
from stepscope.engine.io.files import digest_file, replace_files, write_json
from stepscope.engine.plurals import format_count
from stepscope.eval.annotations.corrected_samples import CorrectedSample
from stepscope.eval.annotations.corrections import TurnName
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.data.writers import UnsupportedFieldError
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.provenance import iter_traced_videos, read_provenance, write_traces


def write(options: WriteOptions) -> int:
    """Write predictions, references, states, verdicts and corrections of a run."""
    run = None if options.run.is_file() else RunFolder(options.run)
    split = options.split or (options.run if run is None else run.split_path())
    review = _read_review(options.reviews, prefer=options.prefer)
    videos = gather_videos(read_samples(split), review=review, run=run, prefer=options.prefer)
    name = options.split_name or re.sub(r"\W", "_", split.stem)
    write_export(options.out, videos, file_format=options.format, split=name)
    print(f"{format_count(len(videos), 'video')}: {options.out}")
    if problem := explain_no_predictions(videos):
        print(problem, file=sys.stderr)
    problems = [f"failed: {video.video_id}: {video.problem}" for video in videos if video.problem]
    return _report([video.corrected for video in videos if video.corrected], problems)


def traces(options: TracesOptions) -> int:
    """Write one CSV row per frame of a run, and the run's provenance as JSON."""
    run = RunFolder(options.run)
    samples = read_samples(options.split or run.split_path())
    absent = set(options.video) - {sample.video_id for sample in samples}
    if absent:
        raise ValueError(f"the split has no video {', '.join(sorted(absent))}; check --video")
    source = read_provenance(run)
    chosen = [sample for sample in samples if not options.video or sample.video_id in options.video]
    name = f"{source.run}-traces.csv"
    with replace_files(options.out) as new:
        write_traces(new / name, iter_traced_videos(run, chosen), signals=run.signals())
        write_json(new / f"{source.run}-provenance.json", asdict(source))
    print(f"{format_count(len(chosen), 'video')}: {options.out / name}")
    return 0


def split(options: SplitOptions) -> int:
    """Write a split with corrected references."""
    review = _read_review(options.reviews, prefer=options.prefer)
    path = options.split
    source = Split(path=path, entries=tuple(read_samples(path)), digest=digest_file(path))
    corrected = correct_samples(source.samples, review=review, prefer=options.prefer)
    try:
        write_corrected_split(
            options.out,
            corrected,
            file_format=options.format,
            source=source,
            review=review,
            prefer=options.prefer,
            omit=options.omit,
            relative_to=options.relative_to,
        )
    except UnsupportedFieldError as error:
        raise ValueError(f"{error.problem}; give --omit {error.field}, or --format manifest") from error
    print(f"{format_count(len(corrected), 'video')}: {options.out}")
    return _report(corrected)


def read_eaf(options: ImportOptions) -> int:
    """Store the changes of edited ELAN documents as corrections."""
    samples: Sequence[Sample] = read_samples(options.split)
    with open_store(check_store_location(options.reviews) if options.reviews else STORE) as store:
        for path in options.files:
            try:
                actions = import_eaf(
                    path,
                    samples=samples,
                    store=store,
                    reviewer=options.reviewer,
                    allow_deletions=options.allow_deletions,
                )
            except MissingTierError as error:
                raise ValueError(f"{error}, or give --allow-deletions") from error
            print(f"{format_count(len(actions), 'correction')}: {path}")
    return 0


def agreement(options: AgreementOptions) -> int:
    """Print the agreement of the reviewers, then the events with differing verdicts."""
    review = _read_review(options.reviews)
    print(f"{'verdict':16} {'events':>6} {'raw':>7} {'kappa':>7} {'alpha':>7}")
    for found in review_agreement(review):
        print(f"{found.verdict or 'all':16} {found.num_items:6}{_format(found.raw, found.kappa, found.alpha)}")
    for one in measure_programs(review):
        values = _format(one.agreement.raw, one.agreement.kappa, one.agreement.alpha)
        print(f"{one.reviewer} and people, {format_count(one.agreement.num_items, 'event')}:{values}")
        print(f"  {describe_calibration(one)}" if one.calibration else "  no verdict with a confidence")
    for event, differing in review_disagreements(review):
        verdicts = ", ".join(f"{reviewer}: {verdict}" for reviewer, verdict in differing.verdicts.items())
        print(f"{event.video_id} {event.time_s:g} s, {event.kind} {event.text!r}: {verdicts}")
    return 0


def prune(options: PruneOptions) -> int:
    """Print how many actions fit the options; with ``apply`` set them aside, or apply them again."""
    filters = {"reviewer": options.reviewer, "video_id": options.video, "since": _read_time(options.since)}
    if not any(filters.values()):
        raise ValueError("give --reviewer, --video or --since, which select the actions")
    if "://" not in (where := options.reviews or str(STORE)) and not Path(where).exists():
        raise ValueError(f"the review store {where} does not exist; check --reviews")
    with open_store(where) as store:
        found = store.count_matching(is_aside=options.restore, **filters)
        if options.apply:
            (store.restore if options.restore else store.set_aside)(**filters)
    print(f"{'reviewer':20} {'actions':>7}  video")
    for reviewer, video_id, number in found:
        print(f"{reviewer:20} {number:7}  {video_id}")
    done = "applied again" if options.restore else "set aside"
    total = format_count(sum(number for *_, number in found), "action")
    print(f"{total} {done}" if options.apply else f"{total} would be {done}; add --apply to do it")
    return 0


def _read_time(text: str | None) -> str | None:
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone(UTC).isoformat()
    except ValueError as error:
        raise ValueError(f"--since must be a time such as 2026-05-01T14:00; got {text!r}") from error


def assign(options: AssignOptions) -> int:
    """Assign videos of a run, then print what each reviewer has done."""
    run = None if options.run.is_file() else RunFolder(options.run)
    path = options.run if run is None else run.split_path()
    samples, name = read_samples(path), "" if run is None else run.path.resolve().name
    if options.slice is not None:
        slices = read_slices(slices_path(STORE.parent if run is None else run.path.resolve().parent, path))
        if options.slice not in slices:
            raise ValueError(f"there is no slice {options.slice!r}; slices: {', '.join(slices) or 'none'}")
        samples = [sample for sample in samples if sample.video_id in slices[options.slice]]
    with open_store(check_store_location(options.reviews) if options.reviews else STORE) as store:
        if options.to is not None:
            assign_videos(
                store,
                measure_work(samples, run),
                run=name,
                to=[part for part in options.to.split(",") if part.strip()],
                overlap_percent=options.overlap,
                by=options.by,
                seed=options.seed,
            )
        ids = {sample.video_id for sample in samples}
        found = [each for each in read_assignments(store, run=name) if each.video_id in ids]
        review = read_review(store)
    num_shared = sum(len(each.reviewers) > 1 for each in found)
    part = f" ({num_shared / len(found):.0%})" if num_shared else ""
    print(f"{format_count(len(found), 'video')} assigned, {num_shared} of them{part} to several reviewers")
    print(f"{'reviewer':20} {'videos':>6} {'done':>6} {'verdicts':>8} {'shared':>6} {'raw':>7} {'kappa':>7}")
    for load in measure_workloads(found, review):
        print(
            f"{load.reviewer:20} {load.num_assigned:6} {load.num_done:6} {load.num_verdicts:8} "
            f"{load.agreement.num_items:6}{_format(load.agreement.raw, load.agreement.kappa)}"
        )
    return 0


def _format(*values: float) -> str:
    return "".join(f" {'-' if math.isnan(value) else f'{value:.3f}':>7}" for value in values)


def _read_review(where: str | None, *, prefer: Sequence[str] = ()) -> Review:
    """Return the state of the store at a path or URL; by default of ``STORE``, which may be missing.

    Raises ``ValueError`` if a reviewer in ``prefer`` has no correction.
    """
    review = fold_actions([]) if where is None and not STORE.exists() else _read_store(where)
    known = sorted({correction.reviewer for found in review.corrections.values() for correction in found})
    for name in prefer:
        if name not in known:
            raise ValueError(
                f"--prefer {name}: this reviewer has no corrections; reviewers with corrections: "
                f"{', '.join(known) or 'none'}"
            )
    return review


def _read_store(where: str | None) -> Review:
    if where is not None and "://" not in where and not Path(where).exists():
        raise ValueError(f"the review store {where} does not exist; check --reviews")
    with open_store(check_store_location(where) if where else STORE) as store:
        review = read_review(store)
    for line in review.unreadable:
        print(f"warning: {line}", file=sys.stderr)
    return review


def _report(corrected: Sequence[CorrectedSample], problems: Sequence[str] = ()) -> int:
    """Print the problems, then the conflicting and unusable corrections; return the exit code."""
    lines = list(problems)
    for found in corrected:
        video_id = found.sample.video_id
        for conflict in found.conflicts:
            wishes = format_wishes(conflict.proposals)
            lines.append(f"conflict: {video_id}, {_turn(conflict.turn)}, {conflict.aspect}: {wishes}")
        for unusable in found.unusable:
            reviewer, turn = unusable.correction.reviewer, unusable.correction.turn
            lines.append(f"unusable: {video_id}, {_turn(turn)}, by {reviewer}: {unusable.reason}")
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


def _turn(name: TurnName) -> str:
    return f"{name.role} at {name.time_s:g} s {name.text!r}"
