"""The table of export formats, and the export of reviewed videos in one of them.

Command line, page, documents and tests read the table, so a new format needs one module and one entry here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from stepscope.app.exports.dataset import write_dataset
from stepscope.app.exports.elan import write_eaf
from stepscope.app.exports.rows import ROW_TYPES, ReviewedVideo, Tables, build_tables, column_types
from stepscope.app.exports.segments import write_database, write_segment_table, write_via
from stepscope.app.exports.spans import write_webvtt
from stepscope.app.exports.videollm_online import write_videollm_online
from stepscope.engine.io.files import replace_files, write_csv, write_json
from stepscope.eval.runs.folder import RunFolder, output_path


def write_csv_tables(folder: Path, tables: Tables) -> None:
    """Write one CSV file per table, named after the table, together; ``predictions.csv`` only if there are any."""
    with replace_files(folder) as new:
        for name, row in ROW_TYPES.items():
            if name == "predictions" and not tables.predictions:
                (folder / f"{name}.csv").unlink(missing_ok=True)  # of an earlier export
                continue
            write_csv(new / f"{name}.csv", map(asdict, getattr(tables, name)), columns=list(column_types(row)))


def write_json_tables(path: Path, tables: Tables) -> None:
    """Write all tables as one JSON object of lists."""
    write_json(path, asdict(tables))


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A format of an export."""

    label: str
    """Its files, as described in the help of the command line and in the documents."""
    write: Callable[[Path, Sequence[ReviewedVideo], str], None]
    """Writes the videos of a split with this name: with ``ending`` one video to a file, else all into a folder."""
    ending: str = ""
    """Ending of its files if there is one per video; empty if the format has files for all videos together."""


EXPORT_FORMATS: Final[Mapping[str, ExportFormat]] = {
    "csv": ExportFormat(
        "one file per table", lambda folder, videos, split: write_csv_tables(folder, build_tables(videos))
    ),
    "json": ExportFormat(
        "`review.json`", lambda folder, videos, split: write_json_tables(folder / "review.json", build_tables(videos))
    ),
    "webvtt": ExportFormat(
        "one caption file per video",
        lambda path, videos, split: write_webvtt(path, build_tables(videos)),
        ending=".vtt",
    ),
    "eaf": ExportFormat(
        "one ELAN document per video; edit the tiers `corrected: ...`",
        lambda path, videos, split: write_eaf(path, *videos),
        ending=".eaf",
    ),
    "segments": ExportFormat(
        "`segments.csv`: start, end and name of each step of the corrected reference",
        lambda folder, videos, split: write_segment_table(folder / "segments.csv", videos),
    ),
    "database": ExportFormat(
        "`database.json`: the same in the form of ActivityNet and COIN",
        lambda folder, videos, split: write_database(folder / "database.json", videos),
    ),
    "via": ExportFormat(
        "`via.json`: the same as a project of VIA 3",
        lambda folder, videos, split: write_via(folder / "via.json", videos),
    ),
    "videollm-online": ExportFormat(
        "the form of VideoLLM-online's demo, one JSON per video: `video_path`, `frame_fps`, `conversation`",
        lambda path, videos, split: write_videollm_online(path, *videos),
        ending=".json",
    ),
    "dataset": ExportFormat(
        "Parquet files and a card for Hugging Face's `datasets`",
        lambda folder, videos, split: write_dataset(folder, {split: build_tables(videos)}),
    ),
}
"""The formats by the names that the command line and the page offer."""

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(EXPORT_FORMATS)]  # the choices of the command line


def write_export(folder: Path, videos: Sequence[ReviewedVideo], *, file_format: str, split: str = "test") -> None:
    """Write videos into a folder; each file is written atomically.

    ``file_format`` is a name in ``EXPORT_FORMATS``, and ``split`` names the split in a ``dataset``.

    Raises ``ValueError`` for a split name that ``datasets`` refuses, and for a run folder: the file of a video called
    ``run`` would replace its settings.
    """
    chosen = EXPORT_FORMATS[file_format]
    if (folder / "run.json").exists() and RunFolder(folder).count_videos():
        raise ValueError(f"{folder} holds a run, whose files an export may replace; name another folder with --out")
    if not chosen.ending:
        chosen.write(folder, videos, split)
        return
    for video in videos:
        chosen.write(output_path(folder, video.video_id).with_suffix(chosen.ending), [video], split)
