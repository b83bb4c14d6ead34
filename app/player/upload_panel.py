"""Layout and wiring of an upload with its reference and results."""

from functools import partial
from typing import Any

import gradio as gr

from stepscope.app.controls.run_inputs import make_rule_boxes
from stepscope.app.controls.widgets import AT_ONCE, CHECK_QUEUE, LATEST, make_status_line, run_script, wire
from stepscope.app.player import uploads
from stepscope.app.player.views import PlayerComponents
from stepscope.app.window.context import AppContext


def make_upload_panel(context: AppContext, view: PlayerComponents, ends: dict[str, Any]) -> None:
    """Lay out the files of an upload below its box, and wire the upload of videos.

    ``ends`` are arguments of events that exchange the video, such as the events to cancel.
    """
    problem = make_status_line("upload_problem")
    example = gr.Button("Try an example upload", size="sm", elem_id="example")
    with gr.Accordion("Reference of the upload (optional)", open=False, elem_id="own_reference") as reference_panel:
        reference = gr.File(label="Manifest, DST, …", height=130, elem_id="reference")
    with gr.Accordion("Results of another system (optional)", open=False, elem_id="own_result"):
        result = gr.File(label="MMDuet, Streamo, …", height=130, elem_id="result")
        with gr.Column(visible=False) as rule_panel:
            rule = make_rule_boxes("result")
            decide = gr.Button("Decide by this rule", size="sm", elem_id="result_decide")
    accepted, checked, checked_result = (gr.State(None) for _ in range(3))  # the latest accepted files
    chosen, upload = view.player.open_focus, view.upload
    check = partial(uploads.check_upload, context)
    checking = {"accepted": accepted, "upload": upload, "problem": problem}
    wire(upload.upload, check, [view.window, upload], checking, **CHECK_QUEUE)
    run_script(accepted.change, "clearTask", view.task, view.task)
    showing = wire(accepted.change, partial(uploads.show_upload, context), accepted, view, **ends)
    run_script(showing.then, "focusTask")
    run_script(view.goal.submit, "focusTask")
    filled = {**vars(view), "reference": reference, "reference_panel": reference_panel, "problem": problem}
    wire(example.click, partial(uploads.show_example, context), None, filled, **ends)
    upload.clear(uploads.clear_box, view.window, problem, **AT_ONCE)
    emptied = [result, checked_result, rule_panel, rule.threshold]
    opened = [chosen, accepted.change, example.click]
    for event in opened:
        event(lambda: (None, None, gr.Column(visible=False), None), None, emptied, **AT_ONCE)
    for event in opened[:2]:
        event(lambda: (None, ""), None, [reference, problem], **AT_ONCE)
    found, changed = {"checked": checked, "problem": problem}, partial(gr.on, [reference.upload, reference.clear])
    wire(changed, uploads.check_reference, [view.window, reference], found, **(LATEST | CHECK_QUEUE))
    result_check = {"checked": checked_result, "problem": problem, "rule_panel": rule_panel, "signal": rule.signal}
    files, of_result = [view.window, result], partial(gr.on, [result.upload, result.clear])
    wire(of_result, uploads.check_result, files, result_check, **(LATEST | CHECK_QUEUE))
    of_result(lambda: None, None, rule.threshold, **AT_ONCE)  # it was that of another file
    wire(decide.click, uploads.check_result, [*files, *rule], result_check, **AT_ONCE)
    shown = partial(uploads.show_reference, context)
    wire(checked.change, shown, [view.window, checked, checked_result, *view.task], view, **ends)
    shown = partial(uploads.show_result, context)
    wire(checked_result.change, shown, [view.window, checked_result, *view.task], view, **ends)
