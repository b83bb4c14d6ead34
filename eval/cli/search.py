"""``search``: the moments of runs that match a line of terms."""

import sys

from stepscope.engine.io.files import write_csv
from stepscope.engine.plurals import format_count
from stepscope.eval.cli.leaderboard import name_runs
from stepscope.eval.cli.options import SearchOptions
from stepscope.eval.reports.search import search_folders
from stepscope.eval.reports.table_formats import format_table

HEADS = ("run", "video_id", "time_s", "what", "failure", "text", "reference", "margin")


def search_runs(options: SearchOptions) -> int:
    """Print the moments; return 1 if there is none; raise ``ValueError`` without a run."""
    if not options.runs:
        raise ValueError("name at least one run folder after the query")
    found = search_folders(name_runs(options.runs), options.query)
    if options.out is not None:
        write_csv(options.out, found.to_dict("records"), columns=list(found))  # type: ignore[arg-type]
    rows = [[_cell(value) for value in row] for row in found[list(HEADS)].head(options.limit).itertuples(index=False)]
    sys.stdout.write(format_table(HEADS, rows, latex=False) if rows else "")
    shown = f"; the first {len(rows)} are shown" if len(rows) < len(found) else ""
    videos = format_count(found[["run", "video_id"]].drop_duplicates().shape[0], "video")
    print(f"{format_count(len(found), 'moment')} in {videos}{shown}", file=sys.stderr)
    return 0 if len(found) else 1


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if value == value else ""
    return " ".join(str(value).split())
