"""The command ``annotations``: makes a split from the annotations of a data set."""

import sys
from pathlib import Path

from stepscope.engine.io.files import digest_file
from stepscope.eval.data.json_fields import check_number
from stepscope.eval.data.loading import VideoFolder
from stepscope.eval.data.writers import write_samples
from stepscope.eval.datasets.importing import import_videos
from stepscope.eval.datasets.options import AnnotationsOptions
from stepscope.eval.datasets.reading import read_annotations
from stepscope.eval.datasets.segments import AnnotatedVideo


def annotations(options: AnnotationsOptions) -> int:
    """Write the split and print what it holds; return 1 if a video cannot be used.

    Raises ``ValueError`` if no video can.
    """
    check_number("--fps", options.fps, minimum=0.001, maximum=1000)
    check_number("--level", options.level, minimum=1, maximum=10)
    names = ("dataset", "mapping", "columns", "unit", "level", "task_graphs", "subset")
    found = read_annotations(options.files, **{name: getattr(options, name) for name in names})
    folder = None if options.videos is None else VideoFolder(options.videos)

    def find_file(video: AnnotatedVideo) -> Path | None:
        return None if folder is None else folder.find_named(video.names)

    result = import_videos(
        found, find_file, fps=options.fps, repeats=options.repeats, wrong=options.wrong, draw_in=options.draw_missing
    )
    provenance = {
        **result.provenance(),
        "files": {path.name: digest_file(path) if path.is_file() else "" for path in options.files},
        **{name: getattr(options, name) for name in ("fps", "level", "repeats", "wrong", "subset")},
    }
    write_samples(options.out, result.samples, file_format="manifest", provenance={"annotations": provenance})
    print(f"{options.out}: {result.describe()}")
    if found.not_read:
        print(f"not read: {', '.join(found.not_read[:5])}{' ...' * (len(found.not_read) > 5)}", file=sys.stderr)
    for video_id, reason in result.problems.items():
        print(f"failed: {video_id}: {reason}", file=sys.stderr)
    return 1 if result.problems else 0
