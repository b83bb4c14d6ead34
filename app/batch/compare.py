"""The tab *Compare*: the shown run, A, against a second run of the same split, B."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict
from functools import partial
from typing import Any, Final, NamedTuple

import gradio as gr
import plotly.graph_objects as go

from stepscope.app.batch import compare_tables
from stepscope.app.batch.file_rows import NamedFigure, make_figure_row
from stepscope.app.batch.runs.videos import describe_text
from stepscope.app.controls.widgets import LATEST, SCORING, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.figures.charts.layout import add_basis
from stepscope.app.figures.charts.registry import COMPARISON_CHARTS
from stepscope.app.figures.charts.videos import COMPARED_SCORES, score_distributions
from stepscope.app.formatting import as_sentence
from stepscope.app.player import opening
from stepscope.app.player.commands import InPlayer
from stepscope.app.player.component import make_chart, pack_chart
from stepscope.app.player.views import PlayerView
from stepscope.app.style.colours import Theme
from stepscope.app.window.context import AppContext
from stepscope.app.window.landing import WORST, Destination
from stepscope.engine.plurals import format_count
from stepscope.eval.annotations.corrections import TurnName
from stepscope.eval.data.samples import Role, Sample
from stepscope.eval.metrics.definitions import NUM_FAILURES, find_metric
from stepscope.eval.reports.compare_runs import FAILURE_SCORES, FEW_VIDEOS, ComparedVideo
from stepscope.eval.reports.scoring import describe_scoring
from stepscope.eval.reports.statistics import TESTS
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.provenance import read_provenance

NO_SECOND_RUN: Final = (
    "There is no other run of this split. Start one with other settings, or import one, to compare it"
)

TURNS_LABEL: Final = "Reference turns: click a row to open both runs in the player. A redundant message belongs to none"


class ComparedRuns(NamedTuple):
    """The compared runs; the window may show a different run by now."""

    a: str
    b: str
    videos: Sequence[ComparedVideo]
    finished: Set[str] = frozenset()


class CompareView(NamedTuple):
    """The outputs of the comparison."""

    compared: Any = gr.skip()
    said: Any = gr.skip()
    failures: Any = gr.skip()
    scores: Any = gr.skip()
    videos: Any = gr.skip()
    distribution: Any = gr.skip()
    turns: Any = gr.skip()
    roots: Any = gr.skip()


def compare(
    context: AppContext, batches: BatchContext, name: str | None, other: str | None, wrong_in: str, metric: str
) -> CompareView:
    """Compare the shown run ``name`` (A) with the run ``other`` (B)."""
    try:
        if not name or not other or name == other:
            is_alone = not batches.comparable_runs(name or "")
            raise ValueError(NO_SECOND_RUN if is_alone else "Tick two runs in the list")
        batches.need_common_split(name, other)
        finished = batches.list_finished(name, other)
        if not finished:
            lacking = [run for run in (name, other) if not batches.list_finished(run)]
            whose = f"{lacking[0]} has" if lacking else f"{name} and {other} together have"
            raise ValueError(f"{whose} no finished video to compare yet")
        found = batches.compare(name, other, encode=context.encode)
        a, b = (read_provenance(RunFolder(batches.folder(run))) for run in (name, other))
    except (ValueError, OSError) as error:
        videos, chart = sort_videos(batches, None, metric)
        nothing = {"failures": "", "scores": "", "turns": [], "roots": compare_tables.compared_roots(None, {})}
        return CompareView(None, as_sentence(error), videos=videos, distribution=chart, **nothing)
    left_out = format_count(len(found.left_out), "video is", "videos are")
    unfinished = f" {left_out} omitted: not finished in both." if found.left_out else ""
    said = (
        f"A is {name}, B is {other}; {format_count(len(found.videos), 'video')}. "
        f"{compare_tables.describe_sides(a, b)}{unfinished}"
        f"{_scoring_note(batches, name, other)} {TESTS}. Click a row to open both runs."
    )
    if found.states_problem:
        said += f" Updates and states are not compared, nor their failures: {found.states_problem}."
    if found.roots is None:
        problem = found.roots_problem or "neither run has a diagnosis"
        said += f" First mistakes are not compared: {problem}. Open such a run, and press Explain below its scores."
    if len(found.videos) < FEW_VIDEOS:
        said += f" With fewer than {FEW_VIDEOS} videos the intervals are too narrow; p is valid."
    compared = ComparedRuns(name, other, found.videos, finished)
    notes = (compare_tables.thresholds_of(a), compare_tables.thresholds_of(b))
    scores = {metric: score for metric, score in found.differences.items() if metric not in FAILURE_SCORES}
    videos, distribution = sort_videos(batches, compared, metric)
    return CompareView(
        compared=compared,
        said=said,
        failures=compare_tables.draw_differences(
            {name: score for name, score in found.differences.items() if name in FAILURE_SCORES},
            notes=notes,
            labels=found.labels,
        ),
        scores=compare_tables.draw_differences(scores, found.times_problem, notes=notes, is_folded=True),
        videos=videos,
        distribution=distribution,
        turns=choose_turns(batches, compared, wrong_in),
        roots=compare_tables.compared_roots(None if batches.is_blind else found, batches.video_names(name)),
    )


def compare_again(
    context: AppContext,
    batches: BatchContext,
    compared: ComparedRuns | None,
    *chosen: Any,
    is_after_choice: bool = False,
) -> CompareView:
    """Compare the chosen runs once they have a finished video, and at their end, or after a choice if others are shown.

    Of two comparisons at once, the older one may end last. ``chosen`` are the further arguments of ``compare``.
    """
    name, other, *_ = chosen
    if not name or not other or name == other:
        return CompareView()
    if compared is None or compared[:2] == (name, other):
        finished = compared.finished if compared is not None else set()
        is_partial = compared is not None and batches.is_streaming(name, other)
        if is_partial or finished == batches.list_finished(name, other):
            return CompareView()
    elif not is_after_choice:
        return CompareView()
    return compare(context, batches, *chosen)


def _scoring_note(batches: BatchContext, name: str, other: str) -> str:
    a, b = (batches.scoring_of(batches.settings_of(run)) for run in (name, other))
    different = "" if a == b else f" {other} was scored with different settings; here both are scored as {name} was."
    return f"{different} Scores: {_describe_scores(batches, name)}."


def _describe_scores(batches: BatchContext, name: str) -> str:
    """Return how the scores of a comparison are made, by the settings and the references of its first run."""
    settings = batches.settings_of(name)
    split = batches.split_of(settings)
    return describe_scoring(asdict(batches.scoring_of(settings)) | (split.origin if split is not None else {}))


def choose_turns(batches: BatchContext, compared: ComparedRuns | None, wrong_in: str) -> list[list[str | float]]:
    """Return the rows of the turns of compared runs that are wrong in ``wrong_in``."""
    split = None if compared is None else batches.split_of(batches.settings_of(compared.a))
    if compared is None or split is None:
        return []
    samples = {sample.video_id: sample for sample in split.samples}
    return compare_tables.compared_turns(compared.videos, samples, wrong_in, batches.video_names(compared.a))


def sort_videos(batches: BatchContext, compared: ComparedRuns | None, metric: str) -> tuple[Any, str]:
    """Return the table and the chart of the videos of compared runs by the score ``metric``."""
    if compared is None:
        return compare_tables.compared_videos((), metric), ""
    table = compare_tables.compared_videos(compared.videos, metric, batches.video_names(compared.a))
    revision = f"{compared.a} {compared.b} {metric}"
    return table, pack_chart(partial(_draw_scores, compared, metric), revision=revision)


def draw_comparison_chart(
    batches: BatchContext, compared: ComparedRuns | None, metric: str, name: str, theme: Theme
) -> NamedFigure:
    """Return the chart ``name`` of compared runs by the score ``metric``. Raises ``ValueError`` without two runs."""
    if compared is None or name not in COMPARISON_CHARTS or metric not in COMPARED_SCORES:
        raise ValueError("there is no chart; tick two runs in the list")
    figure = add_basis(_draw_scores(compared, metric, theme), _describe_scores(batches, compared.a))
    return NamedFigure(figure=figure, run=f"{compared.a}-{compared.b}")


def _draw_scores(compared: ComparedRuns, metric: str, theme: Theme) -> go.Figure:
    scores = [(video.video_id, video.scores[0][metric], video.scores[1][metric]) for video in compared.videos]
    return score_distributions(scores, metric, theme, names=compared[:2])


def open_both(
    context: AppContext, batches: BatchContext, compared: ComparedRuns | None, event: gr.EventData
) -> PlayerView:
    """Show the video of a row or a point in two runs at its worst moment, the run with more failures above."""
    video_id = opening.read_video(batches, compared.a if compared else None, event)
    video = next((video for video in (compared.videos if compared else ()) if video.video_id == video_id), None)
    if compared is None or video is None:
        return opening.refuse(ValueError("no runs are compared; choose two"))
    scores_a, scores_b = video.scores
    is_b_worse = scores_b.get(NUM_FAILURES, 0) > scores_a.get(NUM_FAILURES, 0)
    names, is_b_above = compared[:2], is_b_worse and _is_scored_alike(batches, compared)
    return opening.open_moment(context, batches, video_id, names=names, destination=WORST, is_b_above=is_b_above)


def open_turn(
    context: AppContext,
    batches: BatchContext,
    compared: ComparedRuns | None,
    event: gr.SelectData,
) -> PlayerView:
    """Show a turn, or a first mistake, in two runs; B is above if it is wrong only there."""
    if compared is None:
        return opening.refuse(ValueError("no runs are compared; choose two"))
    short_name, time_s, wrong_in, role, text = event.row_value
    video_id = batches.find_video(compared.a, str(short_name))
    is_only_b = wrong_in in ("only B", compare_tables.ROOT_WORDS["only B"])
    names, is_b_above = compared[:2], is_only_b and _is_scored_alike(batches, compared)
    is_turn = wrong_in not in compare_tables.ROOT_WORDS.values()
    sample = batches.find_sample(compared.a, video_id)
    turn = _find_turn(sample, role, float(time_s), text) if is_turn and sample is not None else None
    return opening.open_moment(
        context,
        batches,
        video_id,
        names=names,
        destination=Destination(at=float(time_s), turn=turn, selects_failure=turn is None),
        is_b_above=is_b_above,
    )


def _find_turn(sample: Sample, role: Role, time_s: float, words: str) -> TurnName:
    """Return the turn of a row, whose text is in words."""
    alike = (turn for turn in sample.turns if (turn.role, turn.time_s) == (role, time_s))
    text = next((turn.text for turn in alike if describe_text(turn.text, sample.steps) == words), words)
    return TurnName(role=role, time_s=time_s, text=text)


def _is_scored_alike(batches: BatchContext, compared: ComparedRuns) -> bool:
    """Whether B can be the upper run: else A is, since A's settings judge both."""
    a, b = (batches.scoring_of(batches.settings_of(name)) for name in compared[:2])
    return a == b


def make_compare_panel(
    context: AppContext, batches: BatchContext, *, runs: Any, other: Any, here: Any, batch: Any, in_player: InPlayer
) -> None:
    """Lay out and wire the comparison of both ticked runs; a click on a row opens both in the player."""
    compared = gr.State(None)
    with gr.Row():
        wrong_in = gr.Dropdown(compare_tables.WRONG_IN, value="only B", label="Reference turns wrong in", elem_id="who")
        choices = [(find_metric(name).label, name) for name in COMPARED_SCORES]
        metric = gr.Dropdown(choices, value=NUM_FAILURES, label="Videos by", elem_id="compare_by")
    said = make_status_line("compared")
    failures = gr.HTML(elem_id="compared_failures", padding=False)
    roots = _make_moments_table(compare_tables.ROOT_HEADERS, "compared_roots", visible=False)
    turns = _make_moments_table(compare_tables.TURN_HEADERS, "turns", label=TURNS_LABEL)
    with gr.Row():
        with gr.Column(scale=3, min_width=320):
            videos = _make_videos_table()
        with gr.Column(scale=2, min_width=320):
            distribution = make_chart("distribution", hint="Click a point to open both")
    shown, draw = [compared, metric], partial(draw_comparison_chart, batches)
    make_figure_row(COMPARISON_CHARTS, draw, shown, elem_id="comparison")
    scores, of_videos = gr.HTML(elem_id="differences", padding=False), (videos, distribution)
    view = CompareView(compared, said, failures, scores, *of_videos, turns, roots)

    def compare_chosen(name: Any, other: Any, wrong_in: Any, metric: Any) -> Iterator[CompareView]:
        yield CompareView(said=f"Comparing {name} with {other}." if name and other else gr.skip())
        yield compare(context, batches, name, other, wrong_in, metric)

    chosen, options = [runs, other, wrong_in, metric], {**SCORING, "show_progress_on": said}
    again, known = partial(compare_again, context, batches), [compared, *chosen]
    for event in (other.change, runs.change):  # each on its own: a choice is not dropped while the other is shown
        ended = wire(event, compare_chosen, chosen, view, **options)
        wire(ended.then, partial(again, is_after_choice=True), known, view, **options)
    # an opened tab, or a run that has ended
    wire(partial(gr.on, [here.select, batch.change]), again, known, view, **options)
    wire(metric.select, partial(sort_videos, batches), shown, of_videos, **LATEST)
    wrong_in.select(partial(choose_turns, batches), [compared, wrong_in], turns, **LATEST)
    for event in (videos.select, distribution.pick):
        in_player.wire(event, partial(open_both, context, batches), compared)
    for table in (turns, roots):
        in_player.wire(table.select, partial(open_turn, context, batches), compared)


def _make_moments_table(headers: list[str], elem_id: str, **options: Any) -> Any:
    return gr.Dataframe(
        headers=headers,
        datatype=["str", "number", "str", "str", "str"],
        interactive=False,
        max_height=260,
        column_widths=["22%", "13%", "15%", "23%", "27%"],
        wrap=True,
        elem_id=elem_id,
        **options,
    )


def _make_videos_table() -> Any:
    return gr.Dataframe(
        headers=compare_tables.VIDEO_HEADERS,
        datatype=["str", *["number"] * (len(compare_tables.VIDEO_HEADERS) - 1)],
        interactive=False,
        max_height=300,
        label="Videos, changed ones first by loss of B: click a row to open both runs at the worst moment",
        column_widths=["28%", *["12%"] * 6],
        wrap=True,
        elem_id="compared_videos",
    )
