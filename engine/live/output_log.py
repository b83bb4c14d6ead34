"""The outputs of a session of any length: the latest ones in memory, all of them in a run file."""

from array import array
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final, overload

from stepscope.engine.io.files import append_whole
from stepscope.engine.records import FrameOutput

KEPT_OUTPUTS: Final = 4096
"""Outputs in memory; earlier ones are read from the file."""
_STRIDE: Final = 256


class OutputLog(Sequence[FrameOutput]):
    """A sequence of outputs that one thread appends to and any thread reads.

    The file has one ``FrameOutput`` per line. Memory grows by 8 bytes for every 256 outputs.
    """

    def __init__(self, path: Path, *, num_kept: int = KEPT_OUTPUTS) -> None:
        """Begin a new file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("wb", buffering=0)  # a killed process loses no output
        self._recent: deque[FrameOutput] = deque(maxlen=num_kept)
        self._offsets = array("Q")  # of every _STRIDE-th line
        self._length = self._end = 0
        self._lock = Lock()

    def append(self, output: FrameOutput) -> None:
        """Append an output. Raises ``OSError`` with the file's name if the disk is full; the log is then unchanged."""
        line = (output.to_json() + "\n").encode()
        with self._lock:
            append_whole(self._file, line)
            if self._length % _STRIDE == 0:
                self._offsets.append(self._end)
            self._end += len(line)
            self._length += 1
            self._recent.append(output)

    def close(self) -> None:
        """Close the file; the log can still be read."""
        with self._lock:
            self._file.close()

    def __len__(self) -> int:
        """Return the number of outputs."""
        return self._length

    @overload
    def __getitem__(self, index: int) -> FrameOutput: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[FrameOutput]: ...
    def __getitem__(self, index: int | slice) -> FrameOutput | Sequence[FrameOutput]:
        """Return an output, or those of a slice with step 1."""
        if isinstance(index, slice):
            first, end, step = index.indices(self._length)
            if step != 1:
                raise ValueError("a log is read in steps of 1")
            return self._read(first, end)
        place = range(self._length)[index]
        return self._read(place, place + 1)[0]

    def _read(self, first: int, end: int) -> list[FrameOutput]:
        with self._lock:
            kept_from = self._length - len(self._recent)
            recent = list(islice(self._recent, max(0, first - kept_from), max(0, end - kept_from)))
            if first >= min(end, kept_from):
                return recent
        start = first - first % _STRIDE
        with self.path.open("rb") as file:
            file.seek(self._offsets[first // _STRIDE])
            lines = islice(file, first - start, min(end, kept_from) - start)
            return [*(FrameOutput.from_json(line.decode()) for line in lines), *recent]
