"""The start of the page: its options reach new runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.batch.context import BatchContext
from app.batch.new_run.form import make_work
from app.cli import serve
from app.cli.stepscope import main
from app.page import build_page
from app.player import handlers
from app.player.context import AppContext
from app.player.session.live_run import LiveRun
from engine.config import StreamConfig
from tests.support.pages.benches import run_views, views

SETTINGS: dict[str, Any] = {
    "speak_threshold": 0.3,
    "max_new_tokens": 9,
    "decision_policy": "not-talk",
    "lookahead": 4,
}


class StoppedError(ValueError):
    """The page is built, and is not served."""


def test_the_settings_of_a_file_reach_new_runs_and_the_sliders(
    tiny_folder: Path, demo_manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Any] = []

    def build(context: AppContext, batches: BatchContext, reviews: Any) -> None:
        page = build_page(context, batches, reviews).get_config_file()
        sliders = {part["props"].get("elem_id"): part["props"].get("value") for part in page["components"]}
        live = LiveRun()
        clip = views(handlers.choose_bundled(context, None, "truck-1"))[0].clip
        list(run_views(context, clip, live, speak_threshold=0.7))
        assert live.run is not None
        thresholds: list[float] = list(handlers.open_page(context, None, None, {"video": "truck-1"}).thresholds)
        built.extend([sliders, live.run.config, make_work(batches, "", 0.6, 0.5, live=False).config, thresholds])
        raise StoppedError

    (tmp_path / "config.json").write_text(str({**SETTINGS, "fps": 5}).replace("'", '"'))
    monkeypatch.setattr(serve, "build_page", build)
    options = ["--checkpoint", str(tiny_folder), "--data", str(demo_manifest), "--runs", str(tmp_path / "runs")]
    assert main(["demo", *options, "--config", str(tmp_path / "config.json"), "--port", "7993"]) == 2
    sliders, of_player, of_batch, thresholds = built
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
