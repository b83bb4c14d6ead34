"""Opens a bundled video, a run, two, or the moment of a link in the player, from any tab."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from html import escape
from pathlib import Path
from typing import Any, Final

import gradio as gr

from stepscope.app.controls.run_inputs import read_strategy
from stepscope.app.controls.widgets import make_ticket, read_event
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.places import NO_RUN
from stepscope.app.core.run import PAGE_SCORING, Run
from stepscope.app.core.saved import BUNDLED_NAME, read_saved_run
from stepscope.app.core.videos import Clip, find_split_clip, sample_clip
from stepscope.app.formatting import as_sentence
from stepscope.app.player.branches import plan_branch
from stepscope.app.player.commands import Focus
from stepscope.app.player.views import PlayerView, show_clip, show_nothing, show_run, show_status, task_boxes
from stepscope.app.server.identity import current_visitor, share_upload
from stepscope.app.window.context import AppContext
from stepscope.app.window.focus import list_videos
from stepscope.app.window.landing import FIRST, START, STAY, WORST, Destination
from stepscope.app.window.live_run import LiveRun, PlannedBranch
from stepscope.engine.config import Thresholds, read_threshold
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import parse_time
from stepscope.engine.errors import EngineError
from stepscope.eval.data.samples import Sample, build_task

CHOOSE = "Choose a bundled video or upload one."
NO_VIDEO: Final = " Its split names no video: the timeline plays on its own clock."


def show_bundled(context: AppContext, clip: Clip | None) -> PlayerView:
    """Show a bundled video and its task, with its saved run if there is one, whose thresholds the sliders get."""
    if clip is None:
        return _without_clip(context.bundled_videos.notice or CHOOSE)
    try:
        video = context.find_video(clip)
    except (EngineError, ValueError) as error:
        boxes = {"goal": "", "steps": "", "user_turns": ""}
        return PlayerView(_without_clip(as_sentence(error), is_problem=True), **boxes)
    saved = context.find_saved(clip)
    if saved is not None:
        return PlayerView(_show(context, saved, video, destination=FIRST), strategy=gr.skip())
    shown = show_nothing(context.bundled_videos.notice, clip=clip)
    return PlayerView(show_clip(clip, video), shown, cancel_run())


def open_focus(context: AppContext, batches: BatchContext, focus: Focus) -> PlayerView:
    """Open what was chosen in the head of the page: a video, a run or a split; what lies below it stays if it can.

    Without a run, and for the bundled one, a bundled video opens as on the first page. A ``link`` opens in any tab.
    """
    if focus.link:
        return PlayerView(open_link(context, batches, focus.link), tabs=gr.skip())
    split, run, video_id = focus.split, focus.run, focus.video
    try:
        samples = context.splits[split].samples if split in context.splits else ()
        videos = list_videos(batches, run) if run else [sample.video_id for sample in samples]
        if not videos:
            raise ValueError(f"{run or split or 'this'} has no video to show")
        if video_id and video_id not in videos and focus.at is None:
            raise ValueError(f"there is no video {video_id} in {run or split}")
        at, video_id = (focus.at, video_id) if video_id in videos else (None, videos[0])
        clip = next((one for one in context.bundled_videos.clips if one.name == video_id), None)
        if at is None and clip is not None and run in ("", BUNDLED_NAME):  # its link works on any server
            return PlayerView(show_bundled(context, clip), tabs=gr.Tabs(selected="player"))
    except (EngineError, ValueError, OSError) as error:
        return refuse(error)
    if not run:
        return open_reference(context, context.splits[split].find(video_id), destination=START)
    there = WORST if at is None else Destination(at=at)
    return open_moment(context, batches, video_id, names=(run,), destination=there)


def open_page(context: AppContext, link: Mapping[str, str], *, other: Run | None = None) -> PlayerView:
    """Show the bundled video that the page opens on, or open a link.

    A link (see ``linkedMoment`` in the player, and ``app.core.places``) has a bundled video or an upload,
    thresholds, a context strategy, a time to which the player seeks, and a run. The run is restored if this server has
    kept it or if it is the saved one, and run again otherwise, as other thresholds of a video with a saved run are.
    ``other`` is the run to show below it.
    """
    if not {"video", "upload"} & set(link):
        return show_bundled(context, context.opening_clip)
    try:
        clip = find_linked_clip(context, link)
        thresholds = Thresholds(
            speak=read_threshold(link.get("speak", context.config.speak_threshold), "speak"),
            update=read_threshold(link.get("update", context.config.update_threshold), "update"),
        )
        strategy = read_strategy(link.get("context"), context.config.context_strategy)
        video = context.find_video(clip)
    except (EngineError, ValueError) as error:
        return show_link_error(context, error)
    saved = context.find_saved(clip)
    is_saved = saved is not None and (
        saved.digest == link["run"]
        if "run" in link
        else thresholds == saved.thresholds and saved.config.context_strategy == strategy
    )
    if saved is not None and is_saved:
        destination = STAY if "run" in link or "t" in link else FIRST
        return _show(context, saved.with_letter_beside(other), video, destination=destination, other=other)
    run = context.recent.find_run(link.get("run"), clip)
    opened = PlayerView(
        clip=clip, video=video and str(video), strategy=strategy, **task_boxes(run or clip.sample or Task())
    )
    if not clip.content_digest:
        opened.upload = None
    if run is not None and run.outputs:
        run = run.with_letter_beside(other)
        shown = show_run(run, encode=context.encode, other=other, destination=Destination(at="link"))
        now: dict[str, Any] = {"live": LiveRun.finished(run, other=other), "strategy": run.config.context_strategy}
        return PlayerView(opened, shown, cancel_run(), **run.known_thresholds, **now)
    if run is None and (clip.content_digest or ("run" not in link and saved is None)):
        status = "The run of the link is no longer available. Press Run." if "run" in link else ""
        buttons = cancel_run()
    else:
        waiting = LiveRun(linked_digest=link.get("run"), other=other)
        status, buttons = "Waiting to start.", show_running_buttons(waiting)
    return PlayerView(opened, show_nothing(status, clip=clip), buttons, **asdict(thresholds))


def find_linked_clip(context: AppContext, link: Mapping[str, str]) -> Clip:
    """Return the upload, or the video of a split or of the bundled ones. Raises ``ValueError`` if there is none."""
    if "upload" in link:
        clip = context.recent.find_clip(link["upload"])
        share_upload(clip.path.parent.name, current_visitor.get())
        return clip
    video_id = link.get("video", "")
    return (
        find_split_clip(context.splits, link["split"], video_id)
        if "split" in link
        else context.bundled_videos.find(video_id)
    )


def show_link_error(context: AppContext, error: Exception) -> PlayerView:
    """Show the bundled video that the page opens on, and why a link failed."""
    shown = show_bundled(context, context.opening_clip)
    return PlayerView(shown, show_status(as_sentence(f"the link cannot be opened: {error}"), is_problem=True))


def show_running_buttons(live: LiveRun) -> PlayerView:
    """Return the buttons of a run that enters the queue of the model."""
    run, stop = gr.Button(interactive=False), gr.Button(interactive=True)
    return PlayerView(live=live, run=run, stop=stop, stream=make_ticket())


def _without_clip(status: str, *, is_problem: bool = False) -> PlayerView:
    shown = show_nothing(status, is_problem=is_problem)
    return PlayerView(shown, cancel_run(), clip=None, video=None, upload=None)


def enable_run() -> PlayerView:
    """Enable Run, and disable Stop."""
    return PlayerView(run=gr.Button(interactive=True), stop=gr.Button(interactive=False))


def cancel_run() -> PlayerView:
    """Cancel the run of the window (``Window.take``), and enable Run."""
    return PlayerView(enable_run(), live=None)


def read_video(batches: BatchContext, name: str | None, event: gr.EventData) -> str:
    """Return the id of the video of a clicked row of a table of a run, or of a clicked point of its chart."""
    point = read_event(event, "point")
    return batches.find_video(name, str(event.row_value[0])) if point is None else str(point)


def open_video(context: AppContext, batches: BatchContext, name: str | None, event: gr.EventData) -> PlayerView:
    """Show a video of a run in the player at its worst moment."""
    return open_moment(context, batches, read_video(batches, name, event), names=(name,), destination=WORST)


def open_moment(
    context: AppContext,
    batches: BatchContext,
    video_id: str,
    *,
    names: tuple[str | None, ...],
    destination: Destination,
    is_b_above: bool = False,
) -> PlayerView:
    """Show a moment of a video in one run, or in two, A and B, in the player; with ``is_b_above``, A is below B."""
    try:
        runs = [read_saved(context, batches, name or "", video_id) for name in names]
        if len(runs) > 1:
            runs = [replace(run, letter=letter) for run, letter in zip(runs, "AB", strict=True)]
        saved, *rest = reversed(runs) if is_b_above else runs
        video = context.find_video(saved.clip)
    except (EngineError, ValueError, OSError) as error:
        return refuse(error)
    status = f"{_scoring_words(batches, saved)}{'' if video else NO_VIDEO}".strip()
    other = rest[0] if rest else None
    return _show_in_tab(context, saved, video, status, destination=destination, other=other)


def _scoring_words(batches: BatchContext, run: Run) -> str:
    """Return a note if the scoring differs from that of the page's runs, or the text encoder from that of the run."""
    scored, here = batches.settings_of(run.name).get("text_encoder"), batches.jobs.scoring.text_encoder
    encoder = f" The run was scored by the text encoder {scored}; here it is {here}."
    own = {name: getattr(run.scoring, name) for name in ("dataset", "zero_cost")}
    words = [f"{name} {value or 'none'}" for name, value in own.items() if value != getattr(PAGE_SCORING, name)]
    judged = f" Judged with {' and '.join(words)}, as the run was." if words else ""
    return judged + (encoder if scored not in (None, here) else "")


def open_link(context: AppContext, batches: BatchContext, link: Mapping[str, str]) -> PlayerView:
    """Show the run of a link, also without a time ``t`` that is none, and queue its ``branch``: changes as text."""
    try:
        parse_time(link.get("t", "0"))
    except ValueError as error:
        view = open_link(context, batches, {name: text for name, text in link.items() if name != "t"})
        return PlayerView(view, show_status(f"The link opens without its time: {as_sentence(error)}", is_problem=True))
    view = _open_link(context, batches, link)
    opened, changes = view.live, link.get("branch")
    if not changes or not isinstance(opened, LiveRun):
        return view
    if opened.run is None:  # it has to be made first
        opened.branch = PlannedBranch(changes=changes)
        return view
    try:
        plan = plan_branch(context, opened.run, changes)
    except ValueError as error:
        return PlayerView(view, show_status(f"The link cannot be opened whole: {as_sentence(error)}", is_problem=True))
    return PlayerView(view, show_running_buttons(LiveRun(run=opened.run, branch=plan)))


def _open_link(context: AppContext, batches: BatchContext, link: Mapping[str, str]) -> PlayerView:
    """Show the moment of a link: a saved run, or two, a reference without a run, or a run as ``open_page`` does.

    ``other`` is the saved run below it; ``above`` is B where A is that run.
    """
    names = [link[key] for key in ("saved", "other") if link.get(key)]
    video_id, is_b_above = link.get("video", ""), link.get("above") == "B"
    there = Destination(at=parse_time(link.get("t", "0")))
    try:
        if "saved" not in link and link.get("run") == NO_RUN:
            clip = find_linked_clip(context, link)
            return open_reference(context, clip.sample, destination=there)
        runs = [read_saved(context, batches, name, video_id) for name in names]
        if "saved" in link:
            of_saved: Any = {"names": tuple(names), "destination": there, "is_b_above": is_b_above}
            return open_moment(context, batches, video_id, **of_saved)
    except (EngineError, ValueError, OSError) as error:
        return show_link_error(context, error)
    other = replace(runs[0], letter="A" if is_b_above else "B") if runs else None
    return open_page(context, link, other=other)


def open_reference(
    context: AppContext,
    sample: Sample | None,
    *,
    destination: Destination,
) -> PlayerView:
    """Show a moment of a video's reference, without a run, in the player."""
    try:
        if sample is None:
            raise ValueError("this row has no video in its split")
        clip, config = _find_clip(context, sample), replace(context.config, fps=sample.fps)
        run = Run(clip=clip, task=build_task(sample), config=config, is_finished=True)  # there is nothing to run
        video = context.find_video(run.clip)
    except (EngineError, ValueError, OSError) as error:
        return refuse(error)
    status = "" if run.clip.has_file else NO_VIDEO.strip()
    return _show_in_tab(context, run, video, status, destination=destination)


def refuse(error: Exception) -> PlayerView:
    """Show a warning, and change nothing."""
    gr.Warning(escape(as_sentence(error)))
    return PlayerView()


def _show_in_tab(*shown: Any, **options: Any) -> PlayerView:
    return PlayerView(_show(*shown, **options), tabs=gr.Tabs(selected="player"))


def _show(
    context: AppContext,
    run: Run,
    video: Path | None,
    status: str = "",
    *,
    destination: Destination,
    other: Run | None = None,
) -> PlayerView:
    """Show a run, or a reference alone, with video and settings; a threshold that it does not name changes nothing."""
    return PlayerView(
        show_clip(run.clip, video, run=run),
        show_run(run, status, encode=context.encode, destination=destination, other=other),
        cancel_run(),
        live=LiveRun.finished(run, other=other) if run.outputs else None,
        strategy=run.provenance.config.get("context_strategy", gr.skip()),
        **run.known_thresholds,
    )


def read_saved(context: AppContext, batches: BatchContext, name: str, video_id: str) -> Run:
    """Read one video of a run folder. Raises ``ValueError`` with the reason if it cannot be shown."""
    folder, split = batches.need_run(name), batches.need_split(name)
    sample = split.find(video_id)
    if sample is None:
        raise ValueError(f"there is no video {video_id} in {split.path.name}")
    clip = _find_clip(context, sample)
    settings = batches.settings_of(name)
    scoring = batches.scoring_of(settings)
    run = read_saved_run(folder, clip, settings=settings, scoring=scoring, encoder=context.encoder)
    return context.hide_reasons(replace(run, name=name))  # the folder of the bundled run has another name


def _find_clip(context: AppContext, sample: Sample) -> Clip:
    """Return the clip of a sample: a bundled one, or that of a split of the page."""
    is_bundled = any(clip.sample == sample for clip in context.bundled_videos.clips)
    split = next((name for name, found in context.splits.items() if sample in found.samples), "")
    writer = context.splits[split].reference_writer if split else ""
    path = sample.video_path or Path()
    return sample_clip(sample, path, is_bundled=is_bundled, split=split, reference_writer=writer)
