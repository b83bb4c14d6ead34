"""Layout and wiring of the batch tab: the runs, the videos of the shown one, and the views of both beside them.

The modules beside it and below lay out and wire its parts. They take ``runs`` and ``other``, the names of the shown run
and of the run B; ``shown`` or ``batch``, the state ``ShownRun`` of the window; and ``here``, the ``gr.Tab`` of the
part, whose selection shows the present state.
"""

from functools import partial
from typing import Any, Final

import gradio as gr

from stepscope.app.batch.asking import make_ask_panel
from stepscope.app.batch.charts import make_charts_panel
from stepscope.app.batch.compare import make_compare_panel
from stepscope.app.batch.leaderboard import make_leaderboard_panel
from stepscope.app.batch.new_run.form import FormPanel, make_form_panel
from stepscope.app.batch.new_run.split_table import make_split_panel
from stepscope.app.batch.new_run.start import check_files, import_files, start
from stepscope.app.batch.protocols import make_protocols_panel
from stepscope.app.batch.publishing import make_publish_panel
from stepscope.app.batch.run_list import make_run_list_panel, make_scores_choice
from stepscope.app.batch.runs import handlers
from stepscope.app.batch.runs.files import make_files_panel
from stepscope.app.batch.runs.handlers import ShownRun
from stepscope.app.batch.runs.rows import make_run_rows
from stepscope.app.batch.runs.videos import make_video_rows
from stepscope.app.batch.search import make_search_boxes, wire_search
from stepscope.app.batch.selection import Selection, make_slice_panel
from stepscope.app.batch.sweeps.tab import make_sweep_panel
from stepscope.app.batch.training import make_training_panel
from stepscope.app.controls.widgets import AT_ONCE, LATEST, make_fold, make_tab, run_script, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player.commands import InPlayer
from stepscope.app.player.opening import open_video
from stepscope.app.window.context import AppContext, ReviewContext

POLL_INTERVAL_S: Final = 1.0


def make_batch_tab(
    context: AppContext,
    batches: BatchContext,
    reviews: ReviewContext,
    in_player: InPlayer,
    *,
    here: Any,
    elsewhere: tuple[Any, ...],
) -> gr.Tabs:
    """Lay out and wire the tab inside its ``gr.Tab`` ``here``; return its views. ``elsewhere`` are the other tabs."""
    shown, hits, scores = gr.State(ShownRun()), gr.State(None), make_scores_choice()
    views = gr.Tabs(elem_id="batch_views", render=False)
    with gr.Row(elem_id="bench"):
        with gr.Column(elem_id="bench_runs", min_width=200):
            make_fold("new_run", "☰ New run")
            runs, other = gr.State(""), gr.State("")
            rows = make_run_rows()
            form = make_form_panel(batches, runs=runs, use=rows.use, views=views, here=here)
        with gr.Column(elem_id="bench_videos", min_width=300):
            with gr.Row(elem_id="shown"):
                origin = gr.HTML(elem_id="origin", padding=False, scale=1)
                videos_csv = gr.Button("videos.csv", size="sm", scale=0, interactive=False, elem_id="get_videos_csv")
                opener = gr.Button("Export…", size="sm", scale=0, elem_id="publish_open")
            publish = gr.Column(visible=False, elem_id="publish")
            boxes, videos = make_search_boxes(), make_video_rows()
        selection = Selection(
            run=runs,
            order=gr.State(Selection(run=None).order),
            query=boxes.query,
            scope=boxes.scope,
            other=other,
            scores=scores,
        )
        of_run: dict[str, Any] = {"runs": runs, "other": other, "in_player": in_player}
        with gr.Column(elem_id="bench_views", min_width=300):
            views.render()
            with views:
                with make_tab("Scores"):
                    make_slice_panel(context, batches, selection=selection)
                    corpus = gr.HTML(elem_id="corpus", padding=False)
                with make_tab("Compare") as tab:
                    make_compare_panel(context, batches, here=tab, batch=shown, **of_run)
                with make_tab("Charts") as tab:
                    charts = make_charts_panel(batches, runs=runs, shown=shown, here=tab)
                with make_tab("Thresholds") as tab:
                    sliders = {"speak": form.entries.speak, "update": form.entries.update}
                    used: Any = {"sliders": sliders, "player": in_player.view, "devices": form.entries.devices}
                    make_sweep_panel(context, batches, runs=runs, shown=shown, here=tab, **used)
                with make_tab("Ask"):
                    make_ask_panel(context, batches, reviews, runs=runs, in_player=in_player)
                with make_tab("Protocols") as tab:
                    make_protocols_panel(context, batches, here=tab, batch=shown, **of_run)
                with make_tab("Leaderboard") as tab:
                    opened = make_leaderboard_panel(context, batches, runs=runs, views=views, here=tab)
                with make_tab("Over time", tab_id="Runs") as tab:
                    listed = make_run_list_panel(batches, runs=runs, metrics=scores, here=tab)
                with make_tab("Training") as tab:
                    make_training_panel(context, batches, here=tab, batch_tab=here, elsewhere=elsewhere)
                with make_tab("Split") as tab:
                    make_split_panel(context, batches, split=form.entries.split, here=tab, in_player=in_player)
    with publish:
        make_files_panel(batches, videos_csv, selection=selection, shown=shown)
    make_publish_panel(context, batches, publish, opener, in_player, selection=selection, shown=shown)
    view = {
        "rows": rows,
        "runs": runs,
        "other": other,
        "query": boxes.query,
        "order": selection.order,
        "videos": videos,
        "hits": hits,
        "corpus": corpus,
        "origin": origin,
        "views": views,
        "timer": gr.Timer(POLL_INTERVAL_S, active=False),
        "problem": form.problem,
        "shown": shown,  # Gradio sets the outputs in order: after the last one, nothing delays the reply to the window
    }
    for name, answer in (("show_run", handlers.pick), ("enter_batch", handlers.enter)):
        in_player.answer(name, partial(answer, batches), selection, view)
    _wire_runs(batches, form, selection, view, here=here, elsewhere=elsewhere)
    step = partial(handlers.step_video, context, batches)
    in_player.answer("step_videos", step, [in_player.view.window, selection], in_player.view, **in_player.steps)
    in_player.wire(charts["videos"].pick, partial(open_video, context, batches), runs)
    kinds = {"failure": charts["failures"], "class": charts["roots"]}
    of_search: dict[str, Any] = {"videos": videos, "hits": hits, "kinds": kinds, "in_player": in_player}
    chosen = wire_search(context, batches, boxes, selection=selection, **of_search)
    for event in (*chosen, scores.input, opened.then, *(event.then for event in listed)):
        wire(event, partial(handlers.show, batches), selection, view, **LATEST)
    return views


def _wire_runs(
    batches: BatchContext,
    form: FormPanel,
    selection: Selection,
    view: dict[str, Any],
    *,
    here: Any,
    elsewhere: tuple[Any, ...],
) -> None:
    rows = view["rows"]
    for event, handler, inputs in (
        (rows.pick, handlers.pick, []),
        (rows.cancel, handlers.cancel, []),
        (rows.score, handlers.score, []),
        (view["videos"].sort, handlers.sort, []),
        (view["timer"].tick, handlers.tick, [view["shown"]]),
    ):
        wire(event, partial(handler, batches), [*inputs, selection], view, **AT_ONCE)
    for click, begin, entries in (
        (form.start.click, start, form.entries),
        (form.import_results.click, import_files, form.results),
    ):
        begun = wire(click, partial(begin, batches), [entries, selection], view, **AT_ONCE)
        run_script(begun.then, "foldStarted", form.problem)
    wire(rows.view, handlers.open_view, None, view, **AT_ONCE)
    checked = {"problem": form.problem, "signal": form.results.rule.signal}
    wire(form.results.files.upload, partial(check_files, batches), form.results, checked, **AT_ONCE)
    run_script(here.select, "enterBatch")
    gr.on([tab.select for tab in elsewhere], handlers.leave, None, view["timer"], **AT_ONCE)
