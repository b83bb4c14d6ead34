"""Writes a run folder as a static player."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tqdm import tqdm

from stepscope.app.core.display_copies import DisplayCopies
from stepscope.app.core.run import Run
from stepscope.app.core.run_files import RUN_FILES, write_content
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import Clip, sample_clip
from stepscope.app.formatting import as_sentence
from stepscope.app.publish.content import VideoContent, hide_folders, pack_charts, pack_failed, pack_index, pack_video
from stepscope.app.publish.folder import file_stem, replace_folder
from stepscope.app.publish.options import VideoFiles
from stepscope.app.publish.page import write_page
from stepscope.app.publish.videos import check_videos, place_video
from stepscope.engine.errors import VideoError
from stepscope.engine.io.files import atomic_write, replace_surrogates, to_json
from stepscope.eval.data.samples import InvalidSample, Sample, Split
from stepscope.eval.matching.turns import Encode
from stepscope.eval.reports.results import read_results
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.provenance import Provenance
from stepscope.eval.runs.traces import read_provenance

MAX_TITLE_LENGTH: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A run to publish."""

    run: RunFolder
    settings: Mapping[str, Any]
    """Contents of ``run.json``."""
    entries: Sequence[Sample | InvalidSample]
    """The videos to publish, in order."""
    scoring: ScoreSettings
    encode: Encode
    """Text encoder of the scores."""
    encoder: Mapping[str, str]
    """Its name, version and digest, with the keys of ``metrics.json``."""


def choose_entries(split: Split, video_ids: Sequence[str]) -> Sequence[Sample | InvalidSample]:
    """Return the entries with the ids, all without ids. Raises ``ValueError`` for an id that the split lacks."""
    if absent := set(video_ids) - {entry.video_id for entry in split.entries}:
        raise ValueError(f"{split.path} has no video {', '.join(sorted(absent))}; check --video")
    return [entry for entry in split.entries if not video_ids or entry.video_id in video_ids]


def write_player(out: Path, source: Source, *, files: VideoFiles, title: str = "") -> Mapping[str, str]:
    """Write the player of a run into the folder ``out``; return the problem by id of each video that has one.

    A video without outputs has no run, and one that cannot be read no picture. The folder is written whole or not at
    all. Raises ``ValueError`` if it holds anything else, if there is no video to show, or if videos are missing;
    ``OSError`` or ``VideoError`` if it cannot be written.
    """
    check_videos([entry for entry in source.entries if isinstance(entry, Sample)], files)
    provenance = _make_provenance(source)
    title = _clean_title(title) or f"StepScope: {provenance.run}"
    with replace_folder(out) as folder:
        for name in ("data", "videos") if files != "none" else ("data",):
            (folder / name).mkdir()
        writer = _VideoWriter(folder, source, files)
        found = [writer.write(number, entry) for number, entry in enumerate(_progress(source.entries), start=1)]
        if not any(video.payload for video in found):
            raise ValueError(f"{source.run.path} has no outputs of these videos; give a finished run")
        results = read_results(source.run.path)
        index = pack_index(
            [video.row for video in found],
            [video.counts for video in found if video.counts is not None],
            title=title,
            provenance=provenance,
            results=results,
        )
        _write(folder / "data" / "charts.json", to_json(pack_charts(results)))
        _write(folder / "data" / "run.json", to_json(index))
        write_page(folder, title=title)
    return {str(video.row["id"]): str(video.row["remark"]) for video in found if video.row["remark"]}


class _VideoWriter:
    """Writes the files of one video after the other."""

    def __init__(self, folder: Path, source: Source, files: VideoFiles) -> None:
        self._folder, self._source, self._files = folder, source, files
        self._copies = DisplayCopies(folder / "videos")
        self._settings = hide_folders(source.settings)

    def write(self, number: int, entry: Sample | InvalidSample) -> VideoContent:
        """Write the data, exports and video of an entry; return its content, without a payload if it has no run."""
        if isinstance(entry, InvalidSample):
            return pack_failed(entry.video_id, entry.reason)
        stem = file_stem(number, entry.video_id)
        clip = sample_clip(entry, entry.video_path or Path(), is_bundled=False)
        try:
            run = self._read(clip)
        except ValueError as error:
            return pack_failed(entry.video_id, str(error))
        video, problem = self._place(clip, stem)
        content = pack_video(replace(run, clip=replace(clip, path=Path())) if problem else run, self._source.encode)
        _write(self._folder / "data" / f"{stem}.json", content.payload)
        for name in RUN_FILES:
            write_content(self._folder / "data" / stem / name, run, name)
        content.row.update(
            remark=problem,
            data=f"data/{stem}.json",
            exports=f"data/{stem}/",
            video=f"videos/{video.name}" if video is not None else None,
        )
        return content

    def _place(self, clip: Clip, stem: str) -> tuple[Path | None, str]:
        """Return the published video of a clip, or the reason why it cannot be read."""
        try:
            return place_video(clip, self._folder / "videos" / stem, files=self._files, copies=self._copies), ""
        except VideoError as error:
            if isinstance(error.__cause__, OSError):
                raise  # the disk, not the video
            return None, as_sentence(error)

    def _read(self, clip: Clip) -> Run:
        source = self._source
        run = read_saved_run(source.run, clip, scoring=source.scoring, encoder=source.encoder)
        return replace(run, settings={**self._settings, **source.encoder})  # without the folders of this machine


def _make_provenance(source: Source) -> Provenance:
    known = read_provenance(source.run)
    settings = {**hide_folders(source.settings), **source.encoder}
    return Provenance.of_settings(replace_surrogates(known.run), settings)


def _clean_title(title: str) -> str:
    """Return a title of one line."""
    return " ".join(replace_surrogates(title).split())[:MAX_TITLE_LENGTH]


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text)


def _progress(entries: Sequence[Sample | InvalidSample]) -> "tqdm[Sample | InvalidSample]":
    return tqdm(entries, unit="video", disable=None, leave=False)
