"""The command ``annotations``: makes a split from the annotations of a data set."""

import math
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import digest_file
from stepscope.engine.plurals import format_count
from stepscope.engine.video.cards import write_cards
from stepscope.engine.video.reader import probe
from stepscope.eval.data.json_fields import check_number
from stepscope.eval.data.loading import VideoFolder
from stepscope.eval.data.samples import Sample
from stepscope.eval.data.writers import write_samples
from stepscope.eval.datasets.options import AnnotationsOptions
from stepscope.eval.datasets.reading import read_annotations
from stepscope.eval.datasets.recipes import build_sample
from stepscope.eval.datasets.segments import AnnotatedVideo, Annotations
from stepscope.eval.runs.folder import make_file_name


@dataclass(kw_only=True)
class _Result:
    """The samples of the videos, and what was left out."""

    samples: list[Sample] = field(default_factory=list)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    """Annotations that were left out or changed by the reason, for each video."""
    problems: dict[str, str] = field(default_factory=dict)
    """Reasons why videos have no sample."""
    drawn: list[str] = field(default_factory=list)

    @property
    def total(self) -> Counter[str]:
        """The counts of all videos."""
        return sum(self.counts.values(), Counter[str]())


def annotations(options: AnnotationsOptions) -> int:
    """Write the split and print what it holds; return 1 if a video cannot be used.

    Raises ``ValueError`` if no video can.
    """
    check_number("--fps", options.fps, minimum=0.001, maximum=1000)
    check_number("--level", options.level, minimum=1, maximum=10)
    names = ("dataset", "mapping", "columns", "unit", "level", "task_graphs", "subset")
    found = read_annotations(options.files, **{name: getattr(options, name) for name in names})
    folder = None if options.videos is None else VideoFolder(options.videos)
    result = _Result()
    for video in found.videos:
        try:
            sample, result.counts[video.video_id] = _build(video, found, folder, options)
        except (ValueError, EngineError) as error:
            result.problems[video.video_id] = str(error)
            continue
        if sample.video_path is None and options.draw_missing is not None:
            sample = _draw(sample, options.draw_missing)
            result.drawn.append(sample.video_id)
        result.samples.append(sample)
    if not result.samples:
        raise ValueError(next(iter(result.problems.values())))
    provenance = _describe(found, result, options)
    write_samples(options.out, result.samples, file_format="manifest", provenance={"annotations": provenance})
    _print(found, result, options)
    return 1 if result.problems else 0


def _build(
    video: AnnotatedVideo, found: Annotations, folder: VideoFolder | None, options: AnnotationsOptions
) -> tuple[Sample, Counter[str]]:
    if video.problem:
        raise ValueError(video.problem)
    path = None if folder is None else folder.find_named(dict.fromkeys((*video.file_names, video.video_id)))
    sample, counts = build_sample(
        video,
        fps=options.fps,
        duration_s=None if path is None else probe(path).duration_s,
        recipe=found.recipes.get(video.recipe, ()),
        repeats=options.repeats,
        wrong=options.wrong,
    )
    counts["without a recipe"] += bool(found.recipes) and video.recipe not in found.recipes
    return replace(sample, video_path=None if path is None else path.resolve()), counts


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


def _describe(found: Annotations, result: _Result, options: AnnotationsOptions) -> dict[str, Any]:
    """Return the provenance of the split: files, settings, and what was left out of each video."""
    return {
        "datasets": list(found.datasets),
        "files": {path.name: digest_file(path) if path.is_file() else "" for path in options.files},
        **{name: getattr(options, name) for name in ("fps", "level", "repeats", "wrong", "subset")},
        "counts": result.total,
        "counts_by_video": {video_id: dict(+counts) for video_id, counts in result.counts.items() if +counts},
        "not_usable": result.problems,
        "drawn": result.drawn,
    }


def _print(found: Annotations, result: _Result, options: AnnotationsOptions) -> None:
    num_steps = sum(len(sample.steps) for sample in result.samples)
    num_missing = len(result.drawn) + sum(sample.video_path is None for sample in result.samples)
    listed = [
        format_count(len(result.samples), "video"),
        format_count(num_steps, "step"),
        *([f"{num_missing} without a file" + " (drawn)" * bool(result.drawn)] if num_missing else []),
        *(f"{number} {reason}" for reason, number in sorted(result.total.items())),
    ]
    print(f"{options.out}: {', '.join(found.datasets)}: {', '.join(listed)}")
    if found.not_read:
        print(f"not read: {', '.join(found.not_read[:5])}{' ...' * (len(found.not_read) > 5)}", file=sys.stderr)
    for video_id, reason in result.problems.items():
        print(f"failed: {video_id}: {reason}", file=sys.stderr)
