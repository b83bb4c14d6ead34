"""*Publish*: the size of a player before it is written, and the player itself, or a story as Markdown."""

import shutil
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import gradio as gr

from stepscope.app.batch.selection import Selection, choose_videos
from stepscope.app.controls import widgets
from stepscope.app.controls.cancellable import WorkButtons, show_ended, show_working, wire_work
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.run import file_name
from stepscope.app.core.videos import name_uploads
from stepscope.app.formatting import as_sentence
from stepscope.app.player.commands import InPlayer
from stepscope.app.publish.folder import check_replaceable, hide_digests
from stepscope.app.publish.options import VideoFiles
from stepscope.app.publish.story import Story, parse_story, write_story
from stepscope.app.publish.writer import Source, estimate_bytes, find_story_sample, open_story, tell_story, write_player
from stepscope.app.templates import render, render_note
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Cancellable
from stepscope.engine.errors import EngineError
from stepscope.engine.plurals import format_count
from stepscope.eval.runs.folder import explain_missing

ALL: Final = "all videos of the run"
SHOWN: Final = "the videos of the search"
STORY: Final = "the story"
AS_ZIP: Final = "zip file"
AS_FOLDER: Final = "folder on this machine"
AS_MARKDOWN: Final = "Markdown with pictures (zip)"
MAX_ZIP_BYTES: Final = 2 * 2**30
"""Maximum estimated size of a zip file, which the server writes twice and the browser loads once."""
_CANCELLED: Final = "Cancelled; nothing was written."


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishForm:
    """The inputs of the panel, and the selection of the table."""

    selection: Selection
    what: Any
    has_videos: Any
    target: Any
    folder: Any
    title: Any
    story: Any
    """The story of the browser, as JSON; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is published."""

    sources: tuple[Source, ...]
    """The run of the table, then the further runs of the story."""
    story: Story | None
    files: VideoFiles
    size: int
    """Estimated bytes."""

    @property
    def num_videos(self) -> int:
        """Number of videos, counted for each run."""
        return sum(len(source.entries) for source in self.sources)


def describe_plan(context: AppContext, batches: BatchContext, chosen: PublishForm) -> str:
    """Return what would be written, with its size, as HTML."""
    try:
        plan = _plan(context, batches, chosen)
    except (EngineError, ValueError, OSError) as error:
        return render_note(_explain(error), is_problem=True)
    return render_note(_describe(plan, chosen))


def _describe(plan: Plan, chosen: PublishForm) -> str:
    runs = " and ".join(f"“{source.name}”" for source in plan.sources)
    moments = f"{format_count(len(plan.story.moments), 'moment')} in " if plan.story is not None else ""
    words = f"{moments}{format_count(plan.num_videos, 'video')} of {runs}"
    if chosen.target == AS_MARKDOWN:
        return f"{words}: Markdown with a picture of each moment."
    return f"{words}: about {_megabytes(plan.size)}."


def _explain(error: Exception) -> str:
    """Return an error as a sentence, without the name of the folder beside that of the player."""
    if isinstance(error, OSError):
        error = ValueError(f"the player cannot be written: {error.strerror or error}; choose another folder or disk")
    return as_sentence(error)


def _megabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def publish(
    context: AppContext, batches: BatchContext, live: Cancellable, chosen: PublishForm
) -> Generator[widgets.Updates]:
    """Write the player, or the story as Markdown; yield the progress, then the file or the folder.

    A refusal takes the place of the size, until the next choice or run.
    """
    live.is_started = True
    try:
        plan = _plan(context, batches, chosen)
        with _open_folder(plan, chosen) as (folder, archive):
            if chosen.target == AS_MARKDOWN:
                assert plan.story is not None
                folder.mkdir()
                write_story(folder, tell_story(plan.story, plan.sources), partial(find_story_sample, plan.sources))
                hide_digests(folder, name_uploads(one.video_id for source in plan.sources for one in source.entries))
            else:
                yield from _write(plan, chosen, folder, live)
            if live.is_cancelled:
                yield widgets.Updates(show_ended(_CANCELLED), file=None)
            elif archive is not None:
                _zip(folder, archive)
                said = f"Saved: {archive.name}, {_megabytes(archive.stat().st_size)}."
                yield widgets.Updates(show_ended(said), file=str(archive))
            else:
                said = f"Written: {folder}. See it with: python -m http.server -d {folder}"
                yield widgets.Updates(show_ended(said), file=None)
    except (EngineError, ValueError, OSError) as error:
        yield widgets.Updates(show_ended(""), file=None, size=render_note(_explain(error), is_problem=True))
    finally:
        live.ended.set()


def _write(plan: Plan, chosen: PublishForm, folder: Path, live: Cancellable) -> Generator[widgets.Updates]:
    pace, first, others = widgets.Pace(widgets.UPDATE_INTERVAL_S), plan.sources[0], plan.sources[1:]
    steps = write_player(
        folder, first, files=plan.files, title=str(chosen.title or ""), story=plan.story, others=others
    )
    with closing(steps):
        for progress in steps:
            if live.is_cancelled:
                return
            if pace.is_due():
                text = f"{progress.num_done} of {format_count(progress.num_videos, 'video')} written."
                bar = render("progress", done=progress.num_done, total=progress.num_videos, label="videos written")
                yield widgets.Updates(show_working(bar + render_note(text)), file=None)


@contextmanager
def _open_folder(plan: Plan, chosen: PublishForm) -> Generator[tuple[Path, Path | None]]:
    """Yield the folder to write, and the zip file to make of it. Raises ``ValueError`` if it cannot be written."""
    if chosen.target == AS_FOLDER:
        folder = Path(str(chosen.folder or "").strip()).expanduser()
        _check_space(folder.resolve().parent, plan.size)
        yield folder, None
        return
    with TemporaryDirectory(prefix="stepscope-export-") as name:
        if chosen.target == AS_ZIP:
            if plan.size > MAX_ZIP_BYTES:
                raise ValueError(
                    f"a zip has at most {_megabytes(MAX_ZIP_BYTES)}, this would have {_megabytes(plan.size)}: leave "
                    "the videos out, choose fewer, or use stepscope publish"
                )
            _check_space(Path(name), 3 * plan.size)  # the folder, its zip, and the copy that is served
        stem = file_name(plan.sources[0].name, "story" if plan.story is not None else "player")
        yield Path(name, stem), Path(name, f"{stem}.zip")


def _check_space(folder: Path, size: int) -> None:
    while not folder.exists():
        folder = folder.parent
    if (free := shutil.disk_usage(folder).free) < size:
        raise ValueError(f"the disk has {_megabytes(free)} free and {_megabytes(size)} are needed; free some space")


def _zip(folder: Path, archive: Path) -> None:
    with ZipFile(archive, "w") as file:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            packing = ZIP_STORED if path.suffix in (".mp4", ".webm", ".jpg") else ZIP_DEFLATED
            file.write(path, Path(folder.name) / path.relative_to(folder), packing)


def _plan(context: AppContext, batches: BatchContext, chosen: PublishForm) -> Plan:
    story = parse_story(chosen.story) if chosen.what == STORY and chosen.story else None
    if chosen.what == STORY or chosen.target == AS_MARKDOWN:
        if story is None:
            raise ValueError("there is no story yet: in the player, press * at a moment, up to ten times")
        sources = tuple(open_story(story, partial(_open_run, context, batches)))
    else:
        source = _open_run(context, batches, chosen.selection.run)
        videos = choose_videos(batches, chosen.selection) if chosen.what == SHOWN else None
        sources = (source if videos is None else source.choose(videos),)
    if not any(source.entries for source in sources):
        raise ValueError("no video is selected")
    if not any(map(_has_outputs, sources)):
        raise ValueError(f"“{sources[0].name}” has no finished video yet; wait for one, or continue the run")
    if chosen.target == AS_FOLDER:
        if not batches.takes_paths:
            raise ValueError("this page is served to other machines and writes no folders; choose a zip")
        if not str(chosen.folder or "").strip():
            raise ValueError("give the folder to write")
        check_replaceable(Path(str(chosen.folder).strip()).expanduser().resolve())
    files: VideoFiles = "copy" if chosen.has_videos else "none"
    return Plan(sources=sources, story=story, files=files, size=estimate_bytes(sources, files))


def _has_outputs(source: Source) -> bool:
    return any(not explain_missing(entry, source.run.record(entry.video_id)) for entry in source.entries)


def _open_run(context: AppContext, batches: BatchContext, name: str | None) -> Source:
    if not name:
        raise ValueError("choose a run")
    run = batches.need_run(name)
    settings, split = run.settings() or {}, batches.need_split(name)
    return Source(
        name=name,
        run=run,
        settings=settings,
        entries=split.entries,
        reference_writer=split.reference_writer,
        scoring=batches.scoring_of(settings),
        encode=context.encode,
        encoder=context.encoder,
    )


_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "publish", "concurrency_limit": 1, "api_visibility": "private"}


def make_publish_panel(
    context: AppContext,
    batches: BatchContext,
    box: gr.Column,
    opener: gr.Button,
    in_player: InPlayer,
    *,
    selection: Selection,
    shown: Any,
) -> None:
    """Lay out and wire the panel in its ``box``, which ``opener`` opens, and the player for a story.

    It publishes the shown run, its selected videos, or the story of the browser.
    """
    targets = [AS_ZIP, *([AS_FOLDER] if batches.takes_paths else []), AS_MARKDOWN]
    with box:
        with gr.Row():
            what = gr.Dropdown([ALL, SHOWN, STORY], value=ALL, label="Publish", elem_id="publish_what")
            target = gr.Dropdown(targets, value=AS_ZIP, label="As", elem_id="publish_as")
            title = gr.Textbox(label="Title (optional)", max_lines=1, max_length=120)
            folder = gr.Textbox(label="Folder to write", max_lines=1, visible=False, elem_id="publish_folder")
            has_videos = gr.Checkbox(value=True, label="with the videos", elem_id="publish_videos")
        with gr.Row():
            size = gr.HTML(elem_id="publish_size", padding=False)
            start = gr.Button("Publish", variant="primary", size="sm", scale=0, min_width=110, elem_id="publish_start")
            cancel = gr.Button(
                "Cancel", variant="stop", size="sm", scale=0, min_width=90, interactive=False, elem_id="publish_cancel"
            )
        said = gr.HTML(elem_id="publish_said", padding=False)
    buttons, file = WorkButtons(start=start, cancel=cancel, progress=said), gr.DownloadButton(visible="hidden")
    story, is_open = gr.Textbox(visible="hidden"), gr.State(False)
    form = PublishForm(
        selection=selection,
        what=what,
        has_videos=has_videos,
        target=target,
        folder=folder,
        title=title,
        story=story,
    )
    asked = in_player.answer(
        "publish_story", lambda: (True, gr.Column(visible=True), STORY), None, (is_open, box, what)
    )
    asked.then(lambda: gr.Tabs(selected="batch"), None, in_player.view.tabs, **widgets.AT_ONCE)
    opened = [
        opener.click(
            lambda is_open: (not is_open, gr.Column(visible=not is_open)), is_open, [is_open, box], **widgets.AT_ONCE
        ),
        asked,
    ]
    changes = [choice.input for choice in (what, target, folder, has_videos)]
    changes += [shown.change]
    for event in (*(event.then for event in opened), partial(gr.on, changes)):
        describe = partial(describe_plan, context, batches)
        widgets.wire(event, describe, form, size, script="addStory", **widgets.LATEST)
    target.change(lambda target: gr.Textbox(visible=target == AS_FOLDER), target, folder, **widgets.AT_ONCE)
    write, view = partial(publish, context, batches), {**buttons._asdict(), "file": file, "size": size}
    options = {"cancelled": _CANCELLED, "script": "addStory", **_QUEUE}
    running, _ = wire_work(buttons, write, [gr.State(None), form], view, **options)
    widgets.save_after(running, file)
