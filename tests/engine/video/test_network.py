"""Network streams: addresses are checked, passwords masked, and errors are one sentence."""

import http.server
import threading
import time
from pathlib import Path

import pytest

from stepscope.engine.errors import VideoError
from stepscope.engine.live.sources import UrlSource
from stepscope.engine.video.network import check_url, mask_password, open_url
from tests.support.servers.network import serve_files
from tests.support.streams.live import FakeClock
from tests.support.streams.odd import write_recording


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("rtsp://user:pw@camera/1", "rtsp://***@camera/1"),
        ("rtsp://user:p@ss:w@camera/1", "rtsp://***@camera/1"),
        ("cannot open http://key@host/a?x=1 now", "cannot open http://***@host/a?x=1 now"),
        ("http://host/mail@home", "http://host/mail@home"),
        (
            "a http://u:p@h/b=c?x=1?token=y?z&q=2\n(rtsp://a:b@c)",
            "a http://***@h/b=c?x=1?token=***&q=2\n(rtsp://***@c)",
        ),
    ],
)
def test_passwords_in_addresses_are_masked(text: str, masked: str) -> None:
    assert mask_password(text) == masked


@pytest.mark.parametrize("url", ["file:///etc/passwd", "concat:a|b", "rtsp://"])
def test_only_network_addresses_are_accepted(url: str) -> None:
    with pytest.raises(ValueError, match="a live source is a URL such as"):
        check_url(url)


@pytest.mark.parametrize("text", ["?pass" * 20_000, f"a://{'@' * 100_000}"])
def test_passwords_are_masked_in_linear_time(text: str) -> None:
    began = time.process_time()
    mask_password(text)
    assert time.process_time() - began < 1, "3,600 characters took 4.7 s"


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


@pytest.mark.parametrize(("kind", "has_ranges"), [("front.mp4", True), ("ts", False)])
def test_a_file_over_http_is_read_at_its_own_speed_and_ends(tmp_path: Path, kind: str, has_ranges: bool) -> None:
    path = write_recording(tmp_path / f"a.{kind}", levels=range(20, 220))
    if kind == "ts":
        with path.open("ab") as file:  # empty packets: longer than the part that FFmpeg reads for the duration
            file.write((b"\x47\x1f\xff\x10" + bytes(184)) * 2000)
    with serve_files(path.parent, has_ranges=has_ranges) as address:
        source, clock = UrlSource(f"{address}/{path.name}"), FakeClock()
        began = clock.now()
        pictures = list(source.pictures(clock, threading.Event()))
    assert len(pictures) == 200
    assert not source.is_endless
    assert clock.now() - began == pytest.approx(19.9, abs=0.01), "the time of the last picture"


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
