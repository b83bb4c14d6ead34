"""Files of formats that open other files, or never end, are refused before their format's code reads them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from stepscope.engine.errors import VideoError
from stepscope.engine.video.formats import begins_like_video
from stepscope.engine.video.reader import probe, read_frames

MAX_MEMORY_MB: Final = 600
MAX_S: Final = 100
HLS: Final = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{}\n"
DASH: Final = (
    '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT5S" '
    'profiles="urn:mpeg:dash:profile:isoff-on-demand:2011"><Period><AdaptationSet mimeType="video/mp4">'
    '<Representation id="1" bandwidth="1"><BaseURL>{}</BaseURL></Representation></AdaptationSet></Period></MPD>'
)
ATTACKS: Final[Mapping[str, str]] = {
    "hls-itself": HLS + "#EXT-X-ENDLIST\n",
    "hls-master": "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{}\n",
    "hls-endless": HLS.format("none.ts"),
    "hls-passwd": HLS.format("/etc/passwd") + "#EXT-X-ENDLIST\n",
    "concat": "ffconcat version 1.0\nfile '{}'\nfile '{}'\n",
    "dash": DASH,
    "mp4-with-dash": "    ftyp" + DASH,
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n",
    "rtsp": "rtsp://127.0.0.1:9/x\n",
    "asf-reference": "[Reference]\nRef1=http://127.0.0.1:9/x\n",
    "vobsub": "# VobSub index file, v7 (do not modify this line!)\nsize: 720x576\nid: en, index: 0\n",
    "avisynth": 'Import("/etc/passwd")\n',
    "terminal-art": "hello\n" * 100,
}
SUFFIXES: Final = (".mp4", ".m3u8", ".ts", ".mkv", ".idx", ".mpd", ".txt", "-%03d.png")
PROGRAM: Final = f"""
import json, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30,) * 2)
from stepscope.engine.errors import VideoError
from stepscope.engine.video.decoders import decode_with_decord, decode_with_opencv
from stepscope.engine.video.reader import find_cut, probe
from stepscope.engine.video.track import Track
said = {{}}
for path in sorted(Path(sys.argv[1]).iterdir()):
    track = Track(path=path, container="", stream_index=0, start_s=0, zero_s=0, duration_s=None, fps=25, width=64,
                  height=64, codec="", pixel_format="")
    for name, call in dict(probe=lambda: probe(path), cut=lambda: find_cut(path),
                           decord=lambda: next(decode_with_decord(track)),
                           opencv=lambda: next(decode_with_opencv(track))).items():
        try:
            said[f"{{path.name}} {{name}}"] = repr(call())
        except VideoError as error:
            said[f"{{path.name}} {{name}}"] = str(error)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
used_mb = int(peak.split()[1]) // 1024  # getrusage counts the memory of the parent too
assert used_mb < {MAX_MEMORY_MB}, used_mb
json.dump(said, sys.stdout)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What each decoder answers to each attack, in a process of limited memory and time."""
    folder = tmp_path_factory.mktemp("attacks")
    for kind, content in ATTACKS.items():
        for suffix in SUFFIXES:
            name = f"{kind}{suffix}"
            (folder / name).write_text(content.replace("{}", name))
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder], capture_output=True, text=True, timeout=MAX_S, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    answers: dict[str, str] = json.loads(run.stdout)
    return answers


def test_no_decoder_opens_a_format_that_names_other_files(said: Mapping[str, str]) -> None:
    assert len(said) == 4 * len(SUFFIXES) * len(ATTACKS)
    for case, answer in said.items():
        expected = "opens no file of this format" if case.endswith(("decord", "opencv")) else "; give a"
        assert expected in answer, case
        assert "\n" not in answer


@pytest.mark.parametrize("template", [HLS, "ffconcat version 1.0\nfile '{}'\n", DASH], ids=["hls", "concat", "dash"])
def test_a_message_does_not_tell_whether_another_file_exists(tmp_path: Path, template: str) -> None:
    answers = set()
    path = tmp_path / "list.mp4"
    for named in (Path(__file__), Path("/etc"), Path("/proc/self/mem"), tmp_path / "missing"):
        path.write_text(template.format(named))
        with pytest.raises(VideoError) as caught:
            probe(path)
        answers.add(str(caught.value))
    assert len(answers) == 1


ENCODERS: Final = {
    **{".mp4": "libx264", ".mov": "mpeg4", ".mkv": "libx264", ".avi": "mpeg4", ".ts": "mpeg2video"},
    **{".m2ts": "mpeg2video", ".mpg": "mpeg1video", ".flv": "flv", ".asf": "mpeg4", ".mxf": "mpeg2video"},
    **{".webm": "libvpx-vp9", ".gif": "gif", ".3gp": "mpeg4", ".y4m": "wrapped_avframe", ".h264": "libx264"},
    ".nut": "mpeg4",
}
FORMAT_NAMES: Final = {".m2ts": "mpegts", ".y4m": "yuv4mpegpipe"}
ONLY_PYAV: Final = frozenset({".mxf", ".y4m", ".h264", ".nut"})


@pytest.mark.parametrize("suffix", ENCODERS)
def test_videos_of_every_usual_format_are_opened(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"video{suffix}"
    options = {"mpegts_m2ts_mode": "1"} if suffix == ".m2ts" else {}
    with av.open(str(path), "w", format=FORMAT_NAMES.get(suffix), options=options) as container:
        stream: Any = container.add_stream(ENCODERS[suffix], rate=25)
        stream.width, stream.height = 176, 144
        stream.pix_fmt = "rgb8" if suffix == ".gif" else "yuv420p"
        for index in range(25):
            frame = VideoFrame.from_ndarray(np.full((144, 176, 3), 9 * index, np.uint8), format="rgb24")
            frame = frame.reformat(format=stream.pix_fmt)
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    assert len(list(read_frames(path, fps=5))) in (4, 5, 6)
    assert begins_like_video(path) == (suffix not in ONLY_PYAV)
