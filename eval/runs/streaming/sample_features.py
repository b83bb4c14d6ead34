"""The frame features of the video of a sample: decoded and encoded, or kept in a folder."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from stepscope.engine.config import HardwareDecoding
from stepscope.engine.errors import EngineError, VideoError
from stepscope.engine.io.hub_files import fetch_missing
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import (
    FEATURE_SUFFIXES,
    FeatureInfo,
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
from stepscope.eval.runs.worker_messages import WorkerConfig

EncodeFrames = Callable[[Iterator[Frame]], Iterator[FrameFeatures]]
"""Encodes the frames of a video as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFeatures:
    """Makes the frame features of samples, or reads those that are kept in a folder."""

    checkpoint: Checkpoint
    folder: Path | None = None
    """Folder in which embeddings are kept; None keeps none."""
    hardware: HardwareDecoding = "off"
    encode_frames: EncodeFrames | None = None
    """Encodes the frames of a video, by default in a thread of its own."""

    @classmethod
    def of_run(
        cls, checkpoint: Checkpoint, worker_config: WorkerConfig, encode_frames: EncodeFrames | None = None
    ) -> Self:
        """Return those of a run, decoded and kept as its settings say."""
        hardware = worker_config.hardware_decoding
        return cls(checkpoint=checkpoint, folder=worker_config.features, hardware=hardware, encode_frames=encode_frames)

    def embed(self, sample: Sample, warnings: list[str] | None = None) -> Iterator[FrameFeatures]:
        """Decode and encode a sample's video, or read its embeddings; append its problems to ``warnings``.

        With a folder, the first frame comes when the embeddings of all are stored. The first frame raises
        ``EngineError`` if that fails.
        """
        warnings = [] if warnings is None else warnings
        try:
            path = self.find(sample)
        except VideoError as error:
            return _fail(error)
        if path is None:
            return self._encode(sample, warnings)
        seen = list[str]()
        frames = None if path.exists() else self._encode(sample, seen)

        def read_kept() -> Iterator[FrameFeatures]:
            if frames is not None:
                self._write(path, sample, frames, seen)
            warnings.extend(filter(None, [read_remark(path)]))
            yield from read_features(path, self.checkpoint, fps=sample.fps)

        return read_kept()

    def keep(self, sample: Sample) -> Path | None:
        """Return the file with a sample's embeddings, encoded if it does not exist; None without a folder.

        Raises ``EngineError`` if that fails.
        """
        path = self.find(sample)
        if path is not None and not path.exists():
            seen = list[str]()
            self._write(path, sample, self._encode(sample, seen), seen)
        return path

    def is_kept(self, sample: Sample) -> bool:
        """Return whether the embeddings of a sample's video are in the folder already."""
        try:
            path = self.find(sample)
        except VideoError:
            return False
        return path is not None and path.exists()

    def find(self, sample: Sample) -> Path | None:
        """Return where the embeddings of a sample's video are kept; None if they are not kept.

        A sample without a video file may have its features there already, as ``<video_id>.safetensors``, ``.npy`` or
        ``.arrow``. Raises ``VideoError`` if it has neither, or a video that cannot be read.
        """
        video, folder = sample.video_path, self.folder
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
            return feature_path(folder, video, self._describe(sample), excerpt=sample.excerpt)
        except OSError as error:
            raise VideoError(f"{video} cannot be read: {error.strerror or error}; check its permissions") from error

    def _describe(self, sample: Sample) -> FeatureInfo:
        return feature_info(self.checkpoint, fps=sample.fps, hardware=self.hardware)

    def _encode(self, sample: Sample, warnings: list[str]) -> Iterator[FrameFeatures]:
        frames = self._decode(sample, warnings)
        return encode(self.checkpoint, frames) if self.encode_frames is None else self.encode_frames(frames)

    def _decode(self, sample: Sample, warnings: list[str]) -> Iterator[Frame]:
        """Read a sample's part of its video; append damage to ``warnings``."""
        video, device = sample.video_path, find_decoding_device(self.hardware, str(self.checkpoint.model.device))
        assert video is not None
        yield from read_frames(video, fps=sample.fps, excerpt=sample.excerpt, on_damage=warnings.append, device=device)

    def _write(self, path: Path, sample: Sample, frames: Iterator[FrameFeatures], seen: Sequence[str]) -> None:
        """Store the embeddings of all frames; ``seen`` are the problems that decoding them adds."""
        encoded = list(frames)
        write_features(path, encoded, self._describe(sample), remark="; ".join(seen))


def _fail(error: EngineError) -> Iterator[FrameFeatures]:
    raise error
    yield  # a generator, which raises when it is asked for a frame
