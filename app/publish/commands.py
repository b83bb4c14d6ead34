"""The command ``stepscope publish``."""

import sys

from stepscope.app.publish.folder import check_replaceable
from stepscope.app.publish.options import PublishOptions
from stepscope.app.publish.writer import Source, choose_entries, write_player
from stepscope.engine.plurals import format_count
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.text_encoder import import_encoder
from stepscope.eval.matching.turns import DEFAULT_ENCODER
from stepscope.eval.reports.scoring import ScoreSettings, read_score_settings
from stepscope.eval.runs.folder import RunFolder


def publish(options: PublishOptions) -> int:
    """Write a read-only player of a run; return 1 if a video has no run or no picture."""
    run = RunFolder(options.run)
    split = read_split(options.data or run.split_path())
    entries = choose_entries(split, options.video)
    check_replaceable(options.out.resolve())  # before the encoder is loaded
    settings = run.settings() or {}
    encoder = import_encoder(settings.get("text_encoder") or DEFAULT_ENCODER)
    source = Source(
        run=run,
        settings=settings,
        entries=entries,
        scoring=read_score_settings(settings, default=ScoreSettings(text_encoder=encoder.name)),
        encode=encoder.encode,
        encoder=encoder.settings(),
    )
    try:
        problems = write_player(options.out, source, files=options.videos, title=options.title)
    except OSError as error:
        reason = f"{options.out} cannot be written ({error.strerror or error}); free some space or choose another --out"
        raise ValueError(reason) from error
    print(f"{format_count(len(entries), 'video')}: {options.out}; see it with: python -m http.server -d {options.out}")
    for video_id, problem in problems.items():
        print(f"{video_id}: {problem}", file=sys.stderr)
    return 1 if problems else 0
