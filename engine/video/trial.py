"""A first reading of a file in a process of its own, with little memory and time.

A header of 1 MB may hold 80,000 tags, which FFmpeg compares with each other for minutes, or grow to 28 times its size
in memory, in nearly every container; a transport stream of 0.1 MB may list so many programs. No option of FFmpeg bounds
this, and nothing stops a thread.
"""

import json
import subprocess
import sys
from pathlib import Path
from threading import BoundedSemaphore
from typing import Final

from stepscope.engine.errors import VideoError

_SMALL_BYTES: Final = 2**15
"""Size up to which no header takes much."""
_DEMUXED_BYTES: Final = 2**31
"""Size up to which all packets are read, as headers also lie between them. No upload is larger."""
_MIN_SECONDS: Final = 5
_BYTES_PER_S: Final = 2**25
_SLOTS: Final = BoundedSemaphore(2)
_PROGRAM: Final = """
import json, sys
from pathlib import Path
path, options, is_demuxed, max_s = json.loads(sys.argv[1])
if not Path("/proc/self/status").exists():
    sys.exit()  # not Linux
import resource
try:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (max_s, max_s))
    resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
except ValueError:
    pass  # its limits are lower
num_pixels = 0
try:
    import av
    with av.open(path, metadata_errors="replace", options=options) as container:
        num_pixels = max((stream.width * stream.height for stream in container.streams.video), default=0)
        for _ in container.demux() if is_demuxed else ():
            pass
except MemoryError:
    sys.exit(3)
except Exception:
    pass  # its reader says why
status = Path("/proc/self/status").read_text()  # unlike ru_maxrss, without the memory of the parent
peak_bytes = 1024 * int(status.split("VmHWM:")[1].split()[0])
sys.exit(3 if peak_bytes > 2**28 + 8 * num_pixels else 0)
"""
_verdicts: dict[tuple[str, int, int], bool] = {}


def try_opening(path: Path, options: dict[str, str]) -> None:
    """Raise ``VideoError`` if FFmpeg needs more than 5 s or 256 MiB to read a file, besides those of its size."""
    stat = path.stat()
    key = (str(path), stat.st_size, stat.st_mtime_ns)
    if stat.st_size > _SMALL_BYTES and key not in _verdicts:
        with _SLOTS:
            if key not in _verdicts:
                _verdicts[key] = _try(path, options, num_bytes=stat.st_size)
    if not _verdicts.get(key, True):
        raise VideoError(
            f"{path}: its header or its tables take too much memory or time to read; convert it with "
            "ffmpeg -map 0:v -map 0:a? -map_metadata -1 -map_chapters -1"
        )


def _try(path: Path, options: dict[str, str], *, num_bytes: int) -> bool:
    max_s = _MIN_SECONDS + num_bytes // _BYTES_PER_S
    arguments = json.dumps([f"file:{path}", options, num_bytes <= _DEMUXED_BYTES, max_s])
    run = subprocess.run([sys.executable, "-P", "-c", _PROGRAM, arguments], check=False, capture_output=True)
    return run.returncode == 0
