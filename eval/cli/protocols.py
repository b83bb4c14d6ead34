"""``protocols``: the definitions of the published protocols, or runs under several of them side by side."""

import sys

from stepscope.engine.io.files import write_csv
from stepscope.eval.cli.judge import open_judge
from stepscope.eval.cli.leaderboard import find_split, name_runs, print_left_out
from stepscope.eval.cli.options import ProtocolsOptions
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.text_encoder import import_encoder
from stepscope.eval.protocols.document import to_markdown
from stepscope.eval.protocols.registry import PROTOCOLS
from stepscope.eval.protocols.rules import parse_rules
from stepscope.eval.reports.protocol_table import (
    build_protocol_table,
    format_differing_turns,
    format_protocols,
    list_differing_turns,
    tabulate_protocols,
)
from stepscope.eval.reports.scoring import read_run_scoring
from stepscope.eval.runs.folder import RunFolder


def protocols(options: ProtocolsOptions) -> int:
    """Print the definitions without a run, else the scores of the runs; return 1 if a video is left out."""
    if not options.runs:
        sys.stdout.write(to_markdown())
        return 0
    rules = parse_rules(options.protocol or tuple(PROTOCOLS))
    runs = name_runs(options.runs)
    split = read_split(options.split or find_split(runs.values()))
    encoder = read_run_scoring(RunFolder(options.runs[0])).text_encoder
    encode = import_encoder(encoder).encode
    with open_judge(options, options.runs[0]) as judge:
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
