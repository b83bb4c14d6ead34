"""Network streams: addresses are checked, passwords masked, and errors are one sentence."""

import http.server
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from stepscope.engine.errors import VideoError
from stepscope.engine.live.sources import SystemClock, UrlSource
from stepscope.engine.video.network import check_url, mask_password, open_url
from stepscope.engine.video.writer import write_h264


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("rtsp://user:pw@camera/1", "rtsp://***@camera/1"),
        ("rtsp://user:p@ss:w@camera/1", "rtsp://***@camera/1"),
        ("cannot open http://key@host/a?x=1 now", "cannot open http://***@host/a?x=1 now"),
        ("http://host/a?user=me&password=pw&x=1", "http://host/a?user=me&password=***&x=1"),
        ("http://host/a?access_token=abc", "http://host/a?access_token=***"),
        ("http://host/mail@home", "http://host/mail@home"),
        (
            "a http://u:p@h/b=c?x=1?token=y?z&q=2\n(rtsp://a:b@c)",
            "a http://***@h/b=c?x=1?token=***&q=2\n(rtsp://***@c)",
        ),
    ],
)
def test_passwords_in_addresses_are_masked(text: str, masked: str) -> None:
    assert mask_password(text) == masked


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "concat:a|b", "rtsp://", "http://a b/c", "camera.local"])
def test_only_network_addresses_are_accepted(url: str) -> None:
    with pytest.raises(ValueError, match="a live source is a URL such as"):
        check_url(url)


@pytest.mark.parametrize(
    "text",
    [
        "?" * 40_000,
        "?pass" * 20_000,
        "http://" * 20_000,
        f"a://{'@' * 100_000}",
        "&token" * 20_000 + "=",
        "A" * 200_000,
    ],
)
def test_passwords_are_masked_in_linear_time(text: str) -> None:
    began = time.process_time()
    mask_password(text)
    assert time.process_time() - began < 1, "3,600 characters took 4.7 s"


def test_an_address_is_limited_in_length_and_a_long_one_does_not_show_its_password() -> None:
    address = f"http://user:{'secret' * 500}@camera/1"
    with pytest.raises(ValueError, match=r"at most 2048 characters; got 3021$"):
        check_url(address)


def test_a_refused_address_does_not_show_its_password() -> None:
    with pytest.raises(ValueError, match=r"\*\*\*@camera") as caught:
        check_url("ftp://me:secret@camera/1")
    assert "secret" not in str(caught.value)


def test_a_dead_address_is_one_sentence_without_the_password() -> None:
    with pytest.raises(VideoError) as caught:
        open_url("http://me:secret@127.0.0.1:9/live.mjpg")
    assert str(caught.value).startswith("http://***@127.0.0.1:9/live.mjpg: cannot be opened (")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    images = [np.full((32, 48, 3), 40 * index, np.uint8) for index in range(5)]
    write_h264(tmp_path / "a.mp4", images, fps=10)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_video_over_http_is_read_at_its_own_speed_and_ends(address: str) -> None:
    source = UrlSource(f"{address}/a.mp4")
    clock = SystemClock()
    began = clock.now()
    pictures = list(source.pictures(clock, threading.Event()))
    assert len(pictures) == 5
    assert not source.is_endless
    assert clock.now() - began >= 0.35, "the last picture is at 0.4 s"


def test_a_playlist_that_names_itself_is_refused_at_its_first_request() -> None:
    num_requests = 0

    class Playlists(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal num_requests
            num_requests += 1
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{num_requests}.m3u8\n".encode())

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Playlists) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(VideoError, match="playlists such as m3u8 are not opened"):
            open_url(f"http://127.0.0.1:{server.server_port}/0.m3u8")
        server.shutdown()
    assert num_requests <= 3
