"""Write the corrected steps of videos as segments, in the forms that annotation tools and data sets have.

A segment reaches from the start of a step to its completion, or to the end of the video. Times are seconds of the video
file. The forms have one file for all videos: a table, the ``database`` JSON of ActivityNet and COIN, and a project of
VIA 3. ELAN documents have the segments as tiers (``app.exports.elan``).

**Source**: ``via-3.x.y`` of the VGG Image Annotator for the project.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stepscope.app.exports.rows import ReviewedVideo
from stepscope.engine.dialogue import initial_state, parse_update
from stepscope.engine.io.files import replace_surrogates, replace_surrogates_in, write_csv, write_json

_VIA_TEXT = 1
_VIA_VIDEO = 4
_VIA_LOCAL = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSegment:
    """One step of a video, a row of the table."""

    video_id: str
    start_s: float
    end_s: float
    step_id: str
    label: str
    """The name of the step."""
    goal: str = ""
    """The goal of the video."""
    cause: str = ""
    """Cause of the completion's difficulty, such as a mistake; empty if the data set has none."""


def list_step_segments(video: ReviewedVideo) -> Iterator[StepSegment]:
    """Yield the segments of the corrected reference by time; a video without one has none."""
    corrected = video.corrected
    if corrected is None:
        return
    sample = corrected.sample
    given = initial_state(sample.steps, sample.initial_state)
    starts = {step: 0.0 for step, state in given.items() if state == "in_progress"}
    ends = dict[str, tuple[float, str]]()
    for turn in sample.turns:
        update = parse_update(turn.text) if turn.role == "update" else None
        if update is not None:
            starts.setdefault(update.step_id, turn.time_s)
            if update.transition == "complete":
                ends[update.step_id] = (turn.time_s, turn.cause or "")
    names = {step.id: step.name for step in sample.steps}
    for step, start_s in sorted(starts.items(), key=lambda item: item[1]):
        end_s, cause = ends.get(step, (sample.num_frames / sample.fps, ""))
        yield StepSegment(
            video_id=replace_surrogates(video.video_id),
            start_s=video.start_s + start_s,
            end_s=video.start_s + end_s,
            step_id=replace_surrogates(step),
            label=replace_surrogates(names[step]),
            goal=replace_surrogates(sample.goal),
            cause=replace_surrogates(cause),
        )


def write_segment_table(path: Path, videos: Sequence[ReviewedVideo]) -> None:
    """Write a row per segment."""
    rows = (asdict(one) for video in videos for one in list_step_segments(video))
    write_csv(path, rows, columns=list(StepSegment.__dataclass_fields__))


def write_database(path: Path, videos: Sequence[ReviewedVideo]) -> None:
    """Write the ``database`` JSON: per video its length, goal and annotations."""
    content = {video.video_id: _describe_video(video) for video in videos}
    write_json(path, dict(replace_surrogates_in({"database": content})))


def _describe_video(video: ReviewedVideo) -> dict[str, Any]:
    return {
        "duration": video.start_s + video.duration_s,
        "class": video.sample.goal if video.sample is not None else "",
        "annotations": [
            {"id": one.step_id, "segment": [one.start_s, one.end_s], "label": one.label}
            for one in list_step_segments(video)
        ],
    }


def write_via(path: Path, videos: Sequence[ReviewedVideo]) -> None:
    """Write a project of VIA 3: a view per video, with its segments."""
    files, metadata = dict[str, Any](), dict[str, Any]()
    for number, video in enumerate(videos, start=1):
        name = video.video_path.name if video.video_path is not None else video.video_id
        files[str(number)] = {"fid": str(number), "fname": name, "type": _VIA_VIDEO, "loc": _VIA_LOCAL, "src": ""}
        for place, one in enumerate(list_step_segments(video), start=1):
            times = {"vid": str(number), "flg": 0, "z": [one.start_s, one.end_s], "xy": []}
            metadata[f"{number}_{place}"] = {**times, "av": {"1": one.label}}
    project = {"pid": "__VIA_PROJECT_ID__", "rev": "__VIA_PROJECT_REV_ID__", "data_format_version": "3.1.1"}
    step = {"aname": "step", "anchor_id": "FILE1_Z2_XY0", "type": _VIA_TEXT, "desc": "", "options": {}}
    content = {
        "project": {**project, "pname": "steps", "creator": "StepScope", "created": 0, "vid_list": list(files)},
        "config": {"file": {"loc_prefix": dict.fromkeys("1234", "")}, "ui": {"file_content_align": "center"}},
        "attribute": {"1": {**step, "default_option_id": ""}},
        "file": files,
        "view": {number: {"fid_list": [number]} for number in files},
        "metadata": metadata,
    }
    write_json(path, dict(replace_surrogates_in(content)))
