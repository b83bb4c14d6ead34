"""Encodes frames as embeddings ``[I, F]`` each, in a thread ahead of the model.

``engine.model.features.feature_files`` stores the embeddings in files.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stepscope.engine.io.arguments import check_type
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.preprocessing import normalize_images
from stepscope.engine.model.vision_language import VisionLanguageModel

if TYPE_CHECKING:  # the decoders load with the reader only
    from stepscope.engine.video.reader import Frame

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameFeatures:
    """One encoded frame."""

    index: int
    time_s: float
    features: Tensor
    """Embedding ``[I, F]``: ``I`` tokens of width ``F``; or ``[rows, columns, F]``, equal for all frames of a video."""
    questions: tuple[str, ...] = ()
    """Questions of the user to answer at this frame, which were asked while it streams; see ``Task.questions``."""


@torch.inference_mode()
def encode_images(
    checkpoint: Checkpoint, images: Iterable[NDArray[np.uint8]], *, are_resized: bool = False
) -> list[Tensor]:
    """Encode RGB images ``[H, W, 3]`` as features ``[I, F]`` or ``[rows, columns, F]`` on the model's device.

    Images of one size share a pass. ``are_resized`` is whether a ``FrameResizer`` made them: a second resize would
    change them.
    """
    model = checkpoint.model
    images = list(images) if are_resized else [FrameResizer(model).resize(image) for image in images]
    sizes = [image.shape[:2] for image in images]
    features: dict[int, Tensor] = {}
    for size in dict.fromkeys(sizes):
        of_size = [number for number, other in enumerate(sizes) if other == size]
        of_one_size = [images[number] for number in of_size]
        pixels = normalize_images(of_one_size, size=size, normalization=checkpoint.normalization)
        features |= zip(of_size, model.encode_images(pixels.to(model.device)), strict=True)
    return [features[number] for number in range(len(images))]


class FrameResizer:
    """Brings the pictures of one video to the size and the framing of a model: that of the first picture."""

    def __init__(self, model: VisionLanguageModel) -> None:
        self._model = model
        self._size: tuple[int, int] | None = None

    def resize(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return an RGB image ``[H, W, 3]`` in this size."""
        self._size = self._size or self._model.frame_size(*image.shape[:2])
        return self._model.resize_image(image, self._size)

    def resize_frame(self, frame: "Frame") -> "Frame":
        """Return a frame with its image in this size."""
        return replace(frame, image=self.resize(frame.image))


def encode(checkpoint: Checkpoint, frames: Iterable["Frame"], *, batch_size: int = 16) -> Generator[FrameFeatures]:
    """Decode and encode frames in a thread ahead of the consumer, ``batch_size`` frames at a time.

    At most two batches are queued. An exception of the decoder or the encoder is raised in the consumer. Closing the
    generator stops the thread.
    """
    check_type("checkpoint", checkpoint, Checkpoint, "a checkpoint of load_model")
    if isinstance(frames, str) or not isinstance(frames, Iterable):
        raise ValueError(f"frames must be those of read_frames; got {frames!r}")
    return prefetch(_encode_batches(checkpoint, frames, batch_size), depth=2 * batch_size)


def _encode_batches(checkpoint: Checkpoint, frames: Iterable["Frame"], batch_size: int) -> Iterator[FrameFeatures]:
    """Encode in batches; each image is resized right after decoding, to hold no batch of full-size images."""
    source = map(FrameResizer(checkpoint.model).resize_frame, frames)
    while batch := list(islice(source, batch_size)):
        features = encode_images(checkpoint, [frame.image for frame in batch], are_resized=True)
        for frame, feature in zip(batch, features, strict=True):
            yield FrameFeatures(index=frame.index, time_s=frame.time_s, features=feature)


def prefetch(source: Iterator[T], *, depth: int) -> Generator[T]:
    """Iterate ``source`` in a thread, at most ``depth`` items ahead of the consumer."""

    def fetch() -> tuple[T] | None:
        for item in source:
            return (item,)
        return None

    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead")
    ahead = deque(thread.submit(fetch) for _ in range(depth))
    try:
        while (item := ahead.popleft().result()) is not None:
            ahead.append(thread.submit(fetch))
            yield item[0]
    finally:
        thread.shutdown(cancel_futures=True)
        if isinstance(source, Generator):
            source.close()
