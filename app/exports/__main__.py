"""Command line of exports and reviews: ``write``, ``traces``, ``split``, ``import`` of .eaf files, ``agreement``.

Exit codes: 0 all well; 1 done, but reviewers disagree on a correction, or one does not fit, or a video's outputs cannot
be read (each has its line); 2 wrong use, or a file or store that does not fit, with one line why.
"""

import argparse

from engine.interrupts import exit_code, exit_on_interrupt, handle_interrupts

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from app.exports.corrected_split import PATH_BASES, SplitSource, write_corrected_split
from app.exports.elan_edits import MissingTierError
from app.exports.folder import EXPORT_FORMS, correct_samples, gather_videos, import_eaf, write_export
from app.formatting import tell_wishes
from app.reviews.history import read_review
from app.reviews.review import Review, fold_actions, review_agreement, review_disagreements
from app.reviews.store import check_place, open_store
from engine.errors import EngineError
from engine.io import write_json
from eval.annotations.corrected_samples import CorrectedSample
from eval.annotations.corrections import TurnName
from eval.data.loading import digest_split, read_samples
from eval.data.samples import Sample
from eval.data.writers import FILE_FORMATS, OPTIONAL_FIELDS, UnsupportedFieldError
from eval.runs.folder import RunFolder
from eval.runs.traces import read_provenance, traced_videos, write_traces

STORE = Path("runs") / "reviews.sqlite"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        with handle_interrupts():
            return int(options.work(options))
    except UnsupportedFieldError as error:
        print(f"error: {error.problem}; give --without {error.field}, or --form manifest", file=sys.stderr)
        return 2
    except (EngineError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print("stopped", file=sys.stderr)
        return exit_code(interrupt)


def write(options: argparse.Namespace) -> int:
    """Write predictions, references, states, verdicts and corrections of a run."""
    run = RunFolder(options.run)
    split = options.split or _split_of(run)
    review = _read_review(options.reviews, prefer=options.prefer)
    videos = gather_videos(read_samples(split), review=review, run=run, prefer=options.prefer)
    name = options.split_name or re.sub(r"\W", "_", split.stem)
    write_export(options.out, videos, form=options.form, split=name)
    print(f"{len(videos)} videos: {options.out}")
    problems = [f"failed: {video.video_id}: {video.problem}" for video in videos if video.problem]
    return _tell([video.corrected for video in videos if video.corrected], problems)


def traces(options: argparse.Namespace) -> int:
    """Write a CSV row per frame of a run, and its provenance as JSON."""
    run = RunFolder(options.run)
    samples = read_samples(options.split or _split_of(run))
    absent = set(options.video) - {sample.video_id for sample in samples}
    if absent:
        raise ValueError(f"the split has no video {', '.join(sorted(absent))}; look at --video")
    source = read_provenance(run)
    chosen = [sample for sample in samples if not options.video or sample.video_id in options.video]
    path = options.out / f"{source.run}-traces.csv"
    write_traces(path, traced_videos(run, chosen))
    write_json(options.out / f"{source.run}-provenance.json", asdict(source))
    print(f"{len(chosen)} videos: {path}")
    return 0


def split(options: argparse.Namespace) -> int:
    """Write the references of a split as corrected."""
    review = _read_review(options.reviews, prefer=options.prefer)
    corrected = correct_samples(read_samples(options.split), review=review, prefer=options.prefer)
    write_corrected_split(
        options.out,
        corrected,
        form=options.form,
        source=SplitSource(name=options.split.name, path=options.split, digest=digest_split(options.split)),
        review=review,
        prefer=options.prefer,
        without=options.without,
        relative_to=options.relative_to,
    )
    print(f"{len(corrected)} videos: {options.out}")
    return _tell(corrected)


def read_eaf(options: argparse.Namespace) -> int:
    """Keep what was changed in ELAN documents as corrections."""
    samples: Sequence[Sample] = read_samples(options.split)
    with open_store(check_place(options.reviews) if options.reviews else STORE) as store:
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
            print(f"{len(actions)} corrections: {path}")
    return 0


def agreement(options: argparse.Namespace) -> int:
    """Print how far reviewers agree, then what they do not agree on."""
    review = _read_review(options.reviews)
    print(f"{'verdict':16} {'events':>6} {'raw':>7} {'kappa':>7} {'alpha':>7}")
    for found in review_agreement(review):
        print(f"{found.verdict or 'all':16} {found.num_items:6} {found.raw:7.3f} {found.kappa:7.3f} {found.alpha:7.3f}")
    for event, differing in review_disagreements(review):
        said = ", ".join(f"{who}: {verdict}" for who, verdict in differing.verdicts.items())
        print(f"{event.video_id} {event.time_s:g} s, {event.kind} {event.text!r}: {said}")
    return 0


def _split_of(run: RunFolder) -> Path:
    settings = run.settings()
    if settings is None or not isinstance(settings.get("split"), str):
        raise ValueError(f"{run.path} holds no run of a split; name the folder that `python -m eval run` wrote")
    return Path(settings["split"])


def _read_review(where: str | None, *, prefer: Sequence[str] = ()) -> Review:
    """Return the present state of a store. Without a name the usual one may be missing: nothing was said yet.

    Raises ``ValueError`` for somebody to ``prefer`` who corrected nothing.
    """
    review = fold_actions([]) if where is None and not STORE.exists() else _read_store(where)
    known = sorted({correction.reviewer for found in review.corrections.values() for correction in found})
    for name in prefer:
        if name not in known:
            raise ValueError(
                f"--prefer {name}: no correction is theirs; there are those of {', '.join(known) or 'nobody'}"
            )
    return review


def _read_store(where: str | None) -> Review:
    if where is not None and "://" not in where and not Path(where).exists():
        raise ValueError(f"there is no store of reviews at {where}; look at --reviews")
    with open_store(check_place(where) if where else STORE) as store:
        review = read_review(store)
    for line in review.unreadable:
        print(f"warning: {line}", file=sys.stderr)
    return review


def _tell(corrected: Sequence[CorrectedSample], problems: Sequence[str] = ()) -> int:
    """Print the problems, then which corrections do not count, and why; return the exit code."""
    lines = list(problems)
    for found in corrected:
        video_id = found.sample.video_id
        for conflict in found.conflicts:
            wishes = tell_wishes(conflict.proposals)
            lines.append(f"conflict: {video_id}, {_turn(conflict.turn)}, its {conflict.aspect}: {wishes}")
        for unusable in found.unusable:
            reviewer, turn = unusable.correction.reviewer, unusable.correction.turn
            lines.append(f"unusable: {video_id}, {_turn(turn)}, by {reviewer}: {unusable.reason}")
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


def _turn(name: TurnName) -> str:
    return f"{name.role} at {name.time_s:g} s {name.text!r}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m app.exports", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--reviews", help=f"store: a file, or an SQLAlchemy URL (default: {STORE})")
    prefer = argparse.ArgumentParser(add_help=False)
    prefer.add_argument("--prefer", action="append", default=[], metavar="NAME", help="who counts in a conflict")

    export = commands.add_parser("write", parents=[common, prefer], help=write.__doc__)
    export.add_argument("run", type=Path, help="folder that `python -m eval run` wrote")
    export.add_argument("--form", choices=EXPORT_FORMS, required=True)
    export.add_argument("--out", type=Path, required=True, help="folder to write into")
    export.add_argument("--split", type=Path, help="file of the references (default: that of the run)")
    export.add_argument("--split-name", help="what a dataset folder calls it (default: after the file)")
    export.set_defaults(work=write)

    traced = commands.add_parser("traces", help=traces.__doc__)
    traced.add_argument("run", type=Path, help="folder that `python -m eval run` wrote")
    traced.add_argument("--out", type=Path, required=True, help="folder to write into")
    traced.add_argument("--split", type=Path, help="file of the references (default: that of the run)")
    traced.add_argument("--video", action="append", default=[], metavar="ID", help="only this video; may be repeated")
    traced.set_defaults(work=traces)

    corrected = commands.add_parser("split", parents=[common, prefer], help=split.__doc__)
    corrected.add_argument("split", type=Path, help="file of the references")
    corrected.add_argument("--form", choices=FILE_FORMATS, default="manifest")
    corrected.add_argument("--out", type=Path, required=True, help="file to write")
    corrected.add_argument("--without", action="append", default=[], choices=OPTIONAL_FIELDS, help="what to leave out")
    corrected.add_argument(
        "--relative-to",
        choices=PATH_BASES,
        default="out",
        help="what a manifest's video paths are relative to: FILE, or the split, as in the page's export",
    )
    corrected.set_defaults(work=split)

    imported = commands.add_parser("import", parents=[common], help=read_eaf.__doc__)
    imported.add_argument("files", type=Path, nargs="+", metavar="FILE.eaf")
    imported.add_argument("--split", type=Path, required=True, help="file of the references")
    imported.add_argument("--reviewer", required=True, metavar="NAME", help="in whose name")
    imported.add_argument(
        "--allow-deletions",
        action="store_true",
        help="delete the turns of a tier that is missing; without it such a document is refused",
    )
    imported.set_defaults(work=read_eaf)

    measured = commands.add_parser("agreement", parents=[common], help=agreement.__doc__)
    measured.set_defaults(work=agreement)
    return parser


if __name__ == "__main__":
    sys.exit(main())
