"""The tab *Protocols*: one run, or two, under several published protocols side by side.

``eval.reports.protocol_table`` scores the runs, also for the command line.
"""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.batch.file_rows import ENDINGS, make_table_row
from stepscope.app.batch.runs.videos import describe_text
from stepscope.app.controls.widgets import AT_ONCE, SCORING, Updates, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.results import format_interval
from stepscope.app.core.run import file_name
from stepscope.app.formatting import as_sentence, format_score
from stepscope.app.player import opening
from stepscope.app.player.commands import InPlayer
from stepscope.app.player.views import PlayerView, status_line
from stepscope.app.templates import render
from stepscope.app.window.context import AppContext
from stepscope.app.window.landing import Destination
from stepscope.engine.io.files import write_csv
from stepscope.engine.plurals import format_count
from stepscope.engine.records import Step
from stepscope.eval.annotations.corrections import TurnName
from stepscope.eval.protocols import PROTOCOLS
from stepscope.eval.protocols.rules import Rule, parse_rules
from stepscope.eval.reports import protocol_table
from stepscope.eval.reports.statistics import SIGNIFICANCE_LEVEL
from stepscope.eval.reports.table_formats import TableFormat

FIRST_PROTOCOLS: Final = ("streampro-ou", "spot-pnr", "ovo-timing", "omnipro", "qevd-tf", "egoproactive")
TURN_HEADERS: Final = ["Video", "Second", "Run", "Reference", "Counts under", "Does not count under"]


class ShownProtocols(NamedTuple):
    """The shown table with the names of its runs; the window may show a different run by now."""

    runs: tuple[str, ...]
    table: protocol_table.ProtocolTable
    turns: Mapping[str, Sequence[protocol_table.DifferingTurn]]
    """Turns that count differently, by run."""
    finished: Set[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolsForm:
    """The shown run, the run beside it, and the protocols."""

    run: Any
    other: Any
    protocols: Any

    @property
    def names(self) -> tuple[str, ...]:
        """The names of both runs, or of one."""
        return tuple(dict.fromkeys(filter(None, (self.run, self.other))))


def show(context: AppContext, batches: BatchContext, form: ProtocolsForm) -> Iterator[Updates]:
    """Yield that runs are being scored, which takes seconds, then their scores under the chosen protocols."""
    if form.run:
        yield Updates(said=status_line(f"Scoring {form.run}."))
    try:
        shown = _score(context, batches, form)
    except (ValueError, OSError) as error:
        said = status_line(as_sentence(error), is_problem=bool(form.run))
        yield Updates(shown=None, said=said, cards="", turns=[])
        return
    yield Updates(
        shown=shown,
        said=status_line(_describe(shown)),
        cards=render("protocols", cards=[_draw_card(shown, *found) for found in shown.table.list_defined()]),
        turns=_list_turns(batches, shown),
    )


def show_again(
    context: AppContext,
    batches: BatchContext,
    is_opened: bool,
    shown: ShownProtocols | None,
    form: ProtocolsForm,
) -> Iterator[Updates]:
    """Score again for another shown run, or once it has ended, if the tab has been opened.

    A link may open the tab before there is a run.
    """
    if not is_opened or not form.run or (shown is not None and _is_current(batches, shown, form.names)):
        yield Updates()
    else:
        yield from show(context, batches, form)


def _is_current(batches: BatchContext, shown: ShownProtocols, names: tuple[str, ...]) -> bool:
    if shown.runs != names:
        return False
    return batches.is_streaming(*names) or shown.finished == batches.list_finished(*names)


def _score(context: AppContext, batches: BatchContext, form: ProtocolsForm) -> ShownProtocols:
    names = form.names
    if not form.run:
        raise ValueError("choose a run")
    if not form.protocols:
        raise ValueError("choose protocols")
    split, rules = batches.need_common_split(*names), parse_rules(form.protocols)
    finished = batches.list_finished(*names)
    encoder = batches.scoring_of(batches.settings_of(form.run)).text_encoder
    runs = {one: batches.folder(one) for one in names}
    table = protocol_table.build_protocol_table(runs, split, rules, encode=context.encode, text_encoder=encoder)
    turns = {
        run: protocol_table.list_differing_turns(path, split, rules, encode=context.encode)
        for run, path in runs.items()
    }
    return ShownProtocols(runs=names, table=table, turns=turns, finished=finished)


def _describe(shown: ShownProtocols) -> str:
    table = shown.table
    sides = ", ".join(f"{letter} is {name}" for letter, name in zip("AB", shown.runs, strict=False))
    omitted = format_count(len(table.left_out), "video is", "videos are")
    undefined = {row.rule.name: row.problem for row in table.rows if row.problem}
    words = [
        f"{sides}." if len(shown.runs) > 1 else "",
        protocol_table.describe_order(table),
        f"{table.basis[0].upper()}{table.basis[1:]}",
        f"{omitted} left out: not finished in both." if table.left_out else "",
        "" if any(shown.turns.values()) else "Every reference turn counts alike under them: the table is empty.",
        *(f"{rule} is undefined: {problem}." for rule, problem in undefined.items()),
    ]
    return " ".join(filter(None, words))


def _draw_card(shown: ShownProtocols, rule: Rule, rows: Sequence[protocol_table.ProtocolRow]) -> Mapping[str, Any]:
    return {
        "rule": rule,
        "judge": shown.table.name_judge(rule),
        "encoder": shown.table.text_encoder,
        "runs": shown.runs,
        "rows": [_draw_row(shown, row) for row in rows],
    }


def _draw_row(shown: ShownProtocols, row: protocol_table.ProtocolRow) -> Mapping[str, Any]:
    found = None if row.difference is None or math.isnan(row.difference.difference) else row.difference
    return {
        "score": row.score,
        "is_main": row.is_main,
        "values": [
            (format_score(one.value), format_interval([one.interval.low, one.interval.high]))
            for one in (row.runs[name] for name in shown.runs)
        ],
        "difference": "" if found is None else f"{found.difference:+.3f}".replace("+0.000", "0.000"),
        "p_value": "" if found is None else f"{found.p_value:.3f}",
        "is_significant": found is not None and found.p_value < SIGNIFICANCE_LEVEL,
    }


def _list_turns(batches: BatchContext, shown: ShownProtocols) -> list[list[str | float]]:
    names = batches.video_names(shown.runs[0])
    return [
        [
            names.get(turn.video_id, turn.video_id),
            turn.time_s,
            run,
            describe_text(turn.text, _find_steps(batches, shown, turn.video_id)),
            ", ".join(turn.met),
            ", ".join(turn.missed),
        ]
        for run, turns in shown.turns.items()
        for turn in turns
    ]


def _find_steps(batches: BatchContext, shown: ShownProtocols, video_id: str) -> Sequence[Step]:
    sample = batches.find_sample(shown.runs[0], video_id)
    return sample.steps if sample is not None else ()


def open_turn(
    context: AppContext, batches: BatchContext, shown: ShownProtocols | None, event: gr.SelectData
) -> PlayerView:
    """Show a turn that counts differently in the player, its run above."""
    if shown is None:
        return opening.refuse(ValueError("no run is shown; choose one"))
    short_name, time_s, run, text, *_ = event.row_value
    video_id = batches.find_video(shown.runs[0], str(short_name))
    steps = _find_steps(batches, shown, video_id)
    alike = (one for one in shown.turns.get(run, ()) if (one.video_id, one.time_s) == (video_id, time_s))
    turn = next((one for one in alike if describe_text(one.text, steps) == text), None)
    name = None if turn is None else TurnName(role=turn.role, time_s=turn.time_s, text=turn.text)
    return opening.open_moment(
        context,
        batches,
        video_id,
        names=shown.runs,
        destination=Destination(at=float(time_s), turn=name),
        is_b_above=run != shown.runs[0],
    )


def write_table(folder: Path, table_format: TableFormat, shown: ShownProtocols | None) -> Path:
    """Write the shown table into a folder. Raises ``ValueError`` without one."""
    if shown is None or table_format not in ENDINGS:
        raise ValueError("there is no table; choose a run and protocols")
    path = folder / file_name(*shown.runs, f"protocols.{ENDINGS[table_format]}")
    if table_format == "csv":
        write_csv(path, protocol_table.tabulate_protocols(shown.table))
    else:
        write = protocol_table.format_protocols if len(shown.runs) == 1 else protocol_table.format_protocol_differences
        path.write_text(write(shown.table, latex=table_format == "latex"), encoding="utf-8")
    return path


def make_protocols_panel(
    context: AppContext, batches: BatchContext, *, runs: Any, other: Any, here: Any, batch: Any, in_player: InPlayer
) -> None:
    """Lay out and wire the tab: the ticked runs under the chosen protocols; a click on a turn opens it."""
    shown, opened = gr.State(None), gr.State(False)
    protocols = gr.Dropdown(
        list(PROTOCOLS),
        value=list(FIRST_PROTOCOLS),
        label="What would it be under … (also with own parameters, such as spot-pnr:k=1)",
        multiselect=True,
        allow_custom_value=True,
        elem_id="protocols",
    )
    with gr.Row(elem_id="protocols_files"):
        make_table_row("protocols", write_table, [shown])
    said = make_status_line("protocols_said")
    cards = gr.HTML(elem_id="protocol_cards", padding=False)
    turns = gr.Dataframe(
        headers=TURN_HEADERS,
        datatype=["str", "number", "str", "str", "str", "str"],
        interactive=False,
        max_height=320,
        label="Reference turns that count under some of the protocols only: click a row to open it in the player",
        column_widths=["14%", "8%", "12%", "28%", "19%", "19%"],
        wrap=True,
        elem_id="protocol_turns",
    )
    view = {"shown": shown, "said": said, "cards": cards, "turns": turns}
    form = ProtocolsForm(run=runs, other=other, protocols=protocols)
    options = {**SCORING, "show_progress_on": said}
    changes = [here.select, protocols.input]
    wire(partial(gr.on, changes), partial(show, context, batches), form, view, **options)
    here.select(lambda: True, None, opened, **AT_ONCE)
    again = [opened, shown, form]
    wire(
        partial(gr.on, [runs.change, other.change, batch.change]),
        partial(show_again, context, batches),
        again,
        view,
        **options,
    )
    in_player.wire(turns.select, partial(open_turn, context, batches), shown)
