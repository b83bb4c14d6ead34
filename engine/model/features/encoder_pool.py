"""Decodes many videos in a bounded pool of threads, and encodes their frames together, ahead of their streams.

A decoding thread takes the video with the fewest frames ahead and decodes a few frames, the videos in turns. One
encoding thread takes decoded frames of all videos, in batches. Both leave a core to the thread that streams, unless it
waits for frames. At most ``frames_ahead`` frames of a video wait for its stream, so memory grows with the number of
open videos, not with their length.
"""

import os
import threading
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Self

from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, FrameResizer, encode_images
from stepscope.engine.video.decoders import limit_threads
from stepscope.engine.video.reader import Frame

MAX_THREADS: Final = 4
FRAMES_AHEAD: Final = 96
"""One and a half look-aheads of a stream."""
_CHUNK: Final = 16


@dataclass(slots=True, eq=False)
class _Video:
    """An open video. The lock of its pool guards all but ``frames`` and ``resizer``, which its decoding thread uses."""

    frames: Iterator[Frame]
    resizer: FrameResizer
    decoded: deque[Frame] = field(default_factory=deque)
    encoded: deque[FrameFeatures] = field(default_factory=deque)
    num_encoding: int = 0
    is_decoding: bool = False
    is_decoded: bool = False
    """Whether its last frame was decoded, or its decoder failed."""
    error: BaseException | None = None

    @property
    def num_ahead(self) -> int:
        """Frames that are decoded and not yet consumed."""
        return len(self.decoded) + self.num_encoding + len(self.encoded)


def count_cores(*, num_sharing: int = 1) -> int:
    """Return the cores of one of ``num_sharing`` processes: its share of the machine's, at least 1."""
    return max(1, (os.cpu_count() or 1) // num_sharing)


class EncoderPool:
    """A pool of decoding threads with one encoding thread, as a context manager.

    ``num_cores`` decode, encode and stream. Of ``num_videos`` open at once, up to ``MAX_THREADS`` are decoded at once,
    each with its share of the cores. ``frames_ahead`` frames of a video may wait for its stream; a call of the encoder
    gets ``batch_size``.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        num_cores: int = 1,
        num_videos: int = MAX_THREADS,
        frames_ahead: int = FRAMES_AHEAD,
        batch_size: int = 32,
    ) -> None:
        self._checkpoint, self._frames_ahead, self._batch_size = checkpoint, frames_ahead, batch_size
        self._videos: list[_Video] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._num_cores, self._num_working, self._num_waiting = num_cores, 0, 0
        """Threads of the pool that decode or encode now, and consumers that wait for a frame."""
        self._is_encoding = False
        self._error: BaseException | None = None
        """Why the encoder failed, which ends all videos."""
        num_threads = min(MAX_THREADS, num_cores, num_videos)
        self._threads = [
            threading.Thread(
                target=self._decode, args=(num_cores // num_threads,), name=f"decoder {number}", daemon=True
            )
            for number in range(num_threads)
        ]
        self._threads.append(threading.Thread(target=self._encode, name="encoder", daemon=True))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        for video in list(self._videos):  # those whose frames nobody closed
            self._close_video(video)

    def encode(self, frames: Iterator[Frame]) -> Generator[FrameFeatures]:
        """Start to decode a video; return its encoded frames in order.

        An exception of the decoder is raised after the frames before it. Closing the generator closes the video.
        """
        video = _Video(frames=frames, resizer=FrameResizer(self._checkpoint.model))
        with self._changed:
            self._videos.append(video)
            self._changed.notify_all()
        encoded = self._iterate(video)
        next(encoded)  # a generator that was never started would not close the video
        return encoded

    def _iterate(self, video: _Video) -> Generator[Any]:
        """Yield None, then the encoded frames."""
        try:
            yield
            while (frame := self._take(video)) is not None:
                yield frame
        finally:
            self._close_video(video)

    def _take(self, video: _Video) -> FrameFeatures | None:
        with self._changed:
            if not self._can_take(video):
                self._num_waiting += 1
                self._changed.notify_all()  # its core is free
                self._changed.wait_for(lambda: self._can_take(video))
                self._num_waiting -= 1
            if not video.encoded:
                if (error := self._error or video.error) is not None:
                    raise error
                return None
            self._changed.notify_all()
            return video.encoded.popleft()

    def _can_take(self, video: _Video) -> bool:
        """Return whether the video has an encoded frame, its end or an error."""
        return bool(video.encoded) or self._error is not None or (video.is_decoded and video.num_ahead == 0)

    def _close_video(self, video: _Video) -> None:
        with self._changed:
            if video not in self._videos:
                return
            self._videos.remove(video)
            while video.is_decoding:
                self._changed.wait()
        if isinstance(video.frames, Generator):
            video.frames.close()

    def _decode(self, threads_per_video: int) -> None:
        limit_threads(threads_per_video)
        while (video := self._next_to_decode()) is not None:
            frames, error = list[Frame](), None
            try:
                for frame in islice(video.frames, _CHUNK):
                    frames.append(video.resizer.resize_frame(frame))
            except BaseException as failure:  # raised in the consumer of the video
                error = failure
            with self._changed:
                video.decoded.extend(frames)
                video.is_decoded, video.error = len(frames) < _CHUNK, error
                video.is_decoding = False
                self._num_working -= 1
                self._changed.notify_all()

    def _next_to_decode(self) -> _Video | None:
        """Wait for a video with room; return the one with the fewest frames ahead, or None at the end."""
        with self._changed:
            while not self._is_closed:
                num_decoded = sum(len(video.decoded) for video in self._videos)
                has_turn = self._has_core() and (self._is_encoding or num_decoded < self._batch_size)
                waiting = [video for video in self._videos if not video.is_decoding and not video.is_decoded]
                video = min(waiting, key=lambda video: video.num_ahead, default=None)
                if has_turn and video is not None and video.num_ahead + _CHUNK <= self._frames_ahead:
                    video.is_decoding = True
                    self._num_working += 1
                    return video
                self._changed.wait()
        return None

    def _has_core(self) -> bool:
        """Return whether another thread of the pool may work; one always may."""
        return self._num_working < max(1, self._num_cores - (self._num_waiting == 0))

    def _encode(self) -> None:
        while batch := self._next_to_encode():
            try:
                features = encode_images(self._checkpoint, [frame.image for _, frame in batch], are_resized=True)
            except BaseException as error:  # raised in every consumer
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._is_encoding = False
                self._num_working -= 1
                for (video, frame), feature in zip(batch, features, strict=True):
                    video.encoded.append(FrameFeatures(index=frame.index, time_s=frame.time_s, features=feature))
                    video.num_encoding -= 1
                self._changed.notify_all()

    def _next_to_encode(self) -> list[tuple[_Video, Frame]]:
        """Wait for decoded frames; return up to a batch, first of the video with fewest encoded; empty at the end."""
        with self._changed:
            while not self._is_closed:
                batch: list[tuple[_Video, Frame]] = []
                for video in sorted(self._videos, key=lambda video: len(video.encoded)) if self._has_core() else ():
                    while video.decoded and len(batch) < self._batch_size:
                        batch.append((video, video.decoded.popleft()))
                        video.num_encoding += 1
                if batch:
                    self._is_encoding = True
                    self._num_working += 1
                    return batch
                self._changed.wait()
        return []
