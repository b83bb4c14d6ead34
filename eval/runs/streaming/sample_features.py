"""The frame features of the video of a sample: decoded and encoded, or kept in a folder."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from stepscope.engine.config import HardwareDecoding
from stepscope.engine.errors import EngineError, VideoError
from stepscope.engine.io.hub_files import fetch_missing
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import (
    FEATURE_SUFFIXES,
    feature_info,
    feature_path,
    read_features,
    read_remark,
    write_features,
)
from stepscope.engine.model.features.frame_encoder import FrameFeatures, encode
from stepscope.engine.video.hardware import find_decoding_device
from stepscope.engine.video.reader import Frame, read_frames
from stepscope.eval.data.samples import Sample

EncodeFrames = Callable[[Iterator[Frame]], Iterator[FrameFeatures]]
"""Encodes the frames of a video as they come."""


def defer_error(start: Callable[[], Iterator[FrameFeatures]]) -> Iterator[FrameFeatures]:
    """Start a video's frames, such as by ``embed_sample``; if that fails, the error is raised at the first frame."""
    try:
        return start()
    except EngineError as error:
        return _fail(error)


def embed_sample(
    checkpoint: Checkpoint,
    sample: Sample,
    warnings: list[str],
    *,
    folder: Path | None,
    hardware: HardwareDecoding = "off",
    encode_frames: EncodeFrames | None = None,
) -> Iterator[FrameFeatures]:
    """Decode and encode one sample's video, or read its embeddings in ``folder``; append its problems to ``warnings``.

    ``encode_frames`` encodes its frames, by default in a thread of its own. ``hardware`` decodes them; see
    ``engine.video.hardware``. With a folder, the first frame comes when the embeddings of all are stored.

    Raises ``EngineError`` if that fails.
    """
    encode_frames = encode_frames or partial(encode, checkpoint)
    path = find_features(checkpoint, sample, folder=folder, hardware=hardware)
    if path is None:
        return encode_frames(_read_sample_frames(checkpoint, sample, warnings, hardware))
    seen = list[str]()
    frames = None if path.exists() else encode_frames(_read_sample_frames(checkpoint, sample, seen, hardware))

    def read_kept() -> Iterator[FrameFeatures]:
        if frames is not None:
            _write_kept(path, checkpoint, sample, frames, hardware, seen)
        warnings.extend(filter(None, [read_remark(path)]))
        yield from read_features(path, checkpoint, fps=sample.fps)

    return read_kept()


def keep_features(
    checkpoint: Checkpoint,
    sample: Sample,
    *,
    folder: Path | None,
    hardware: HardwareDecoding = "off",
) -> Path | None:
    """Return the file with a sample's embeddings in ``folder``, encoded if it does not exist; None without a folder.

    Raises ``EngineError`` if that fails.
    """
    path = find_features(checkpoint, sample, folder=folder, hardware=hardware)
    if path is not None and not path.exists():
        seen = list[str]()
        frames = encode(checkpoint, _read_sample_frames(checkpoint, sample, seen, hardware))
        _write_kept(path, checkpoint, sample, frames, hardware, seen)
    return path


def find_features(
    checkpoint: Checkpoint, sample: Sample, *, folder: Path | None, hardware: HardwareDecoding = "off"
) -> Path | None:
    """Return where the embeddings of a sample's video are kept; None if they are not kept.

    A sample without a video file may have its features there already, as ``<video_id>.safetensors``, ``.npy`` or
    ``.arrow``. Raises ``VideoError`` if it has neither, or a video that cannot be read.
    """
    video = sample.video_path
    if video is not None:
        try:
            fetch_missing(video)
        except ValueError as error:
            raise VideoError(str(error)) from error
    if folder is not None and (video is None or not os.path.isfile(video)):
        for suffix in FEATURE_SUFFIXES:
            given = folder / f"{sample.video_id}{suffix}"
            is_inside = given.is_relative_to(folder) and ".." not in given.relative_to(folder).parts
            if is_inside and os.path.isfile(given):  # the id of a foreign split may be ../boat or /boat
                return given
    if video is None:
        hint = "" if folder is None else f", or its features {sample.video_id}.npy in --features DIR"
        raise VideoError(f"{sample.video_id} names no video file; add video_path, or give --videos DIR{hint}")
    if folder is None:
        return None
    if not os.path.isfile(video):  # False also for a path that no file can have
        raise VideoError(f"{video} does not exist; correct video_path")
    try:
        info = feature_info(checkpoint, fps=sample.fps, hardware=hardware)
        return feature_path(folder, video, info, excerpt=sample.excerpt)
    except OSError as error:
        raise VideoError(f"{video} cannot be read: {error.strerror or error}; check its permissions") from error


def is_kept(checkpoint: Checkpoint, sample: Sample, *, folder: Path | None, hardware: HardwareDecoding = "off") -> bool:
    """Return whether the embeddings of a sample's video are in ``folder`` already."""
    try:
        path = find_features(checkpoint, sample, folder=folder, hardware=hardware)
    except VideoError:
        return False
    return path is not None and path.exists()


def _read_sample_frames(
    checkpoint: Checkpoint, sample: Sample, warnings: list[str], hardware: HardwareDecoding
) -> Iterator[Frame]:
    """Read a sample's part of its video; append damage to ``warnings``."""
    video, device = sample.video_path, find_decoding_device(hardware, str(checkpoint.model.device))
    assert video is not None
    yield from read_frames(video, fps=sample.fps, excerpt=sample.excerpt, on_damage=warnings.append, device=device)


def _fail(error: EngineError) -> Iterator[FrameFeatures]:
    raise error
    yield  # a generator, which raises when it is asked for a frame


def _write_kept(
    path: Path,
    checkpoint: Checkpoint,
    sample: Sample,
    frames: Iterator[FrameFeatures],
    hardware: HardwareDecoding,
    seen: Sequence[str],
) -> None:
    """Store the embeddings of all frames; ``seen`` are the problems that decoding them adds."""
    encoded = list(frames)
    write_features(path, encoded, feature_info(checkpoint, fps=sample.fps, hardware=hardware), remark="; ".join(seen))
