"""Writes a run folder as a static player, and estimates its size before."""

import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from stepscope.app.core.display_copies import DisplayCopies
from stepscope.app.core.run import RUN_FILES, Run, write_content
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import Clip, name_uploads, sample_clip
from stepscope.app.formatting import as_sentence
from stepscope.app.publish.content import VideoContent, list_mistakes, pack_charts, pack_failed, pack_index, pack_video
from stepscope.app.publish.folder import file_stem, hide_digests, replace_folder, write_page
from stepscope.app.publish.options import VideoFiles
from stepscope.app.publish.story import Story, StoryMoment, write_story
from stepscope.app.window.payload import Packed
from stepscope.engine.errors import VideoError
from stepscope.engine.io.files import (
    atomic_write,
    load_json,
    read_text,
    replace_surrogates,
    to_json,
    unescape_formula,
    write_json,
    write_rows,
)
from stepscope.engine.io.hub_files import fetch_missing
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import InvalidSample, Sample
from stepscope.eval.matching.turns import Encode
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.reports.table_files import Results, read_results, read_table
from stepscope.eval.runs.folder import RunFolder, output_path
from stepscope.eval.runs.provenance import Provenance, hide_folders
from stepscope.eval.runs.roots import DIAGNOSIS_FILE, read_roots

MAX_TITLE_LENGTH: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A run to publish."""

    name: str
    """Its name in a story."""
    run: RunFolder
    settings: Mapping[str, Any]
    """Contents of ``run.json``."""
    entries: Sequence[Sample | InvalidSample]
    """The videos to publish, in order."""
    scoring: ScoreSettings
    encode: Encode
    encoder: Mapping[str, str]
    """Its name, version and digest, with the keys of ``metrics.json``."""
    reference_writer: str = ""
    """``Split.reference_writer`` of its split."""

    def choose(self, video_ids: Collection[str]) -> Self:
        """Return the run with the videos of the ids. Raises ``ValueError`` for an id that it lacks."""
        if absent := set(video_ids) - {entry.video_id for entry in self.entries}:
            raise ValueError(f"the run {self.name} has no video {', '.join(sorted(absent))}")
        return replace(self, entries=[entry for entry in self.entries if entry.video_id in video_ids])

    def read(self, sample: Sample) -> Run:
        """Return the run of a video. Raises ``ValueError`` if it has no outputs, or invalid ones."""
        split = Path(str(self.settings.get("split") or "")).stem
        path, writer = sample.video_path or Path(), self.reference_writer
        clip = sample_clip(sample, path, is_bundled=False, split=split, reference_writer=writer)
        run = read_saved_run(self.run, clip, settings=self.settings, scoring=self.scoring, encoder=self.encoder)
        return replace(run, name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishProgress:
    """The state after a video was written."""

    num_done: int
    num_videos: int
    problems: Mapping[str, str]
    """The problem by id of each video so far that has one: no outputs, or no picture."""


def open_story(story: Story, open_run: Callable[[str], Source]) -> Sequence[Source]:
    """Return the runs of a story with its videos, in the order of their first moments.

    ``open_run`` returns a run by its name, and raises ``ValueError`` if there is none.
    """
    return [open_run(name).choose(video_ids) for name, video_ids in story.videos().items()]


def find_story_sample(sources: Sequence[Source], moment: StoryMoment) -> Sample | None:
    """Return the sample of a moment's video in its run; None if it cannot be used."""
    entries = (entry for source in sources if source.name == moment.run for entry in source.entries)
    return next((entry for entry in entries if isinstance(entry, Sample) and entry.video_id == moment.video), None)


def tell_story(story: Story, sources: Sequence[Source]) -> Story:
    """Return a story in which a moment without a sentence has that of the mistake there, if its run has one."""
    return story.model_copy(update={"moments": tuple(_tell(moment, sources) for moment in story.moments)})


def _tell(moment: StoryMoment, sources: Sequence[Source]) -> StoryMoment:
    sample = find_story_sample(sources, moment)
    if sample is None or "sentence" in moment.model_fields_set:
        return moment
    source = next(source for source in sources if source.name == moment.run)
    try:
        return moment.tell(list_mistakes(source.read(sample), source.encode))
    except ValueError:  # a video without outputs, which its row names
        return moment


_MAX_NAMED: Final = 3
"""Maximum number of missing videos that an error names."""


def _check_videos(samples: Sequence[Sample], files: VideoFiles) -> None:
    """Raise ``ValueError`` if a video that is to be published has no file."""
    for one in samples if files != "none" else ():
        if one.video_path is not None:
            fetch_missing(one.video_path)
    missing = [one.video_id for one in samples if one.video_path is None or not os.path.isfile(one.video_path)]
    if missing and files != "none":
        named = ", ".join(missing[:_MAX_NAMED]) + (", ..." if len(missing) > _MAX_NAMED else "")
        raise ValueError(
            f"{format_count(len(missing), 'video has', 'videos have')} no file: {named}; give --data with their "
            "paths, or --videos none to publish without pictures"
        )


class _PlacedVideos:
    """The videos of a player; one that several runs show is written once."""

    def __init__(self, folder: Path, files: VideoFiles) -> None:
        self._folder, self._files = folder, files
        self._copies = DisplayCopies(folder)
        self._placed = dict[tuple[Path, float | None, float], Path]()

    def place(self, clip: Clip, stem: str) -> tuple[Path | None, str]:
        """Return the published video of a clip, new or not, or the reason why it cannot be read."""
        key = (clip.path, clip.start_s, clip.duration_s)
        if self._files == "none" or key in self._placed:
            return self._placed.get(key), ""
        try:
            self._placed[key] = self._write(clip, self._folder / stem)
        except VideoError as error:
            if isinstance(error.__cause__, OSError):
                raise  # the disk, not the video
            return None, as_sentence(error)
        return self._placed[key], ""

    def _write(self, clip: Clip, stem: Path) -> Path:
        """Write a video, which browsers play, as ``stem`` with its ending.

        A link is made only to a whole file that browsers play; the rest is converted.
        """
        if self._files == "link" and clip.start_s is None and not clip.copy_reason:
            path = stem.with_name(f"{stem.name}{'.webm' if clip.path.suffix.lower() == '.webm' else '.mp4'}")
            path.symlink_to(clip.path.resolve())
            return path
        copy = self._copies.find_or_convert(clip.path, start_s=clip.start_s, duration_s=clip.duration_s)
        path = stem.with_name(stem.name + copy.suffix)
        os.replace(copy, path)
        return path


def write_player(
    out: Path,
    source: Source,
    *,
    files: VideoFiles,
    title: str = "",
    story: Story | None = None,
    others: Sequence[Source] = (),
) -> Generator[PublishProgress]:
    """Write the player of a run into the folder ``out``; yield the progress after each video.

    A video without outputs has no run, and one that cannot be read no picture. The folder is written whole or not at
    all: it is in place when the generator ends, and closing it earlier leaves nothing. ``others`` are the further runs
    of the ``story``; their videos are in the story and not in the table.

    Raises ``ValueError`` if the folder holds anything else, if there is no video to show, if videos are missing, or if
    a moment of the story has no run; ``OSError`` or ``VideoError`` if it cannot be written.
    """
    sources = (source, *others)
    _check_videos([entry for one in sources for entry in one.entries if isinstance(entry, Sample)], files)
    story = story and tell_story(story, sources)
    provenance = _make_provenance(source)
    title = _clean_title(title or (story.title if story else "")) or f"StepScope: {provenance.run}"
    with replace_folder(out) as folder:
        for name in ("data", "videos") if files != "none" else ("data",):
            (folder / name).mkdir()
        found, problems = dict[tuple[str, str], VideoContent](), dict[str, str]()
        entries = [(one, entry) for one in sources for entry in one.entries]
        videos, names = _PlacedVideos(folder / "videos", files), name_uploads(entry.video_id for _, entry in entries)
        for number, (one, entry) in enumerate(entries, start=1):
            moment = None if one is source or story is None else _find_number(story, one.name, entry.video_id)
            stem = file_stem(number, names.get(entry.video_id, entry.video_id))
            content = _write_video(folder, one, entry, stem, videos, moment=moment)
            content.row["id"] = names.get(entry.video_id, entry.video_id)  # before long ids are shortened
            found[one.name, entry.video_id] = content
            problems |= {entry.video_id: content.row["remark"]} if content.row["remark"] else {}
            yield PublishProgress(num_done=number, num_videos=len(entries), problems=problems)
        shown = [found[source.name, entry.video_id] for entry in source.entries]
        if not any(video.payload for video in found.values()):
            raise ValueError(f"{source.run.path} has no outputs of these videos; give a finished run")
        results = read_results(source.run.path)
        if not {row["video_id"] for row in results.rows} <= {entry.video_id for entry in source.entries}:
            results = Results()  # its scores and charts are of further videos
        index = pack_index(
            [video.row for video in shown],
            [video.counts for video in shown if video.counts is not None],
            title=title,
            provenance=provenance,
            results=results,
            story=None if story is None else _pack_story(folder, story, sources, found, has_pictures=files != "none"),
        )
        _write(folder / "data" / "charts.json", to_json(pack_charts(results)))
        _write(folder / "data" / "run.json", to_json(index))
        _write_diagnosis(folder / "data", source)
        hide_digests(folder, names)
        write_page(folder, title=title)


def _write_diagnosis(folder: Path, source: Source) -> None:
    """Write the diagnosis of the published videos, if the run has one."""
    path, shown = source.run.path / DIAGNOSIS_FILE, {entry.video_id for entry in source.entries}
    if read_roots(source.run) is None:
        return
    content: Any = load_json(read_text(path))
    content["videos"] = [video for video in content.get("videos", []) if video["video_id"] in shown]
    write_json(folder / path.name, hide_folders(content))
    if (table := path.with_suffix(".csv")).is_file():
        rows = [
            row for row in read_table(table, ("video_id",), dict) if unescape_formula(row["video_id"] or "") in shown
        ]
        write_rows(folder / table.name, [list(rows[0] if rows else ()), *(map(str, row.values()) for row in rows)])


def _find_number(story: Story, run: str, video_id: str) -> int:
    """Return the number, from 1, of the first moment of a video of a run."""
    return [(moment.run, moment.video) for moment in story.moments].index((run, video_id)) + 1


def _pack_story(
    folder: Path,
    story: Story,
    sources: Sequence[Source],
    found: Mapping[tuple[str, str], VideoContent],
    *,
    has_pictures: bool,
) -> Packed:
    for number, moment in enumerate(story.moments, start=1):
        content = found.get((moment.run, moment.video))
        if content is None or not content.payload:
            reason = content.row["remark"] if content is not None else "It is not among the published videos."
            raise ValueError(f"moment {number} of the story, {moment.video} of {moment.run}, has no run: {reason}")
    pictures = write_story(folder, story, partial(find_story_sample, sources), has_pictures=has_pictures)
    return {
        "title": story.title,
        "has_runs": len(story.videos()) > 1,
        "moments": [
            {**moment.model_dump(), "picture": picture, "row": found[moment.run, moment.video].row}
            for moment, picture in zip(story.moments, pictures, strict=True)
        ],
    }


def _write_video(
    folder: Path,
    source: Source,
    entry: Sample | InvalidSample,
    stem: str,
    videos: _PlacedVideos,
    *,
    moment: int | None,
) -> VideoContent:
    """Write the data, exports and video of an entry; return its content, without a payload if it has no run.

    ``moment`` is the number of the story's moment that links lead to, of a video that is not in the table.
    """
    if isinstance(entry, InvalidSample):
        return pack_failed(entry.video_id, entry.reason)
    try:
        run = source.read(entry)
    except ValueError as error:
        return pack_failed(entry.video_id, str(error))
    video, problem = videos.place(run.clip, stem)
    shown = replace(run, clip=replace(run.clip, path=Path())) if problem else run
    content = pack_video(shown, source.encode, moment=moment)
    _write(folder / "data" / f"{stem}.json", content.payload)
    for name in RUN_FILES:
        write_content(folder / "data" / stem / name, run, name)
    content.row.update(
        remark=problem,
        data=f"data/{stem}.json",
        exports=f"data/{stem}/",
        video=f"videos/{video.name}" if video is not None else None,
    )
    return content


def _make_provenance(source: Source) -> Provenance:
    settings = {**source.settings, **source.encoder}
    return Provenance.of_settings(replace_surrogates(source.name), settings)


def _clean_title(title: str) -> str:
    return " ".join(replace_surrogates(title).split())[:MAX_TITLE_LENGTH]


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text)


_PAGE_BYTES: Final = 5_500_000
"""Modules, styles and plotly.js."""
_DATA_FACTOR: Final = 2.4
"""Bytes of the data and exports of a video in bytes of its outputs; measured: 2.3 to 2.5 over the bundled run."""


def estimate_bytes(sources: Sequence[Source], files: VideoFiles) -> int:
    """Return about how many bytes a player of runs has; a video that is converted may become larger or smaller."""
    samples = [(source, entry) for source in sources for entry in source.entries if isinstance(entry, Sample)]
    outputs = _sum_sizes(output_path(source.run.path, sample.video_id) for source, sample in samples)
    paths = {sample.video_path for _, sample in samples if sample.video_path is not None}
    pictures = _sum_sizes(paths) if files == "copy" else 0
    return _PAGE_BYTES + round(_DATA_FACTOR * outputs) + pictures


def _sum_sizes(paths: Iterable[Path]) -> int:
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
