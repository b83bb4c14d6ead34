"""A first reading of a file in a process of its own, with little memory and time.

A header of 1 MB may hold 80,000 tags, which FFmpeg compares with each other for minutes, or grow to 28 times its size
in memory, in nearly every container; a transport stream of 0.1 MB may list so many programs. No option of FFmpeg bounds
this, and nothing stops a thread.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from stepscope.engine.errors import VideoError
from stepscope.engine.video.formats import find_formats, input_options

_SMALL_BYTES: Final = 2**15
"""Size up to which no header takes much."""
_MIN_SECONDS: Final = 5
_BYTES_PER_S: Final = 2**25
_PROGRAM: Final = """
import json, sys
from pathlib import Path
path, options, max_s = json.loads(sys.argv[1])
if not Path("/proc/self/status").exists():
    sys.exit()  # not Linux
import resource
try:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (max_s, max_s))
    resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
except ValueError:
    pass  # its limits are lower
import av
num_pixels = 0
try:
    with av.open(path, metadata_errors="replace", options=options) as container:
        num_pixels = max((stream.width * stream.height for stream in container.streams.video), default=0)
        for _ in container.demux():  # headers also lie between them
            pass
except MemoryError:
    sys.exit(3)
except (av.FFmpegError, ValueError):
    pass  # its reader says why
status = Path("/proc/self/status").read_text()  # unlike ru_maxrss, without the memory of the parent
peak_bytes = 1024 * int(status.split("VmHWM:")[1].split()[0])
sys.exit(3 if peak_bytes > 2**28 + 8 * num_pixels else 0)
"""


def try_reading(path: Path) -> None:
    """Read the packets of an untrusted file. Raises ``VideoError`` if FFmpeg needs too much memory or time.

    It may take 256 MiB, 8 bytes for each pixel of a picture, and 5 s with one more for each 32 MiB.
    """
    num_bytes = path.stat().st_size
    if num_bytes <= _SMALL_BYTES:
        return
    options = input_options(formats=find_formats(path))
    arguments = json.dumps([f"file:{path}", options, _MIN_SECONDS + num_bytes // _BYTES_PER_S])
    run = subprocess.run([sys.executable, "-P", "-c", _PROGRAM, arguments], check=False, capture_output=True)
    if run.returncode != 0:
        raise VideoError(
            f"{path}: its header or its tables take too much memory or time to read; convert it with "
            "ffmpeg -map 0:v -map 0:a? -map_metadata -1 -map_chapters -1"
        )
