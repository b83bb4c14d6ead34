"""Wall time of videos that run at once."""

from time import perf_counter as read_clock_s


class SharedClock:
    """Divides wall time equally between the videos in flight, so that their times add up to the worker's.

    Worked example: two videos start together. The first ends after 6 s, the second runs 2 s longer. The first read 3 s,
    the second 5 s, 8 s in all.
    """

    def __init__(self) -> None:
        self._shared_s, self._ticked_s = 0.0, read_clock_s()

    def read(self, num_videos: int) -> float:
        """Return the seconds so far per video, of which the latest were shared by ``num_videos``."""
        now_s = read_clock_s()
        self._shared_s += (now_s - self._ticked_s) / max(num_videos, 1)
        self._ticked_s = now_s
        return self._shared_s

    def skip(self) -> None:
        """Leave out the time since the last reading."""
        self._ticked_s = read_clock_s()
