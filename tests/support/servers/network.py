"""Small servers of network cameras: MJPEG over HTTP, and H.264 over RTSP in one TCP connection."""

import http.server
import io
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
from av.video.frame import VideoFrame
from PIL import Image

BOUNDARY = "picture"
SDP = """v=0
o=- 0 0 IN IP4 127.0.0.1
s=camera
c=IN IP4 127.0.0.1
t=0 0
m=video 0 RTP/AVP 96
a=rtpmap:96 H264/90000
a=fmtp:96 packetization-mode=1
a=control:track1
"""


@contextmanager
def serve_files(folder: Path, *, has_ranges: bool = False) -> Iterator[str]:
    """Serve a folder over HTTP/1.0, or over HTTP/1.1 with ranges and connections that stay open; yield the address."""

    class Files(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if has_ranges else "HTTP/1.0"

        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")
            if not has_ranges:
                return super().do_GET()
            content = Path(self.translate_path(self.path)).read_bytes()
            start, end = int(wanted[0]), int(wanted[1] or len(content) - 1) + 1
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
            self.send_header("Content-Length", str(end - start))
            self.end_headers()
            with suppress(ConnectionError):  # it seeks elsewhere
                self.wfile.write(content[start:end])

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@contextmanager
def serve_mjpeg(shades: Sequence[int], *, is_endless: bool = False, status: int = 200) -> Iterator[str]:
    """Serve pictures of one shade each as ``multipart/x-mixed-replace``; yield the address.

    The connection is closed after the last one, or stays open without a further picture.
    """
    closing = threading.Event()

    class Camera(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", f"multipart/x-mixed-replace; boundary={BOUNDARY}")
            self.end_headers()
            for shade in shades:
                file = io.BytesIO()
                Image.fromarray(np.full((48, 64, 3), shade, np.uint8)).save(file, "JPEG", quality=95)
                head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {file.tell()}\r\n\r\n"
                self.wfile.write(head.encode() + file.getvalue() + b"\r\n")
                self.wfile.flush()
            if is_endless:
                closing.wait(30)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/camera.mjpg"
    closing.set()
    server.shutdown()
    server.server_close()


def pack_rtp(shades: Sequence[int], *, fps: int) -> list[bytes]:
    """Return the RTP packets (RFC 6184) of an H.264 video of one shade per picture: whole units, small enough each."""
    codec = cast(Any, av.CodecContext.create("libx264", "w"))
    codec.width, codec.height, codec.pix_fmt = 64, 48, "yuv420p"
    codec.time_base, codec.framerate = Fraction(1, fps), Fraction(fps)
    codec.options = {"tune": "zerolatency", "preset": "ultrafast", "x264-params": "repeat-headers=1:keyint=1"}
    packets: list[bytes] = []
    for index, shade in enumerate(shades):
        frame = VideoFrame.from_ndarray(np.full((48, 64, 3), shade, np.uint8), format="rgb24").reformat(
            format="yuv420p"
        )
        frame.pts, frame.time_base = index, Fraction(1, fps)
        data = b"".join(bytes(packet) for packet in codec.encode(frame))
        units = [unit for unit in data.replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1") if unit]
        for number, unit in enumerate(units):
            is_last = number == len(units) - 1
            head = struct.pack("!BBHII", 0x80, 96 | 0x80 * is_last, len(packets), index * 90_000 // fps, 1)
            packets.append(head + unit)
    return packets


@contextmanager
def serve_rtsp(shades: Sequence[int], *, fps: int = 10) -> Iterator[str]:
    """Serve a video by RTSP (RFC 2326), interleaved in its TCP connection; yield the address with a password.

    Any name and password are accepted. Pictures are sent at their times, and a client that looks for the format of the
    stream drops the first ones. The connection is closed after the last picture, and so is every later one.
    """
    packets = pack_rtp(shades, fps=fps)
    description = SDP.replace("\n", "\r\n")

    has_served = threading.Event()

    class Camera(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            if has_served.is_set():
                return
            while request := self._read_head():
                method, answers = request[0].split(" ")[0], []
                number = next(line for line in request if line.lower().startswith("cseq"))
                if method == "DESCRIBE":
                    answers = ["Content-Type: application/sdp", f"Content-Length: {len(description)}"]
                elif method == "SETUP":
                    answers = ["Transport: RTP/AVP/TCP;unicast;interleaved=0-1", "Session: 1"]
                elif method == "OPTIONS":
                    answers = ["Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN"]
                head = "\r\n".join(["RTSP/1.0 200 OK", number, *answers, "", ""])
                self.wfile.write(head.encode() + (description.encode() if method == "DESCRIBE" else b""))
                if method == "PLAY":
                    for packet in packets:
                        self.wfile.write(b"$\0" + struct.pack("!H", len(packet)) + packet)
                        if packet[1] & 0x80:  # the end of a picture
                            time.sleep(1 / fps)
                    has_served.set()
                    self.connection.shutdown(socket.SHUT_WR)
                    return

        def _read_head(self) -> list[str]:
            lines: list[str] = []
            while (line := self.rfile.readline().decode().strip()) or not lines:
                if not line:
                    return []
                lines.append(line)
            return lines

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Camera)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"rtsp://me:secret@127.0.0.1:{server.server_address[1]}/live?token=t0p"
    server.shutdown()
    server.server_close()
