"""The start of the page: its options reach new runs."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.batch.new_run.form import make_work
from stepscope.app.cli import serve
from stepscope.app.cli.options import PageOptions
from stepscope.app.cli.serve import read_root_path
from stepscope.app.cli.stepscope import main
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.live.handlers import URL
from stepscope.app.page import build_page
from stepscope.app.player import opening
from stepscope.app.space.commands import space_arguments
from stepscope.app.window.context import AppContext
from stepscope.engine.cli.program import parse
from stepscope.engine.config import StreamConfig
from tests.support.pages.benches import open_upload, run_through
from tests.support.pages.browser import free_port

SETTINGS: dict[str, Any] = {"speak_threshold": 0.3, "max_new_tokens": 9, "decision_policy": "not-talk", "lookahead": 4}


class StoppedError(ValueError):
    """The page is built, and is not served."""


def test_the_settings_of_a_file_reach_new_runs_and_the_sliders(
    tiny_folder: Path, demo_manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Any] = []

    def build(context: AppContext, batches: BatchContext, reviews: Any) -> None:
        page = build_page(context, batches, reviews).get_config_file()
        sliders = {part["props"].get("elem_id"): part["props"].get("value") for part in page["components"]}
        clip = opening.show_bundled(context, context.bundled_videos.find("truck-1")).clip
        live = run_through(context, clip, speak_threshold=0.7)
        assert live.run is not None
        view = opening.open_page(context, {"video": "truck-1"})
        thresholds = [view.speak, view.update]
        assert clip is not None
        upload = open_upload(context, clip.path).clip
        rates = [clip.fps, upload and upload.fps]
        built.extend([rates, sliders, live.run.config, make_work(batches, "", 0.6, 0.5, live=False).config, thresholds])
        raise StoppedError

    (tmp_path / "config.json").write_text(str({**SETTINGS, "fps": 5}).replace("'", '"'))
    monkeypatch.setattr(serve, "build_page", build)
    options = ["--checkpoint", str(tiny_folder), "--data", str(demo_manifest), "--runs", str(tmp_path / "runs")]
    assert main(["demo", *options, "--config", str(tmp_path / "config.json"), "--port", str(free_port())]) == 2
    rates, sliders, of_player, of_batch, thresholds = built
    assert rates == [2, 5], "of the split, and of the settings for an upload"
    names = ("speak_threshold", "batch_speak", "update_threshold", "batch_update")
    assert [sliders[name] for name in names] == [0.3, 0.3, 0.5, 0.5]
    assert of_player == replace(StreamConfig(**SETTINGS), speak_threshold=0.7)
    assert of_batch == replace(StreamConfig(**SETTINGS), speak_threshold=0.6)
    assert thresholds == [0.3, 0.5]


@pytest.mark.parametrize(
    ("options", "is_local"),
    [
        ([], True),
        (["--trusted-proxy", "127.0.0.1"], False),
    ],
)
def test_behind_a_proxy_nobody_has_the_powers_of_the_local_user(
    options: list[str],
    is_local: bool,
    tiny_folder: Path,
    demo_manifest: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[Any] = []

    def build(context: AppContext, batches: BatchContext, reviews: Any) -> None:
        page = build_page(context, batches, reviews).get_config_file()
        props = {part["props"].get("elem_id"): part["props"] for part in page["components"]}
        sources = dict(props["live_source"]["choices"])
        lists = [props[name]["allow_custom_value"] for name in ("batch_checkpoint", "devices")]
        built.append((batches.takes_paths, URL in sources, *lists))
        raise StoppedError

    monkeypatch.setattr(serve, "build_page", build)
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    own = ["--checkpoint", str(tiny_folder), "--data", str(demo_manifest), "--runs", str(tmp_path / "runs")]
    assert main(["demo", *own, *options, "--port", str(free_port())]) == 2
    assert built == [(is_local, is_local, is_local, is_local)]
    trusted = "127.0.0.1/32" if "--trusted-proxy" in options else ""
    assert os.environ["FORWARDED_ALLOW_IPS"] == trusted, "no header names the client unless an option trusts the proxy"


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--root-path", "tools", "--root-path must be a path such as /tools/stepscope, without the host; got 'tools'"),
        ("--trusted-proxy", "*", "--trusted-proxy must be an address or a network such as 10.0.0.0/8; got '*'"),
        ("--endpoint", "http://localhost:8000/v1", "--endpoint and --model name a served model together"),
    ],
)
def test_an_option_that_is_wrong_is_refused_before_the_model_is_loaded(
    option: str, value: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", option, value, "--port", str(free_port()), "--checkpoint", "/nowhere"]) == 2
    assert words in capfd.readouterr().err


def test_the_path_of_the_page_has_no_slash_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [read_root_path(path) for path in ("/a/b/", "/a", "/", "")] == ["/a/b", "/a", "", ""]
    monkeypatch.setenv("GRADIO_ROOT_PATH", "/user/ann")
    assert (read_root_path(""), read_root_path("/a")) == ("/user/ann", "/a")


def test_the_options_of_a_space_are_those_of_its_environment_and_mounted_folder(tmp_path: Path) -> None:
    names = {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": "7000", "SPACE_HOST": "lab-stepscope.hf.space"}
    found = parse(PageOptions, space_arguments(names, volume=tmp_path), prog="space.py")
    assert (found.host, found.port, found.allowed_host) == ("127.0.0.1", 7000, ("lab-stepscope.hf.space",))
    assert (found.runs, found.reviews) == (tmp_path / "runs", None)
    names = {"STEPSCOPE_REVIEWS": str(tmp_path), "STEPSCOPE_ENDPOINT": "http://x/v1", "STEPSCOPE_MODEL": "m"}
    found = parse(PageOptions, space_arguments(names, volume=tmp_path / "absent"), prog="space.py")
    assert (found.host, found.port, found.reviews) == ("0.0.0.0", 7860, str(tmp_path / "reviews.sqlite"))
    assert (found.endpoint, found.model) == ("http://x/v1", "m")
