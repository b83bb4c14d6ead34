"""Encodes frames as embeddings ``[I, F]`` each, in a thread ahead of the model.

``engine.model.feature_files`` stores the embeddings in files.
"""

import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.model.checkpoint import Checkpoint
from engine.model.preprocessing import normalize_images, resize_image
from engine.video.reader import Frame

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameFeatures:
    """One encoded frame."""

    index: int
    time_s: float
    features: Tensor
    """Embedding ``[I, F]``: ``I`` tokens of width ``F``."""


@torch.inference_mode()
def encode_images(checkpoint: Checkpoint, images: Iterable[NDArray[np.uint8]]) -> Tensor:
    """Encode RGB images ``[H, W, 3]`` as features ``[B, I, F]`` on the model's device."""
    model = checkpoint.model
    pixels = normalize_images(images, size=model.image_size, normalization=checkpoint.normalization)
    return model.encode_images(pixels.to(model.device))


def encode(checkpoint: Checkpoint, frames: Iterable[Frame], *, batch_size: int = 16) -> Generator[FrameFeatures]:
    """Decode and encode frames in a thread ahead of the consumer, ``batch_size`` frames at a time.

    At most two batches are queued. An exception of the decoder or the encoder is raised in the consumer. Closing the
    generator stops the thread.
    """
    return prefetch(_encode_batches(checkpoint, frames, batch_size), depth=2 * batch_size)


def _encode_batches(checkpoint: Checkpoint, frames: Iterable[Frame], batch_size: int) -> Iterator[FrameFeatures]:
    """Encode in batches; each image is resized right after decoding, to hold no batch of full-size images."""
    size = checkpoint.model.image_size
    source = (replace(frame, image=resize_image(frame.image, size=size)) for frame in frames)
    while batch := list(islice(source, batch_size)):
        features = encode_images(checkpoint, [frame.image for frame in batch])
        for frame, feature in zip(batch, features, strict=True):
            yield FrameFeatures(index=frame.index, time_s=frame.time_s, features=feature)


def prefetch(source: Iterator[T], *, depth: int) -> Generator[T]:
    """Iterate ``source`` in a thread, at most ``depth`` items ahead of the consumer."""
    items: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def put(item: tuple[T] | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                items.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            for item in source:
                put((item,))
                if stopped.is_set():
                    break
            put(None)
        except BaseException as error:  # raised again in the consumer
            put(error)
        finally:
            if isinstance(source, Generator):
                source.close()

    thread = threading.Thread(target=work, name="read-ahead", daemon=True)
    thread.start()
    try:
        while (item := items.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        stopped.set()
        thread.join()
