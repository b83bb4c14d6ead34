"""The start of the page: its options reach new runs."""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from gradio import networking

from stepscope.app import opening
from stepscope.app.cli import serve
from stepscope.app.cli.options import PageOptions
from stepscope.app.cli.serve import read_root_path
from stepscope.app.cli.stepscope import main
from stepscope.app.context import AppContext
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.page import build_page
from stepscope.app.space.commands import space_arguments
from stepscope.app.tabs.batch.new_run.form import make_work
from stepscope.app.tabs.live.handlers import URL
from stepscope.engine.cli.program import parse
from stepscope.engine.config import StreamConfig
from tests.support.pages.benches import open_upload, run_through, views
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
        clip = views(opening.choose_bundled(context, None, "truck-1"))[0].clip
        live = run_through(context, clip, speak_threshold=0.7)
        assert live.run is not None
        thresholds: list[float] = list(opening.open_page(context, None, None, {"video": "truck-1"}).thresholds)
        assert clip is not None
        upload = open_upload(context, clip.path).clip.clip
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


def test_a_file_without_settings_is_refused_before_the_model_is_loaded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text("volume: 3")
    arguments = ["demo", "--config", str(tmp_path / "config.yaml"), "--checkpoint", "/nowhere"]
    assert main(arguments) == 2
    expected = f"error: {tmp_path / 'config.yaml'} must map settings of StreamConfig to values; found ['volume']\n"
    assert capfd.readouterr().err == expected


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_address_of_ipv6_is_served_with_brackets_in_its_url(
    host: str, tiny_folder: Path, demo_manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(_: gr.Blocks, *, server_name: str, **__: Any) -> None:
        raise StoppedError(server_name)

    monkeypatch.setattr(gr.Blocks, "launch", launch)
    own = ["--checkpoint", str(tiny_folder), "--data", str(demo_manifest), "--runs", str(tmp_path / "runs")]
    with pytest.raises(StoppedError, match=re.escape("[::1]")):
        serve.serve(parse(PageOptions, ["--host", host, "--port", str(free_port()), *own], prog="stepscope demo"))


@pytest.mark.parametrize(
    ("options", "is_local"),
    [
        ([], True),
        (["--allowed-host", "lab.example"], False),
        (["--root-path", "/tools/stepscope"], False),
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
        ("--root-path", "https://lab.example/tools", "without the host; got 'https://lab.example/tools'"),
        ("--root-path", "/a/../b", "without the host; got '/a/../b'"),
        ("--root-path", "/a?b", "without the host; got '/a?b'"),
        ("--trusted-proxy", "*", "--trusted-proxy must be an address or a network such as 10.0.0.0/8; got '*'"),
        ("--trusted-proxy", "lab.example", "or a network such as 10.0.0.0/8; got 'lab.example'"),
    ],
)
def test_an_option_of_a_proxy_that_is_wrong_is_refused_before_the_model_is_loaded(
    option: str, value: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", option, value, "--checkpoint", "/nowhere"]) == 2
    assert words in capfd.readouterr().err


def test_the_path_of_the_page_has_no_slash_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [read_root_path(path) for path in ("/a/b/", "/a", "/", "")] == ["/a/b", "/a", "", ""]
    monkeypatch.setenv("GRADIO_ROOT_PATH", "/user/ann")
    assert (read_root_path(""), read_root_path("/a")) == ("/user/ann", "/a")


def test_the_page_starts_with_a_proxy_in_the_environment_and_on_a_slow_machine(
    tiny_folder: Path, demo_manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(page: gr.Blocks) -> None:
        page.close()
        raise StoppedError("served")

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setattr(networking, "url_ok", lambda _: False)  # as after 3 s
    with gr.Blocks() as page:
        pass
    monkeypatch.setattr(serve, "build_page", lambda *_: page)
    monkeypatch.setattr(serve, "_prepare_opening", lambda _: None)
    monkeypatch.setattr(gr.Blocks, "block_thread", stop)
    options = PageOptions(checkpoint=str(tiny_folder), data=demo_manifest, runs=tmp_path / "runs", port=free_port())
    with pytest.raises(StoppedError, match="served"):
        serve.serve(options)
    assert str((tmp_path / "runs" / "reviews.sqlite").resolve()) in page.blocked_paths, "the store"


def options(environment: dict[str, str], volume: Path) -> PageOptions:
    return parse(PageOptions, space_arguments(environment, volume=volume), prog="space.py")


def test_the_options_of_a_space_are_those_of_its_environment_and_mounted_folder(tmp_path: Path) -> None:
    found = options({}, tmp_path / "absent")
    assert (found.host, found.port, found.allowed_host, found.runs, found.reviews) == (
        *("0.0.0.0", 7860, (), Path("runs")),
        None,
    )
    names = {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": "7000", "SPACE_HOST": "lab-stepscope.hf.space"}
    found = options(names, tmp_path / "absent")
    assert (found.host, found.port, found.allowed_host) == ("127.0.0.1", 7000, ("lab-stepscope.hf.space",))
    assert options({**names, "PORT": "8000"}, tmp_path / "absent").port == 8000
    found = options({}, tmp_path)
    assert (found.runs, found.reviews) == (tmp_path / "runs", None)
    for where in ("postgresql://db/reviews", "kept.sqlite"):
        assert options({"STEPSCOPE_REVIEWS": where}, tmp_path).reviews == where
    found = options({"STEPSCOPE_REVIEWS": str(tmp_path)}, tmp_path / "absent")
    assert found.reviews == str(tmp_path / "reviews.sqlite")
