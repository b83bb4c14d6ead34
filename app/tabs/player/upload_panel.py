"""Layout and wiring of the choice of a video: a bundled one, or an upload with its reference and uploads."""

from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app import opening
from stepscope.app.context import AppContext
from stepscope.app.controls.run_inputs import RuleBoxes, make_rule_boxes
from stepscope.app.controls.widgets import AT_ONCE, CHECK_QUEUE, LATEST, make_status_line, wire
from stepscope.app.formatting import shorten_ids
from stepscope.app.tabs.player import uploads
from stepscope.app.tabs.player.uploads import ResultCheck
from stepscope.app.web.views import PlayerView


class UploadPanel(NamedTuple):
    """The inputs of a video, and the states of its checked files."""

    chosen: Any
    upload: Any
    problem: Any
    """Status line below the upload box."""
    example: Any
    """Button that fills in an example of an upload."""
    reference: Any
    """File box of the upload's reference."""
    reference_panel: Any
    result: Any
    """File box of the results of another system."""
    rule_panel: Any
    """The panel of the rule by which a signal of the results decides."""
    rule: RuleBoxes
    decide: Any
    """Button that applies the rule."""
    accepted: Any
    """State: the latest accepted upload."""
    checked: Any
    """State: the latest accepted reference."""
    checked_result: Any
    """State: the latest accepted result file."""


def make_upload_panel(chosen: Any) -> UploadPanel:
    """Lay out the boxes of an upload, beside the choice of a bundled video, ``chosen``."""
    upload = gr.File(label="or upload a video", height=120, elem_id="upload")
    problem = make_status_line("upload_problem")
    example = gr.Button("Try an example upload", size="sm", elem_id="example")
    with gr.Accordion("Reference of the upload (optional)", open=False, elem_id="own_reference") as reference_panel:
        reference = gr.File(label="Manifest, DST, …", height=130, elem_id="reference")
    with gr.Accordion("Results of another system (optional)", open=False, elem_id="own_result"):
        result = gr.File(label="MMDuet, Streamo, …", height=130, elem_id="result")
        with gr.Column(visible=False) as rule_panel:
            rule = make_rule_boxes("result")
            decide = gr.Button("Decide by this rule", size="sm", elem_id="result_decide")
    return UploadPanel(
        chosen=chosen,
        upload=upload,
        problem=problem,
        example=example,
        reference=reference,
        reference_panel=reference_panel,
        result=result,
        rule_panel=rule_panel,
        rule=rule,
        decide=decide,
        accepted=gr.State(None),
        checked=gr.State(None),
        checked_result=gr.State(None),
    )


def make_chooser(context: AppContext) -> gr.Dropdown:
    """Return the choice of a bundled video; those of most failures in the saved run come first."""
    counts = context.bundled_run.num_failures if context.bundled_run is not None else {}
    short = shorten_ids(clip.name for clip in context.bundled_videos.clips)
    names = sorted(short, key=lambda name: -counts.get(name, -1))  # stable: without counts, as in the manifest
    first = context.opening_clip
    return gr.Dropdown(
        [(short[name], name) for name in names],
        value=first.name if first else None,
        label="Bundled video",
        container=False,
        interactive=True,
        scale=0,
        min_width=220,
        elem_id="chosen",
    )


def wire_upload_panel(context: AppContext, panel: UploadPanel, view: PlayerView, ends: dict[str, Any]) -> None:
    """Wire the choice and the upload of videos, references and uploads.

    ``ends`` are arguments of events that exchange the video, such as the events to cancel.
    """
    live, clip, status = view.buttons.live, view.clip.clip, view.run.status
    boxes = [view.clip.goal, view.clip.steps, view.clip.user_turns]
    wire(panel.chosen.select, partial(opening.choose_bundled, context), [live, panel.chosen], view, **ends)
    checks = [panel.accepted, status, panel.upload, panel.problem]
    panel.upload.upload(partial(uploads.check_upload, context), [live, clip, panel.upload], checks, **CHECK_QUEUE)
    wire(panel.accepted.change, partial(uploads.show_upload, context), [live, clip, panel.accepted], view, **ends)
    example = (view, panel.reference, panel.reference_panel, panel.problem)
    wire(panel.example.click, partial(uploads.show_example, context), live, example, **ends)
    panel.upload.clear(uploads.clear_box, [live, clip], status, **AT_ONCE)
    emptied = [panel.result, panel.checked_result, panel.rule_panel, panel.rule.threshold]
    opened = [panel.chosen.select, panel.accepted.change, panel.example.click]
    gr.on(opened, lambda: (None, None, gr.Column(visible=False), None), None, emptied, **AT_ONCE)
    gr.on(opened[:2], lambda: (None, ""), None, [panel.reference, panel.problem], **AT_ONCE)
    changed = [panel.reference.upload, panel.reference.clear]
    checks = [panel.checked, status, panel.problem]
    gr.on(changed, uploads.check_reference, [live, clip, panel.reference], checks, **(LATEST | CHECK_QUEUE))
    checked = ResultCheck(panel.checked_result, status, panel.problem, panel.rule_panel, panel.rule.signal)
    files, of_result = [live, clip, panel.result], partial(gr.on, [panel.result.upload, panel.result.clear])
    wire(of_result, uploads.check_result, files, checked, **(LATEST | CHECK_QUEUE))
    of_result(lambda: None, None, panel.rule.threshold, **AT_ONCE)  # it was that of another file
    wire(panel.decide.click, uploads.check_result, [*files, *panel.rule], checked, **AT_ONCE)
    shown = partial(uploads.show_reference, context)
    wire(panel.checked.change, shown, [live, clip, panel.checked, panel.checked_result, *boxes], view, **ends)
    wire(
        panel.checked_result.change,
        partial(uploads.show_result, context),
        [live, clip, panel.checked_result, *boxes],
        view,
        **ends,
    )
