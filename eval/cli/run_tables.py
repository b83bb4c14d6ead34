"""The commands that print tables of runs, the moments that match a search, and definitions."""

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from stepscope.engine.io.files import atomic_write, to_json, write_csv
from stepscope.engine.plurals import format_count
from stepscope.eval.cli.options import (
    JudgeOptions,
    LeaderboardOptions,
    MetricsOptions,
    NoteOptions,
    ProtocolsOptions,
    RunsOptions,
    SchemaOptions,
    SearchOptions,
)
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.grading import NamedJudge
from stepscope.eval.matching.turns import import_encoder
from stepscope.eval.metrics.definitions import to_markdown
from stepscope.eval.protocols.registry import PROTOCOLS
from stepscope.eval.protocols.registry import to_markdown as describe_protocols
from stepscope.eval.protocols.rules import parse_rules
from stepscope.eval.reports.leaderboard import (
    DEFAULT_METRICS,
    build_leaderboard,
    check_leaderboard_metrics,
    format_leaderboard,
    sort_leaderboard,
)
from stepscope.eval.reports.protocol_table import (
    build_protocol_table,
    format_differing_turns,
    format_protocols,
    list_differing_turns,
    tabulate_protocols,
)
from stepscope.eval.reports.run_list import filter_runs, find_run_folders, list_runs, tabulate_runs
from stepscope.eval.reports.scoring import read_run_scoring
from stepscope.eval.reports.search import describe_hits, search_folders
from stepscope.eval.reports.table_formats import format_table
from stepscope.eval.runs.folder import RunFolder, build_schema
from stepscope.eval.runs.notes import RunNotes, change_notes, split_tags
from stepscope.eval.runs.output_folder import lock_folder
from stepscope.eval.served.chat import ChatClient, Endpoint
from stepscope.eval.served.judge import CACHE_NAME, EndpointJudge


def leaderboard(options: LeaderboardOptions) -> int:
    """Print or write the leaderboard; return 1 if a video is left out."""
    metrics = options.metric or DEFAULT_METRICS
    check_leaderboard_metrics(metrics)
    if options.sort and options.sort not in metrics:
        raise ValueError(f"--sort {options.sort} must be one of the columns, {', '.join(metrics)}")
    runs = name_runs(options.runs)
    split = read_split(options.split or find_split(runs.values()))
    scoring = read_run_scoring(RunFolder(options.runs[0]))
    encode = import_encoder(scoring.text_encoder).encode
    board = build_leaderboard(runs, split, scoring, metrics=metrics, encode=encode, baselines=options.baselines)
    text = format_leaderboard(sort_leaderboard(board, options.sort), options.format)
    if options.out is None:
        sys.stdout.write(text)
    else:
        with atomic_write(options.out) as file:
            file.write(text)
        print(f"{format_count(len(board.rows), 'run')} written to {options.out}")
    return print_left_out(board.left_out)


def print_left_out(left_out: Mapping[str, Iterable[str]]) -> int:
    """Print the videos that are not in a table, each with the runs that have not finished it; return 1 if any."""
    for video_id, names in left_out.items():
        print(f"left out: {video_id}: not finished in {' and '.join(names)}", file=sys.stderr)
    return 1 if left_out else 0


def find_split(runs: Iterable[Path]) -> Path:
    """Return the split of runs. Raise ``ValueError`` if they are of different splits."""
    paths = [RunFolder(path).split_path() for path in runs]
    if len(set(paths)) > 1:
        raise ValueError(f"the runs are of different splits, {', '.join(map(str, paths))}; give --split")
    return paths[0]


def name_runs(paths: tuple[Path, ...]) -> dict[str, Path]:
    """Return the runs by the name of their folder; by their path below a common folder if names repeat."""
    whole = [path.resolve() for path in paths]
    if len(set(whole)) < len(whole):
        raise ValueError("a run is given twice; name each run once")
    names = [path.name for path in whole]
    if len(set(names)) < len(names):
        common = os.path.commonpath([path.parent for path in whole])
        names = [path.relative_to(common).as_posix() for path in whole]
    return dict(zip(names, whole, strict=True))


@contextmanager
def open_judge(options: JudgeOptions, folder: Path) -> Iterator[NamedJudge | None]:
    """Open the served judge, which keeps its answers in a run folder; None for the default one."""
    if not options.judge:
        yield None
        return
    if not options.judge_model.strip():
        raise ValueError("--judge-model is missing; name the model that grades")
    endpoint = Endpoint(url=options.judge, model=options.judge_model)
    if endpoint.is_stream:
        raise ValueError(f"a judge must be an http:// or https:// endpoint; got {options.judge}")
    with ChatClient(endpoint, is_judge=True) as client:
        judge = EndpointJudge(client, folder / CACHE_NAME)
        yield NamedJudge(name=judge.name, grade=judge)


def protocols(options: ProtocolsOptions) -> int:
    """Print the definitions without a run, else the scores of the runs; return 1 if a video is left out."""
    if not options.runs:
        sys.stdout.write(describe_protocols())
        return 0
    rules = parse_rules(options.protocol or tuple(PROTOCOLS))
    runs = name_runs(options.runs)
    split = read_split(options.split or find_split(runs.values()))
    encoder = read_run_scoring(RunFolder(options.runs[0])).text_encoder
    encode = import_encoder(encoder).encode
    lock = lock_folder(options.runs[0]) if options.judge else nullcontext()
    with lock, open_judge(options, options.runs[0]) as judge:
        table = build_protocol_table(
            runs, split, rules, encode=encode, text_encoder=encoder, judge=judge, baselines=options.baselines
        )
        if options.out is not None:
            write_csv(options.out, tabulate_protocols(table))
        sys.stdout.write(format_protocols(table, latex=options.latex))
        for name, path in runs.items() if options.turns else ():
            turns = list_differing_turns(path, split, rules, encode=encode, judge=judge)
            sys.stdout.write(f"\nTurns of {name} that count differently:\n\n{format_differing_turns(turns)}")
    return print_left_out(table.left_out)


_MOMENT_COLUMNS = ("run", "video_id", "time_s", "what", "failure", "text", "reference", "margin")


def search_runs(options: SearchOptions) -> int:
    """Print the moments; return 1 if there is none; raise ``ValueError`` without a run."""
    if (Path(options.query) / "run.json").is_file():
        raise ValueError(f"{options.query} is a run folder; name the query first: stepscope search QUERY RUN")
    if not options.runs:
        raise ValueError("name at least one run folder after the query")
    found = search_folders(name_runs(options.runs), options.query)
    if options.out is not None:
        write_csv(options.out, found.to_dict("records"), columns=list(found))  # type: ignore[arg-type]
    rows = [
        [_cell(value) for value in row]
        for row in found[list(_MOMENT_COLUMNS)].head(options.limit).itertuples(index=False)
    ]
    sys.stdout.write(format_table(_MOMENT_COLUMNS, rows, latex=False) if rows else "")
    shown = f"; the first {len(rows)} are shown" if len(rows) < len(found) else ""
    print(f"{describe_hits(found)}{shown}", file=sys.stderr)
    return 0 if len(found) else 1


def _cell(value: object, *, max_chars: int | None = None) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    text = " ".join(str(value).split())
    return text if max_chars is None or len(text) <= max_chars else f"{text[: max_chars - 1]}…"


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
    cells = [{name: _cell(value, max_chars=60) for name, value in row.items()} for row in rows]
    shown = [name for name in (cells[0] if cells else ()) if any(row[name] for row in cells)]
    if rows:
        sys.stdout.write(format_table(shown, [[row[name] for name in shown] for row in cells], latex=False))
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


def print_metrics(_: MetricsOptions) -> int:
    """Print ``docs/metrics.md``."""
    sys.stdout.write(to_markdown())
    return 0


def print_schema(_: SchemaOptions) -> int:
    """Print ``docs/run-folder.schema.json``."""
    sys.stdout.write(to_json(build_schema(), indent=1) + "\n")
    return 0
