"""Live sessions on real servers in this process: MJPEG over HTTP, RTSP, dead and silent cameras."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.errors import VideoError
from stepscope.engine.live.recorder import LiveVideoWriter
from stepscope.engine.live.session import LiveOptions, LiveSession
from stepscope.engine.live.sources import Clock, UrlSource
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.video.reader import probe
from stepscope.eval.cli.live import live
from stepscope.eval.cli.options import LiveCommandOptions
from tests.support.servers.network import serve_files, serve_mjpeg, serve_rtsp
from tests.support.streams.live import LIMIT_S, PICTURE, FakeClock, begin, picture_at, run_to_end
from tests.support.streams.streams import SHORT, TASK
from tests.support.streams.videos import write_at

SHADES = (30, 90, 150, 210)
RAMP = tuple(range(10, 250, 6))
SILENT = StreamConfig(speak_threshold=1, update_threshold=1, **SHORT)


def read_shades(source: UrlSource) -> list[int]:
    """Return the mean of each picture up to the lost connection."""
    shades = []
    with suppress(VideoError):
        for image in source.pictures(Clock(), Event()):
            shades.append(int(image.mean()))
    return shades


def test_mjpeg_over_http_is_a_source_without_an_end() -> None:
    with serve_mjpeg(SHADES) as url:
        source = UrlSource(url)
        shades = read_shades(source)
    assert source.is_endless
    assert shades == pytest.approx(SHADES, abs=4)


def test_rtsp_is_read_over_tcp() -> None:
    with serve_rtsp(RAMP, fps=20) as url:
        shades = read_shades(UrlSource(url))
    assert len(shades) >= 4
    assert shades == pytest.approx(RAMP[-len(shades) :], abs=6), "the first pictures are dropped"


def test_people_see_square_pixels(checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_at(tmp_path / "a.mp4", [0, 0.5], pixel_aspect=4 / 3)
    recorder = LiveVideoWriter(tmp_path / "b.mp4", fps=2)
    seen = list[tuple[int, ...]]()
    with serve_files(tmp_path) as address:
        source = UrlSource(f"{address}/{path.name}")
        session = LiveSession(
            checkpoint, source, task=TASK, config=SILENT, clock=FakeClock(), on_picture=recorder.write
        )
        resize = session.capture._resize

        def look(image: np.ndarray) -> np.ndarray:
            seen.append(image.shape)
            return resize(image)

        monkeypatch.setattr(session.capture, "_resize", look)
        run_to_end(session)
    recorder.close()
    assert session.capture.latest is not None
    assert session.capture.latest.shape == (64, 128, 3)
    assert (probe(recorder.path).width, probe(recorder.path).height) == (128, 64)
    assert set(seen) == {(64, 96, 3)}, "the model gets the stored pixels"


def test_a_server_without_pictures_is_one_sentence(checkpoint: Checkpoint) -> None:
    with serve_mjpeg((), status=200) as url:
        session = LiveSession(checkpoint, UrlSource(url.replace("//", "//me:secret@")), task=TASK, config=SILENT)
        session.start()
        assert session.ended.wait(LIMIT_S)
    assert session.problem.startswith("http://***@127.0.0.1:")
    assert "cannot be opened" in session.problem
    assert "\n" not in session.problem


@pytest.mark.slow
def test_no_password_reaches_the_run_folder_or_the_terminal(
    tiny_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", iter(()))
    with serve_rtsp(RAMP, fps=20) as url:
        options = LiveCommandOptions(
            source=url, out=tmp_path / "live", checkpoint=str(tiny_folder), device="cpu", stall_s=2.5, goal="build"
        )
        assert live(options) == 1, "the camera hung up"
    printed = capfd.readouterr()
    assert "recorded in" in printed.out
    files = [path.read_bytes() for path in (tmp_path / "live").rglob("*") if path.is_file()]
    assert len(files) >= 4
    for text in (printed.out.encode(), printed.err.encode(), *files):
        assert b"secret" not in text
        assert b"t0p" not in text
    source = json.loads((tmp_path / "live" / "run.json").read_text("utf-8"))["source"]
    assert source.startswith("rtsp://***@127.0.0.1:")
    assert source.endswith("/live?token=***")


def test_a_source_without_pictures_ends_with_a_sentence(checkpoint: Checkpoint) -> None:
    session, outputs = begin(checkpoint, lambda *_: iter(()), is_endless=True)
    run_to_end(session)
    assert session.problem == "camera: has no pictures; check the source"
    assert (session.status.state, outputs) == ("failed", [])


def test_an_unplugged_camera_is_connected_again_then_given_up(checkpoint: Checkpoint) -> None:
    connections: list[int] = []

    def script(clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        connections.append(len(connections))
        if len(connections) <= 2:
            yield picture_at(len(connections))
            clock.wait(stopped, 0.5)
        raise VideoError("camera: the connection was lost (unplugged)")

    session, outputs = begin(checkpoint, script, is_endless=True, options=LiveOptions(stall_s=20))
    run_to_end(session)
    assert session.problem == "camera: the connection was lost (unplugged)"
    assert len(connections) == 7, "two that work, then again after 1, 2, 4, 8 and 8 s"
    assert sum(not np.isnan(output.speak_prob) for output in outputs) == session.status.num_decided <= 2


def test_a_stall_of_an_hour_ends_the_session(checkpoint: Checkpoint) -> None:
    clock, has_picture = FakeClock(), Event()

    def script(_: Clock, stopped: Event) -> Iterator[np.ndarray]:
        yield PICTURE
        has_picture.set()
        assert stopped.wait(LIMIT_S)

    session, _ = begin(checkpoint, script, is_endless=True, clock=clock)
    session.start()
    assert has_picture.wait(LIMIT_S)
    session.check()
    assert session.problem == ""
    clock.advance(3600)
    session.check()
    assert session.ended.wait(LIMIT_S)
    assert session.problem == "camera: no picture for 30 s; check the source, then start again"
    with pytest.raises(ValueError, match="has ended"):
        session.ask("What is next?")
