"""The command ``stepscope publish``."""

import sys
from pathlib import Path

from tqdm import tqdm

from stepscope.app.core.saved import BUNDLED_NAME
from stepscope.app.publish.folder import check_replaceable
from stepscope.app.publish.options import PublishOptions
from stepscope.app.publish.story import Story, read_story
from stepscope.app.publish.writer import PublishProgress, Source, open_story, write_player
from stepscope.engine.cli.options import BUNDLED_RUN
from stepscope.engine.plurals import format_count
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.turns import DEFAULT_ENCODER, TextEncoder, import_encoder
from stepscope.eval.reports.scoring import ScoreSettings, read_score_settings
from stepscope.eval.runs.folder import RunFolder


def publish(options: PublishOptions) -> int:
    """Write a read-only player of a run; return 1 if a video has no run or no picture."""
    story = read_story(options.story) if options.story is not None else None
    run = RunFolder(options.run)
    settings = run.settings() or {}
    split_path = options.data or run.split_path()
    check_replaceable(options.out.resolve())  # before the encoder is loaded
    encoder = import_encoder(settings.get("text_encoder") or DEFAULT_ENCODER)
    source, others = open_source(run, split_path, encoder), list[Source]()
    if story is not None:
        story = _name_run(story, source.name)
        opened = open_story(story, lambda name: source if name == source.name else _open_beside(run, name, encoder))
        others = [one for one in opened if one.name != source.name]
    if wanted := {*options.video, *(story.videos().get(source.name, ()) if story is not None else ())}:
        source = source.choose(wanted)
    steps = write_player(options.out, source, files=options.videos, title=options.title, story=story, others=others)
    progress: PublishProgress | None = None
    try:
        with tqdm(unit="video", disable=None, leave=False) as bar:
            for progress in steps:
                bar.total = progress.num_videos
                bar.update()
    except OSError as error:
        reason = f"{options.out} cannot be written ({error.strerror or error}); free some space or choose another --out"
        raise ValueError(reason) from error
    assert progress is not None
    count = format_count(progress.num_videos, "video")
    print(f"{count}: {options.out}; see it with: python -m http.server -d {options.out}")
    for video_id, problem in progress.problems.items():
        print(f"{video_id}: {problem}", file=sys.stderr)
    return 1 if progress.problems else 0


def _name_run(story: Story, name: str) -> Story:
    """Return a story of one run with the name of the given run: its folder may have another name than on the page."""
    if len(story.videos()) > 1:
        return story
    return story.model_copy(
        update={"moments": tuple(moment.model_copy(update={"run": name}) for moment in story.moments)}
    )


def _open_beside(run: RunFolder, name: str, encoder: TextEncoder) -> Source:
    """Return a run of the story, whose folder is beside ``run``. Raises ``ValueError`` if there is none."""
    folder = run.path.resolve().parent / name
    if folder.name != name or not folder.is_dir():
        raise ValueError(f"the story has moments of the run {name!r}, which has no folder beside {run.path}")
    other = RunFolder(folder)
    return open_source(other, other.split_path(), encoder)


def open_source(run: RunFolder, split_path: Path, encoder: TextEncoder) -> Source:
    """Return a run folder of a split to publish."""
    settings, split, path = run.settings() or {}, read_split(split_path), run.path.resolve()
    return Source(
        name=BUNDLED_NAME if path == BUNDLED_RUN else path.name,
        run=run,
        settings=settings,
        entries=split.entries,
        reference_writer=split.reference_writer,
        scoring=read_score_settings(settings, default=ScoreSettings(text_encoder=encoder.name)),
        encode=encoder.encode,
        encoder=encoder.settings(),
    )
