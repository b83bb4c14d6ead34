"""Makes the samples of a split from annotated videos, with drawn stand-ins for missing files."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stepscope.engine.errors import EngineError
from stepscope.engine.plurals import format_count
from stepscope.engine.video.cards import write_cards
from stepscope.engine.video.reader import probe
from stepscope.eval.data.samples import Sample
from stepscope.eval.datasets.recipes import Repeats, Wrong, build_sample
from stepscope.eval.datasets.segments import AnnotatedVideo, Annotations
from stepscope.eval.runs.folder import make_file_name


@dataclass(kw_only=True)
class ImportedVideos:
    """The samples of the videos, and what was left out."""

    datasets: tuple[str, ...]
    samples: list[Sample] = field(default_factory=list)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    """Annotations that were left out or changed by the reason, for each video."""
    segments: dict[str, int] = field(default_factory=dict)
    """Number of annotated segments of each video."""
    problems: dict[str, str] = field(default_factory=dict)
    """Reasons why videos have no sample."""
    drawn: list[str] = field(default_factory=list)

    @property
    def total(self) -> Counter[str]:
        """The counts of all videos."""
        return sum(self.counts.values(), Counter[str]())

    def describe(self) -> str:
        """Return what the split has, and the number of annotations that were left out or changed, as one line."""
        num_steps = sum(len(sample.steps) for sample in self.samples)
        num_missing = len(self.drawn) + sum(sample.video_path is None for sample in self.samples)
        listed = [
            format_count(len(self.samples), "video"),
            format_count(num_steps, "step"),
            *([f"{num_missing} without a file" + " (drawn)" * bool(self.drawn)] if num_missing else []),
            *(f"{number} {reason}" for reason, number in sorted(self.total.items())),
        ]
        return f"{', '.join(self.datasets)}: {', '.join(listed)}"

    def provenance(self) -> dict[str, Any]:
        """Return the provenance of the split, without its files and settings."""
        return {
            "datasets": list(self.datasets),
            "counts": self.total,
            "counts_by_video": {video_id: dict(+counts) for video_id, counts in self.counts.items() if +counts},
            "segments": self.segments,
            "not_usable": self.problems,
            "drawn": self.drawn,
        }


def import_videos(
    found: Annotations,
    find_file: Callable[[AnnotatedVideo], Path | None],
    *,
    fps: float = 2.0,
    repeats: Repeats = "auto",
    wrong: Wrong = "done",
    draw_in: Path | None = None,
    max_drawn_s: float = math.inf,
) -> ImportedVideos:
    """Return the samples of the annotations, each with its video's file, or with a stand-in drawn into ``draw_in``.

    Raises ``ValueError`` if no video can be used, or if the videos to draw last longer than ``max_drawn_s``.
    """
    result = ImportedVideos(datasets=found.datasets)
    for video in found.videos:
        try:
            if video.problem:
                raise ValueError(video.problem)
            path = find_file(video)
            sample, counts = build_sample(
                video,
                fps=fps,
                duration_s=None if path is None else probe(path).duration_s,
                recipe=found.recipes.get(video.recipe, ()),
                repeats=repeats,
                wrong=wrong,
            )
        except (ValueError, EngineError) as error:
            result.problems[video.video_id] = str(error)
            continue
        counts["without a recipe"] += bool(found.recipes) and video.recipe not in found.recipes
        result.counts[video.video_id], result.segments[video.video_id] = counts, len(video.segments)
        result.samples.append(replace(sample, video_path=None if path is None else path.resolve()))
    if not result.samples:
        name, reason = next(iter(result.problems.items()))
        raise ValueError(f"{name}: {reason}")
    if draw_in is not None:
        missing = [sample for sample in result.samples if sample.video_path is None]
        if (length_s := sum(sample.num_frames / sample.fps for sample in missing)) > max_drawn_s:
            raise ValueError(f"the missing videos last {length_s:,.0f} s; at most {max_drawn_s:,.0f} s are drawn")
        result.drawn = [sample.video_id for sample in missing]
        result.samples = [_draw(sample, draw_in) if sample.video_path is None else sample for sample in result.samples]
    return result


def _draw(sample: Sample, folder: Path) -> Sample:
    """Return the sample with a video whose cards name the step in progress that was started last."""
    times = {turn.text: turn.time_s for turn in sample.turns if turn.role == "update"}
    spans = [
        (times.get(f"{one.id}->start"), times.get(f"{one.id}->complete", math.inf), one.name) for one in sample.steps
    ]

    def find_text(time_s: float) -> str:
        started = [
            (start_s, name) for start_s, end_s, name in spans if start_s is not None and start_s <= time_s < end_s
        ]
        return max(started, default=(0.0, f"({sample.goal or 'no step'})"))[1]

    path = folder / f"{make_file_name(sample.video_id)}.mp4"
    write_cards(path, find_text, fps=sample.fps, num_frames=sample.num_frames)
    return replace(sample, video_path=path.resolve())
