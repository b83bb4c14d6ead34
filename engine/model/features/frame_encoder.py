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

from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.preprocessing import normalize_images, resize_image

if TYPE_CHECKING:  # the decoders load with the reader only
    from stepscope.engine.video.reader import Frame

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameFeatures:
    """One encoded frame."""

    index: int
    time_s: float
    features: Tensor
    """Embedding ``[I, F]``: ``I`` tokens of width ``F``."""
    questions: tuple[str, ...] = ()
    """Questions of the user to answer at this frame, which were asked while it streams; see ``Task.questions``."""


@torch.inference_mode()
def encode_images(checkpoint: Checkpoint, images: Iterable[NDArray[np.uint8]]) -> Tensor:
    """Encode RGB images ``[H, W, 3]`` as features ``[B, I, F]`` on the model's device."""
    model = checkpoint.model
    pixels = normalize_images(
        images, size=model.image_size, normalization=checkpoint.normalization, framing=model.framing
    )
    return model.encode_images(pixels.to(model.device))


def resize_frame(checkpoint: Checkpoint, frame: "Frame") -> "Frame":
    """Return a frame with its image in the size and the framing of the model."""
    model = checkpoint.model
    return replace(frame, image=resize_image(frame.image, size=model.image_size, framing=model.framing))


def encode(checkpoint: Checkpoint, frames: Iterable["Frame"], *, batch_size: int = 16) -> Generator[FrameFeatures]:
    """Decode and encode frames in a thread ahead of the consumer, ``batch_size`` frames at a time.

    At most two batches are queued. An exception of the decoder or the encoder is raised in the consumer. Closing the
    generator stops the thread.
    """
    return prefetch(_encode_batches(checkpoint, frames, batch_size), depth=2 * batch_size)


def _encode_batches(checkpoint: Checkpoint, frames: Iterable["Frame"], batch_size: int) -> Iterator[FrameFeatures]:
    """Encode in batches; each image is resized right after decoding, to hold no batch of full-size images."""
    source = (resize_frame(checkpoint, frame) for frame in frames)
    while batch := list(islice(source, batch_size)):
        features = encode_images(checkpoint, [frame.image for frame in batch])
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
