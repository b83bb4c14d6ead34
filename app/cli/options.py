"""The options of the page."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tyro.conf import UseAppendAction

from stepscope.app.core.model_use import DEFAULT_LIVE_MINUTES
from stepscope.engine.cli.options import DeviceOptions, LoadingOptions
from stepscope.engine.model.files.bundled import ASSETS


@dataclass(frozen=True, kw_only=True)
class PageOptions(DeviceOptions, LoadingOptions):
    """Serve the page: load the model once and listen on this machine."""

    host: str = "127.0.0.1"
    """Address to serve on; the default is this machine only."""
    port: int = 7860
    """Port to serve on."""
    allowed_host: UseAppendAction[tuple[str, ...]] = ()
    """Additional host name of the page, for example that of a proxy; .example.org allows all subdomains. With it, the
    page is not served to this machine only: it accepts no paths of this machine."""
    root_path: str = ""
    """Path of the page below its host, as behind a proxy: /tools/stepscope (default: GRADIO_ROOT_PATH)."""
    trusted_proxy: UseAppendAction[tuple[str, ...]] = ()
    """Address of a proxy, or a network of them such as 10.0.0.0/8, whose X-Forwarded-For names the client."""
    data: Path = ASSETS / "demo" / "test.json"
    """Manifest of the bundled videos."""
    split: UseAppendAction[tuple[Path, ...]] = ()
    """Additional split for batch runs and reviews; test.json and val.json next to --data are always loaded."""
    videos: Path | None = None
    """Folder with the videos of --split if its records have no video_path, as in stepscope eval."""
    runs: Path = Path("runs")
    """Folder of run folders."""
    reviews: str | None = None
    """Review store: a file or an SQLAlchemy URL (default: reviews.sqlite in --runs)."""
    blind: bool = False
    """Hide the verdicts and corrections of each reviewer from all other reviewers."""
    auth: Path | None = None
    """File of permitted users, one name:password per line."""
    preset: str = ""
    """Settings of a published assistant by name, or of a file of your own; stepscope presets lists them. --config and
    other options win."""
    config: Path | None = None
    """YAML or JSON file of stream settings, the defaults of new runs; its frame rate, or that of --preset, is for
    uploads and live sources, since a video of a split has that of the split."""
    max_minutes: float = 10
    """Maximum duration of an upload, in minutes."""
    keep_mb: int = 4096
    """Memory for cached recordings, which speed up re-runs with new thresholds, in MB."""
    chat_mb: int = 1024
    """Memory for the kept contexts of questions, in MB for each worker."""
    chat_host_mb: int = 2048
    """Memory on the host for the contexts that leave the memory of a GPU, in MB for each worker."""
    chat_devices: str = ""
    """Devices that answer questions, one worker each, such as cuda, cpu:2, ray or ray://HOST:10001; empty for
    --device."""
    live_minutes: float = DEFAULT_LIVE_MINUTES
    """Minutes after which a live session ends if other windows wait for the model; alone it has no limit."""
    max_upload_mb: int = 2048
    """Maximum size of an upload, in MB."""
    endpoint: str = ""
    """OpenAI-compatible endpoint of a model that calls tools, such as http://localhost:8000/v1: it answers questions
    about runs in Batch, of everybody who can open the page. The key is read from $STEPSCOPE_API_KEY or
    $OPENAI_API_KEY."""
    model: str = ""
    """Name of the served model of --endpoint."""
    mcp: bool = False
    """Serve the tools of agents at /mcp, and their description at /llms.txt; those that write need a signed-in user,
    except on a page of one person."""

    stop_message: ClassVar[str] = "stopped"
