"""Records the sampled pictures of a live session as a video, whose frame ``i`` is on display from ``i / fps`` on."""

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from threading import Lock

import av
import numpy as np

from stepscope.engine.errors import VideoError
from stepscope.engine.video.growing import finish_growing, open_growing_encoder
from stepscope.engine.video.stills import fit_image, video_size
from stepscope.engine.video.track import reason_of
from stepscope.engine.video.writer import Encoder


class LiveVideoWriter:
    """Writes a video picture by picture; any thread may close it.

    The mp4 file can be read while it grows, and after the process was killed (``finish_growing``). ``fps`` are instants
    per second.
    """

    def __init__(self, path: Path, *, fps: float) -> None:
        self.path, self.num_frames = path, 0
        self._fps = Fraction(fps).limit_denominator(1001)
        self._files, self._lock = ExitStack(), Lock()
        self._encoder: Encoder | None = None
        self._held: tuple[int, np.ndarray] | None = None
        self._size = (0, 0)
        self._is_closed = False
        self._problem: VideoError | None = None

    def write(self, index: int, image: np.ndarray) -> None:
        """Add the picture of instant ``index``, uint8 [H, W, 3] RGB; earlier ones stay on display until then.

        Pictures of other proportions than the first get bars. Raises ``VideoError`` if the file cannot be written,
        or could not be before: FFmpeg crashes if it writes after a header that it could not write.
        """
        with self._lock:
            if self._is_closed:
                return
            if self._problem is not None:
                raise self._problem
            encoder = self._open(image)
            try:
                self._flush(encoder, until=index)
            except (av.error.FFmpegError, OSError) as error:
                self._held, reason = None, reason_of(error)
                self._problem = VideoError(f"{self.path}: cannot be written ({reason}); check its free space")
                raise self._problem from error
            self._held = index, fit_image(image, self._size)

    def close(self) -> None:
        """Finish the file, with its index at the front. Nothing is written without a picture.

        Raises ``VideoError`` and ``OSError`` if the file cannot be written.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            with self._files:
                if self._encoder is not None and self._held is not None:
                    self._flush(self._encoder, until=self._held[0] + 1)
            if self._encoder is not None:
                finish_growing(self.path)

    def _flush(self, encoder: Encoder, *, until: int) -> None:
        if self._held is not None:
            index, image = self._held
            encoder.write(image, time_s=index / self._fps, until_s=until / self._fps)
            self.num_frames = until

    def _open(self, image: np.ndarray) -> Encoder:
        if self._encoder is None:
            self._size = height, width = video_size(*image.shape[:2])
            opened = open_growing_encoder(self.path, height=height, width=width, fps=self._fps)
            self._encoder = self._files.enter_context(opened)
        return self._encoder
