"""``runs`` lists the runs of a folder; ``note`` writes the notes of one."""

import math
import sys
from dataclasses import replace

from stepscope.engine.io.files import Cell, write_csv
from stepscope.engine.plurals import format_count
from stepscope.eval.cli.options import NoteOptions, RunsOptions
from stepscope.eval.reports.leaderboard import DEFAULT_METRICS
from stepscope.eval.reports.run_list import filter_runs, find_run_folders, list_runs, tabulate_runs
from stepscope.eval.reports.table_formats import format_table
from stepscope.eval.runs.notes import RunNotes, change_notes, split_tags


def print_runs(options: RunsOptions) -> int:
    """Print the table of the runs of a folder; return 1 if a file of one is damaged."""
    if not options.folder.is_dir():
        raise ValueError(f"{options.folder} is no folder; name the folder that holds the run folders")
    found = filter_runs(list_runs(find_run_folders(options.folder)), options.search)
    runs = [run for run in found if options.archived or not run.notes.archived]
    known = {name for run in runs for name in run.scores}
    rows = tabulate_runs(runs, options.metric or [name for name in DEFAULT_METRICS if name in known])
    if options.csv is not None:
        write_csv(options.csv, rows)
    shown = [name for name in (rows[0] if rows else ()) if any(_text(row[name]) for row in rows)]
    if rows:
        sys.stdout.write(format_table(shown, [[_text(row[name]) for name in shown] for row in rows], latex=False))
    num_hidden = len(found) - len(runs)
    hidden = f"; {num_hidden} archived, shown with --archived" if num_hidden else ""
    print(f"{format_count(len(runs), 'run')}{hidden}", file=sys.stderr)
    for run in runs:
        if run.problem:
            print(f"damaged: {run.name}: {run.problem}", file=sys.stderr)
    return 1 if any(run.problem for run in runs) else 0


def write_note(options: NoteOptions) -> int:
    """Change the notes of a run, and print them."""
    if options.archive and options.unarchive:
        raise ValueError("choose --archive or --unarchive")

    def change(notes: RunNotes) -> RunNotes:
        removed = split_tags(options.untag)
        return replace(
            notes,
            note=notes.note if options.note is None else options.note,
            tags=tuple(tag for tag in split_tags([*notes.tags, *options.tag]) if tag not in removed),
            group=notes.group if options.group is None else options.group,
            archived=options.archive or (notes.archived and not options.unarchive),
        )

    notes = change_notes(options.run, change)
    words = {"note": notes.note, "tags": ", ".join(notes.tags), "group": notes.group}
    words["archived"] = "yes" if notes.archived else ""
    for name, text in words.items():
        if text:
            print(f"{name:<9}{text}")
    return 0


def _text(value: Cell) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
