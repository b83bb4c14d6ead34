"""The page's server: it loads the model once and listens on this machine."""

import errno
import os
import socket
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from functools import partial
from pathlib import Path

from starlette.middleware import Middleware
from transformers.utils import logging as transformers_logging

from app.batch.context import SPLITS_FOLDER, BatchContext
from app.batch.job_queue import JobQueue
from app.batch.new_run.own_splits import read_kept_splits
from app.batch.selection.handlers import read_marks
from app.cli.options import PageOptions
from app.exports.options import STORE
from app.guard import LOOPBACK, HostRules, RequestGuard
from app.identity import read_users
from app.page import build_page
from app.player.context import AppContext
from app.player.display.component import CSS as PLAYER_CSS
from app.player.review_context import ReviewContext
from app.player.session.recordings import RecordingCache
from app.reviews.store import check_store_location, open_store
from app.theme import CSS, make_theme
from app.transcode import DisplayCopies, serving_folder
from app.videos import MAX_UPLOAD_BYTES, read_bundled_videos, read_splits
from engine.cli.options import BUNDLED
from engine.config import StreamConfig, read_config
from engine.loading import load_model
from eval.data.loading import read_split
from eval.data.samples import Split
from eval.matching.sentence_encoders import load_encoder
from eval.matching.turns import DEFAULT_ENCODER
from eval.reports.scoring import ScoreSettings
from eval.runs.worker import WorkerConfig

BUNDLED_MODEL_WARNING = "The bundled model was trained on drawings only. On other videos its output is meaningless."
DEFAULT_SPLITS = ("test", "val")
"""Names of splits that are loaded if their files lie next to ``--data``."""
GRADIO_ANALYTICS_OPTIONS = {"GRADIO_ANALYTICS_CACHE_FREQUENCY": str(2**53), "GRADIO_ANALYTICS_MAX_EVENTS": "1"}
"""Stop Gradio from aggregating all events after each one: the result is unused, and a malformed session broke it."""
MAX_QUEUED_EVENTS = 100
"""Maximum number of queued events; further events are refused with a request to try again."""


def serve(options: PageOptions) -> None:
    """Load the model and serve. Raises ``ValueError`` if the port is taken, and the errors of ``load_model``."""
    if not options.max_minutes > 0:
        raise ValueError(f"--max-minutes must be positive; got {options.max_minutes:g}")
    if not options.max_upload_mb > 0:
        raise ValueError(f"--max-upload-mb must be positive; got {options.max_upload_mb}")
    _check_address(options.host, options.port)
    config = read_config(options.config, fps=StreamConfig().fps)
    users = read_users(options.auth) if options.auth else None
    store_location = check_store_location(options.reviews) if options.reviews else options.runs / STORE.name
    with serving_folder() as folder, open_store(store_location) as store:
        private = (*store.files, *filter(None, [options.auth]))
        splits = read_splits(
            [options.data.with_name(f"{name}.json") for name in DEFAULT_SPLITS], options.split, videos=options.videos
        )
        problems = read_kept_splits(splits, options.runs / SPLITS_FOLDER)
        context = _load_context(options, config, splits, folder)
        batches = BatchContext(
            jobs=JobQueue(
                encode=context.encode, scoring=ScoreSettings(text_encoder=DEFAULT_ENCODER), encoder=context.encoder
            ),
            splits=splits,
            runs=options.runs.resolve(),
            work=WorkerConfig(checkpoint=options.checkpoint, heads=options.heads, config=config),
            takes_paths=options.host in LOOPBACK,
            private=private,
            marks=partial(read_marks, store, is_blind=options.blind),
        )
        reviews = ReviewContext(
            store=store, splits=_reviewable_splits(splits, options.data), recent=context.recent, is_blind=options.blind
        )
        messages = [
            f"StepScope: http://{options.host}:{options.port}",
            context.bundled_videos.notice,
            store.notice,
            *problems,
        ]
        print(*filter(None, messages), sep="\n", flush=True)
        rules = HostRules.from_options(options.host, options.allowed_host)
        os.environ.update(GRADIO_ANALYTICS_OPTIONS)
        build_page(context, batches, reviews).queue(max_size=MAX_QUEUED_EVENTS).launch(
            app_kwargs={"middleware": [Middleware(RequestGuard, rules=rules)]},
            auth=users,
            server_name=options.host,
            server_port=options.port,
            max_file_size=min(MAX_UPLOAD_BYTES, options.max_upload_mb * 2**20),
            blocked_paths=[str(path.resolve()) for path in private],
            theme=make_theme(),
            css=CSS + PLAYER_CSS,
            footer_links=["settings"],
            run_history=False,
            enable_monitoring=False,
            ssr_mode=False,
            quiet=True,
        )


def _load_context(options: PageOptions, config: StreamConfig, splits: Mapping[str, Split], folder: Path) -> AppContext:
    """Load the model and the bundled videos; transcoded videos go to ``folder``."""
    transformers_logging.disable_progress_bar()
    checkpoint = load_model(
        options.checkpoint,
        device=options.device,
        heads=options.heads,
        allow_untrained_heads=options.allow_untrained_heads,
    )
    encoder = load_encoder()
    return AppContext(
        checkpoint=checkpoint,
        bundled_videos=read_bundled_videos(options.data),
        copies=DisplayCopies(folder),
        encode=encoder.encode,
        encoder=encoder.settings(),
        model_warning=BUNDLED_MODEL_WARNING if checkpoint.folder.resolve() == BUNDLED.resolve() else "",
        config=config,
        splits=splits,
        max_duration_s=60 * options.max_minutes,
        recordings=RecordingCache(options.keep_mb * 2**20),
    )


def _reviewable_splits(splits: MutableMapping[str, Split], data: Path) -> Mapping[str, Split]:
    """Return the splits including the bundled one; the page reports separately why that one cannot be read."""
    if data.stem in splits or not data.is_file():
        return splits
    try:
        return ChainMap(splits, {data.stem: read_split(data)})  # a view: it includes splits that are added later
    except ValueError:
        return splits


def _check_address(host: str, port: int) -> None:
    """Raise ``ValueError`` if the address cannot be bound; called before the model is loaded."""
    if not 0 < port < 65536:
        raise ValueError(f"--port must be between 1 and 65535; got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        reason = f"port {port} is taken" if error.errno == errno.EADDRINUSE else error.strerror
        raise ValueError(f"cannot serve on {host}: {reason}; give another --port or --host") from error
