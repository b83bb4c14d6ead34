"""The page's server: it loads the model once and listens on this machine, perhaps behind a proxy."""

import errno
import ipaddress
import os
import re
import socket
import sys
import time
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Final

import gradio as gr
from gradio.utils import get_upload_folder
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from stepscope.app.agents.workspace import Workspace, import_server
from stepscope.app.api.socket import chat_routes
from stepscope.app.batch.new_run.own_splits import read_kept_splits
from stepscope.app.chat.workers import open_workers
from stepscope.app.cli.options import PageOptions
from stepscope.app.controls.gradio_private import has_events
from stepscope.app.controls.widgets import MODULES
from stepscope.app.core.batch_context import SPLITS_FOLDER, BatchContext
from stepscope.app.core.display_copies import GRACE_S, DisplayCopies, remove_unused, serving_folder
from stepscope.app.core.job_queue import JobQueue
from stepscope.app.core.model_use import ModelUse
from stepscope.app.core.places import RecentSessions
from stepscope.app.core.run import BUNDLED_MODEL_WARNING
from stepscope.app.core.saved import BundledRun
from stepscope.app.core.videos import MAX_UPLOAD_BYTES, read_bundled_videos, read_splits
from stepscope.app.exports.folder import correct_sample
from stepscope.app.exports.options import STORE
from stepscope.app.live.handlers import read_recorded
from stepscope.app.live.tab import CSS as LIVE_CSS
from stepscope.app.page import build_page
from stepscope.app.player.component import CSS as PLAYER_CSS
from stepscope.app.player.opening import show_bundled
from stepscope.app.review_store.database import check_store_location
from stepscope.app.review_store.store import open_store, read_marks
from stepscope.app.server import gradio_patches
from stepscope.app.server.guard import RequestGuard
from stepscope.app.server.hosts import HostRules
from stepscope.app.server.identity import current_user, current_visitor, read_users
from stepscope.app.server.limits import limit_connections, windows
from stepscope.app.server.routes import picture_routes, plotly_routes, speech_routes
from stepscope.app.space.zero_gpu import ZeroGpuModel, find_gpu
from stepscope.app.style.theme import CSS, make_theme
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.live_run import RecordingCache
from stepscope.engine.chat.pool import MAX_QUEUED_QUESTIONS
from stepscope.engine.chat.service import AnsweringWorker
from stepscope.engine.chat.worker import WorkerOptions
from stepscope.engine.cli.options import BUNDLED_RUN
from stepscope.engine.config import StreamConfig
from stepscope.engine.config_files import read_config
from stepscope.engine.loading import load_as
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.files.bundled import bundled_name
from stepscope.eval.cli.run_command import make_worker_config
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Split
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.matching.turns import DEFAULT_ENCODER
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.served.chat import Endpoint

DEFAULT_SPLITS = ("test", "val")
"""Names of splits that are loaded if their files lie next to ``--data``."""
GRADIO_ANALYTICS_OPTIONS = {"GRADIO_ANALYTICS_CACHE_FREQUENCY": str(2**53), "GRADIO_ANALYTICS_MAX_EVENTS": "1"}
"""Stop Gradio from aggregating all events after each one: the result is unused, and a malformed session broke it."""
MAX_QUEUED_EVENTS = 256
"""Maximum number of queued events; further events are refused with a request to try again."""

SWITCH_INTERVAL_S = 0.001
"""Time that a thread computes before the next one does; Python's is 5 ms, and other windows wait for all turns."""
MAX_ACTIVE_EVENTS = 40 + MAX_QUEUED_QUESTIONS
"""Maximum number of running events. A question that waits for a worker is one, without a thread."""


def serve(options: PageOptions) -> None:
    """Load the model and serve. Raises ``ValueError`` if the port is taken, and the errors of ``load_model``."""
    if not options.max_minutes > 0:
        raise ValueError(f"--max-minutes must be positive; got {options.max_minutes:g}")
    if not options.live_minutes >= 0:
        raise ValueError(f"--live-minutes must be at least 0; got {options.live_minutes:g}")
    if not options.max_upload_mb > 0:
        raise ValueError(f"--max-upload-mb must be positive; got {options.max_upload_mb}")
    server = import_server() if options.mcp else None
    if bool(options.endpoint) != bool(options.model):
        raise ValueError("--endpoint and --model name a served model together; give both or neither")
    endpoint = Endpoint(url=options.endpoint, model=options.model, num_retries=0) if options.endpoint else None
    host = options.host.removeprefix("[").removesuffix("]")
    _check_address(host, options.port)
    root_path = read_root_path(options.root_path)
    trust_proxies(options.trusted_proxy)
    bypass_proxies(host)
    url_host = f"[{host}]" if ":" in host else host
    rules = HostRules.from_options(
        host, options.allowed_host, is_proxied=bool(options.root_path or root_path or options.trusted_proxy)
    )
    config = read_config(options.config, preset=options.preset)
    users = read_users(options.auth) if options.auth else None
    store_location = check_store_location(options.reviews) if options.reviews else options.runs / STORE.name
    print(f"Loading {options.checkpoint} and the page.", flush=True)
    with (
        serving_folder() as folder,
        closing(DisplayCopies(folder, served=Path(get_upload_folder()))) as copies,
        open_store(store_location, name_user=current_user.get) as store,
        ExitStack() as stack,
    ):
        private = (*store.files, *filter(None, [options.auth]))
        splits = read_splits(
            [options.data.with_name(f"{name}.json") for name in DEFAULT_SPLITS], options.split, videos=options.videos
        )
        problems = [
            *read_kept_splits(splits, options.runs / SPLITS_FOLDER),
            *read_recorded(splits, options.runs.resolve()),
        ]
        is_of_one_person = rules.is_local and users is None
        recent = RecentSessions(str if is_of_one_person else current_visitor.get)
        context = _load_context(options, config, splits, copies, stack)
        context = replace(context, recent=recent, endpoint=endpoint, is_blind=options.blind)
        bundled_split = RunFolder(BUNDLED_RUN).split_path().resolve()
        batches = BatchContext(
            jobs=JobQueue(
                encode=context.encode, scoring=ScoreSettings(text_encoder=DEFAULT_ENCODER), encoder=context.encoder
            ),
            splits=splits,
            runs=options.runs.resolve(),
            bundled=BUNDLED_RUN if bundled_split in {split.path.resolve() for split in splits.values()} else None,
            work=make_worker_config(options, replace(context.config, fps=StreamConfig().fps)),  # as in stepscope eval
            takes_paths=rules.is_local,
            private=private,
            recent=recent,
            is_blind=options.blind,
            marks=partial(read_marks, store, is_blind=options.blind),
            correct=partial(correct_sample, store, is_blind=options.blind),
        )
        reviews = ReviewContext(
            store=store, splits=_reviewable_splits(splits, options.data), recent=context.recent, is_blind=options.blind
        )
        messages = [
            f"StepScope: http://{url_host}:{options.port}{root_path if root_path.startswith('/') else ''}",
            context.bundled_videos.notice,
            store.notice,
            *problems,
        ]
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        os.environ.update(GRADIO_ANALYTICS_OPTIONS)
        gradio_patches.refuse_downloads()
        gradio_patches.keep_no_values()
        gradio_patches.share_queue()
        gradio_patches.share_sessions()
        gradio_patches.bound_choices()
        gradio_patches.remove_failed_uploads()
        gradio_patches.show_turns_in_components()
        gradio_patches.load_first(f"{MODULES.address}/live/before_gradio.js")
        limit_connections()
        page = build_page(context, batches, reviews).queue(max_size=MAX_QUEUED_EVENTS)
        routes: list[BaseRoute] = [MODULES.make_route(), *plotly_routes(), *speech_routes(batches.find_answer)]
        routes += picture_routes(batches.find_picture)
        if context.remote is None:
            routes += chat_routes(context.chat_service, context.checkpoint)
        lifespan: dict[str, Any] = {}
        if server is not None:
            workspace = _make_workspace(context, batches, reviews)
            tools, lifespan["lifespan"] = server.make_routes(workspace, is_of_one_person=is_of_one_person)
            routes += tools
        page.launch(
            app_kwargs={"middleware": [Middleware(RequestGuard, rules=rules)], "routes": routes, **lifespan},
            auth=users,
            server_name=url_host,
            server_port=options.port,
            root_path=root_path,
            max_file_size=min(MAX_UPLOAD_BYTES, options.max_upload_mb * 2**20),
            blocked_paths=[str(path.resolve()) for path in private],
            theme=make_theme(),
            css=CSS + PLAYER_CSS + LIVE_CSS,
            head=MODULES.make_preloads(),
            footer_links=["settings"],
            run_history=False,
            enable_monitoring=False,
            ssr_mode=False,
            quiet=True,
            max_threads=MAX_ACTIVE_EVENTS,
            state_session_capacity=gradio_patches.MAX_SESSIONS,
            prevent_thread_lock=True,
            _frontend=False,  # whose only effect is a request that must be answered within 3 s, even on a busy machine
        )
        print(*filter(None, messages), sep="\n", flush=True)
        _prepare_opening(context)
        Thread(target=_watch_uploads, args=(page, context, batches), daemon=True).start()
        page.block_thread()


def _make_workspace(context: AppContext, batches: BatchContext, reviews: ReviewContext) -> Workspace:
    """Return what the tools of agents work on: what the page does."""
    checkpoint = context.checkpoint
    return Workspace(
        batches=batches,
        store=reviews.store,
        find_checkpoint=lambda digest: checkpoint if digest == checkpoint.digest else None,
        model_problem="" if context.remote is None else "no tool can run the model here, which is on ZeroGPU",
    )


def _open_chat_workers(
    options: PageOptions, checkpoint: Checkpoint
) -> AbstractContextManager[Sequence[AnsweringWorker]]:
    worker_options = WorkerOptions(
        checkpoint=options.checkpoint,
        heads=str(options.heads) if options.heads else None,
        allow_untrained_heads=options.allow_untrained_heads,
        quantize=options.quantize,
        frame_pixels=options.frame_pixels,
        dtype=options.dtype,
        budget_bytes=options.chat_mb * 2**20,
        host_budget_bytes=options.chat_host_mb * 2**20,
    )
    return open_workers(options.chat_devices, checkpoint, worker_options)


def _load_context(
    options: PageOptions,
    config: StreamConfig,
    splits: Mapping[str, Split],
    copies: DisplayCopies,
    stack: ExitStack,
) -> AppContext:
    """Load the model, the bundled videos, and the workers of questions, which end with ``stack``."""
    gpu = find_gpu()
    placed = {"device": options.device, "graphs": "auto"} if gpu is None else {"device": "cuda", "graphs": "off"}
    checkpoint = load_as(options, **placed)
    encoder = load_encoder()
    is_bundled = bundled_name(checkpoint.folder) is not None
    return AppContext(
        checkpoint=checkpoint,
        bundled_videos=read_bundled_videos(options.data),
        copies=copies,
        encode=encoder.encode,
        encoder=encoder.settings(),
        model_warning=BUNDLED_MODEL_WARNING if is_bundled else "",
        config=checkpoint.fit_config(config),
        bundled_run=BundledRun.find(BUNDLED_RUN, videos=options.data, model_digest=checkpoint.digest, config=config)
        if is_bundled
        else None,
        splits=splits,
        max_duration_s=60 * options.max_minutes,
        recordings=RecordingCache(options.keep_mb * 2**20),
        chat_workers=() if gpu is not None else stack.enter_context(_open_chat_workers(options, checkpoint)),
        model_use=ModelUse(limit_s=60 * options.live_minutes),
        remote=None if gpu is None else ZeroGpuModel(checkpoint, gpu),
    )


def _watch_uploads(page: gr.Blocks, context: AppContext, batches: BatchContext) -> None:
    """Remove unused uploads while no window is open, no event runs and no job: each may use any of them."""
    while True:
        time.sleep(GRACE_S / 4)
        if windows.closed_s() >= GRACE_S and not has_events(page) and not batches.jobs.active_jobs():
            remove_unused(Path(get_upload_folder()), is_used=context.recent.has_run)


def _prepare_opening(context: AppContext) -> None:
    """Open the first video once in the background: decoder and text encoder are slow at their first use."""
    first = context.opening_clip
    opening = Thread(target=show_bundled, args=(context, first), daemon=True)
    opening.start()


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


ROOT_PATH_VARIABLE: Final = "GRADIO_ROOT_PATH"
"""Gradio's own name of the path, for a page that is started without ``--root-path``."""
TRUSTED_VARIABLE: Final = "FORWARDED_ALLOW_IPS"
"""The addresses whose ``X-Forwarded-For`` uvicorn accepts; its default is this machine."""
_ROOT_PATH: Final = re.compile(r"(/[\w.~@+%-]+)+", re.ASCII)


def read_root_path(option: str) -> str:
    """Return the path of the page below its host, without a slash at its end; empty for the host itself.

    ``GRADIO_ROOT_PATH`` is returned as it is: Gradio also takes the whole address of the page from it.

    Raises ``ValueError`` for a value that is no path.
    """
    if not option:
        return os.environ.get(ROOT_PATH_VARIABLE, "")
    path = option.rstrip("/")
    if path and (not _ROOT_PATH.fullmatch(path) or {".", ".."} & set(path.split("/"))):
        raise ValueError(f"--root-path must be a path such as /tools/stepscope, without the host; got {option[:200]!r}")
    return path


def trust_proxies(addresses: Sequence[str]) -> None:
    """Make the server take the client's address from ``X-Forwarded-For`` of these proxies, and of no one else.

    Raises ``ValueError`` for a value that is neither an address nor a network.
    """
    networks: list[str] = []
    for address in addresses:
        try:
            networks.append(str(ipaddress.ip_network(address, strict=False)))
        except ValueError as error:
            raise ValueError(
                f"--trusted-proxy must be an address or a network such as 10.0.0.0/8; got {address[:200]!r}"
            ) from error
    os.environ[TRUSTED_VARIABLE] = ",".join(networks)  # Gradio starts uvicorn, and passes no such option


def bypass_proxies(host: str) -> None:
    """Let Gradio, which calls the page once at its start, reach it without the ``HTTP_PROXY`` of the environment."""
    before = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    hosts = [*before.split(","), host, "localhost", "127.0.0.1", "::1"]
    os.environ["no_proxy"] = ",".join(filter(None, dict.fromkeys(hosts)))
