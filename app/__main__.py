"""Command line of the page: loads the model once and serves on this machine.

Exit codes: 0 all well; 2 wrong use or a world that does not fit, with one line why.
"""

import argparse
import errno
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr
from transformers.utils import logging as transformers_logging

from app.batch.batches import Batches
from app.batch.jobs import Jobs
from app.clips import read_demos, read_splits
from app.desk.desk import Desk
from app.desk.who import read_users
from app.display import DisplayCopies
from app.exports.__main__ import STORE
from app.handlers import Bench
from app.palette import CSS
from app.player.player import CSS as PLAYER_CSS
from app.reviews.store import check_place, open_store
from app.ui import build_page
from engine.checkpoint import load_model
from engine.errors import EngineError
from eval.encoders import EMBEDDED, load_encoder
from eval.samples import Split
from eval.scoring import ScoreSettings
from eval.splits import read_split
from eval.worker import Work

ASSETS = Path(__file__).parent.parent / "assets"
OFFERED = ("test", "val")
"""Splits that are looked for beside the bundled videos."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def main(arguments: list[str] | None = None) -> int:
    """Serve the page until it is interrupted; return the exit code."""
    options = _parser().parse_args(arguments)
    transformers_logging.disable_progress_bar()
    try:
        serve(options)
    except (EngineError, ValueError, OSError) as error:
        print(f"error: {str(error).strip().splitlines()[0]}", file=sys.stderr)
        return 2
    return 0


def serve(options: argparse.Namespace) -> None:
    """Load the model and serve. Raises ``ValueError`` when the port is taken, and the errors of ``load_model``."""
    if not options.max_minutes > 0:
        raise ValueError(f"--max-minutes must be positive; got {options.max_minutes:g}")
    _check_address(options.host, options.port)
    users = read_users(options.auth) if options.auth else None
    demos = read_demos(options.data)
    where = check_place(options.reviews) if options.reviews else options.runs / STORE.name
    with TemporaryDirectory(prefix="stepscope-display-") as folder, open_store(where) as store:
        checkpoint = load_model(
            options.checkpoint,
            device=options.device,
            heads=options.heads,
            allow_untrained_heads=options.allow_untrained_heads,
        )
        bench = Bench(
            checkpoint=checkpoint,
            demos=demos,
            copies=DisplayCopies(Path(folder)),
            encode=load_encoder().encode,
            max_duration_s=60 * options.max_minutes,
        )
        splits = read_splits([options.data.with_name(f"{name}.json") for name in OFFERED], options.split)
        batches = Batches(
            jobs=Jobs(encode=bench.encode, scoring=ScoreSettings(text_encoder=EMBEDDED)),
            splits=splits,
            runs=options.runs.resolve(),
            work=Work(checkpoint=str(options.checkpoint), heads=options.heads),
            takes_paths=options.host in LOOPBACK,
        )
        desk = Desk(store=store, splits=_reviewed(splits, options.data), is_blind=options.blind)
        videos = [sample.video_path for split in desk.splits.values() for sample in split.samples if sample.video_path]
        said = [f"StepScope: http://{options.host}:{options.port}", demos.notice, store.notice]
        print(*filter(None, said), sep="\n", flush=True)
        build_page(bench, batches, desk).launch(
            auth=users,
            server_name=options.host,
            server_port=options.port,
            allowed_paths=[
                *(str(path.resolve()) for path in (*(clip.path for clip in demos.clips), *videos)),
                str(batches.runs),
            ],
            blocked_paths=[str(path) for path in (*store.files, *filter(None, [options.auth]))],
            theme=gr.themes.Default(),
            css=CSS + PLAYER_CSS,
            footer_links=["settings"],
            run_history=False,
            enable_monitoring=False,
            ssr_mode=False,
            quiet=True,
        )


def _reviewed(splits: Mapping[str, Split], data: Path) -> Mapping[str, Split]:
    """Return the splits with that of the bundled videos; why that cannot be read, the page says."""
    if data.stem in splits or not data.is_file():
        return splits
    try:
        return {**splits, data.stem: read_split(data)}
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
    parser.add_argument("--data", type=Path, default=ASSETS / "demo" / "test.json", help="manifest of bundled videos")
    parser.add_argument(
        "--split",
        type=Path,
        action="append",
        default=[],
        help="another split for batch and reviews (beside test.json and val.json next to --data); may be repeated",
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
    return parser


if __name__ == "__main__":
    sys.exit(main())
