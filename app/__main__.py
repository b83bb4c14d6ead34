"""Command line of the page: loads the model once and serves on this machine.

Exit codes: 0 all well; 2 wrong use or a world that does not fit, with one line why.
"""

import argparse
import errno
import os
import socket
import sys
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from functools import partial
from pathlib import Path

from engine.interrupts import exit_code, exit_on_interrupt, handle_interrupts

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from starlette.middleware import Middleware
from transformers.utils import logging as transformers_logging

from app.batch.context import OWN_SPLITS, Batches
from app.batch.job_queue import Jobs
from app.batch.own_splits import read_kept
from app.batch.selection.handlers import read_marks
from app.exports.__main__ import STORE
from app.guard import LOOPBACK, HostRules, RequestGuard
from app.identity import read_users
from app.page import build_page
from app.player.component import CSS as PLAYER_CSS
from app.player.context import Bench
from app.player.review_context import Desk
from app.player.session.recordings import BUDGET_BYTES, KeptRecordings
from app.reviews.store import check_place, open_store
from app.theme import CSS, make_theme
from app.transcode import DisplayCopies, serving_folder
from app.videos import MAX_UPLOAD_BYTES, read_demos, read_splits
from engine.errors import EngineError
from engine.loading import load_model
from eval.data.loading import read_split
from eval.data.samples import Split
from eval.matching.sentence_encoders import DEFAULT_ENCODER, load_encoder
from eval.reports.scoring import ScoreSettings
from eval.runs.worker import Work

ASSETS = Path(__file__).parent.parent / "assets"
BUNDLED = ASSETS / "checkpoint"
LIMITS = "The bundled model knows nothing but its own drawings: on any other video it writes nonsense."
OFFERED = ("test", "val")
"""Splits that are looked for beside the bundled videos."""
NO_SUMMARY = {"GRADIO_ANALYTICS_CACHE_FREQUENCY": str(2**53), "GRADIO_ANALYTICS_MAX_EVENTS": "1"}
"""Keeps Gradio from summing up all its events after each: nobody sees the sum, and one odd session broke it for all."""
MOST_WAITING = 100
"""Events that wait for their turn; who comes then is asked to try again."""


def main(arguments: list[str] | None = None) -> int:
    """Serve the page until it is interrupted; return the exit code."""
    options = _parser().parse_args(arguments)
    transformers_logging.disable_progress_bar()
    try:
        with handle_interrupts():
            serve(options)
    except (EngineError, ValueError, OSError) as error:
        print(f"error: {str(error).strip().splitlines()[0]}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print("stopped", file=sys.stderr)
        return exit_code(interrupt)
    return 0


def serve(options: argparse.Namespace) -> None:
    """Load the model and serve. Raises ``ValueError`` when the port is taken, and the errors of ``load_model``."""
    if not options.max_minutes > 0:
        raise ValueError(f"--max-minutes must be positive; got {options.max_minutes:g}")
    if not options.max_upload_mb > 0:
        raise ValueError(f"--max-upload-mb must be positive; got {options.max_upload_mb}")
    _check_address(options.host, options.port)
    users = read_users(options.auth) if options.auth else None
    demos = read_demos(options.data)
    where = check_place(options.reviews) if options.reviews else options.runs / STORE.name
    with serving_folder() as folder, open_store(where) as store:
        checkpoint = load_model(
            options.checkpoint,
            device=options.device,
            heads=options.heads,
            allow_untrained_heads=options.allow_untrained_heads,
        )
        encoder = load_encoder()
        bench = Bench(
            checkpoint=checkpoint,
            demos=demos,
            copies=DisplayCopies(folder),
            encode=encoder.encode,
            encoder=encoder.settings(),
            limits=LIMITS if checkpoint.folder.resolve() == BUNDLED.resolve() else "",
            max_duration_s=60 * options.max_minutes,
            recordings=KeptRecordings(options.keep_mb * 2**20),
        )
        private = (*store.files, *filter(None, [options.auth]))
        splits = read_splits(
            [options.data.with_name(f"{name}.json") for name in OFFERED], options.split, videos=options.videos
        )
        problems = read_kept(splits, options.runs / OWN_SPLITS)
        batches = Batches(
            jobs=Jobs(encode=bench.encode, scoring=ScoreSettings(text_encoder=DEFAULT_ENCODER), encoder=bench.encoder),
            splits=splits,
            runs=options.runs.resolve(),
            work=Work(checkpoint=str(options.checkpoint), heads=options.heads),
            takes_paths=options.host in LOOPBACK,
            private=private,
            marks=partial(read_marks, store, is_blind=options.blind),
        )
        desk = Desk(store=store, splits=_reviewed(splits, options.data), recent=bench.recent, is_blind=options.blind)
        said = [f"StepScope: http://{options.host}:{options.port}", demos.notice, store.notice, *problems]
        print(*filter(None, said), sep="\n", flush=True)
        rules = HostRules.read(options.host, options.allowed_host)
        os.environ.update(NO_SUMMARY)
        build_page(bench, batches, desk).queue(max_size=MOST_WAITING).launch(
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


def _reviewed(splits: MutableMapping[str, Split], data: Path) -> Mapping[str, Split]:
    """Return the splits with that of the bundled videos; why that cannot be read, the page says."""
    if data.stem in splits or not data.is_file():
        return splits
    try:
        return ChainMap(splits, {data.stem: read_split(data)})  # it shows splits that are added later
    except ValueError:
        return splits


def _check_address(host: str, port: int) -> None:
    """Try the address before the model is loaded. Raises ``ValueError``."""
    if not 0 < port < 65536:
        raise ValueError(f"--port must lie between 1 and 65535; got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        why = f"port {port} is taken" if error.errno == errno.EADDRINUSE else error.strerror
        raise ValueError(f"cannot serve on {host}: {why}; give another --port or --host") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m app", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to serve on (default: this machine only)")
    parser.add_argument("--port", type=int, default=7860)
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another host name under which the page is opened, as of a proxy; .example.org for all that end so; "
        "may be repeated",
    )
    parser.add_argument("--data", type=Path, default=ASSETS / "demo" / "test.json", help="manifest of bundled videos")
    parser.add_argument(
        "--split",
        type=Path,
        action="append",
        default=[],
        help="another split for batch and reviews (beside test.json and val.json next to --data); may be repeated",
    )
    parser.add_argument(
        "--videos",
        type=Path,
        metavar="DIR",
        help="folder of the videos of --split where its records have no video_path, as of python -m eval run",
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of run folders (default: %(default)s)")
    parser.add_argument("--reviews", help=f"store: a file, or an SQLAlchemy URL (default: {STORE.name} in --runs)")
    parser.add_argument("--blind", action="store_true", help="no reviewer sees what another says")
    parser.add_argument("--auth", type=Path, metavar="FILE", help="who may come in: lines of name:password")
    parser.add_argument("--checkpoint", default=ASSETS / "checkpoint", help="folder or hub id")
    parser.add_argument("--heads", type=Path, help="heads file, if not the checkpoint's own")
    parser.add_argument("--allow-untrained-heads", action="store_true", help="go on with random heads")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--max-minutes", type=float, default=10, help="longest upload (default: 10)")
    parser.add_argument(
        "--keep-mb",
        type=int,
        default=BUDGET_BYTES // 2**20,
        help="memory that the runs of all windows keep for other thresholds (default: %(default)s)",
    )
    parser.add_argument("--max-upload-mb", type=int, default=2048, help="largest upload, in MB (default: 2048)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
