"""Files of frame features, so that a video is encoded once: ``.safetensors`` of one encoder, or ``.npy``.

The first holds ``features [T, I, F]`` (float16), ``times_s [T]`` (float64), its encoder and a remark on the video, for
example on damage. Of a ``.npy`` file, ``[T, F]`` or ``[T, I, F]``, only the shape is checked. Pickles are refused.
"""

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import FeatureError
from engine.io import digest_file, load_json
from engine.model.checkpoint import Checkpoint
from engine.model.checkpoint_files import open_tensors, write_tensors
from engine.model.frame_encoder import FrameFeatures
from engine.model.identity import digest_stored_encoder
from engine.records import Excerpt

_METADATA = "stepscope_features"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureInfo:
    """Origin of frame features."""

    encoder: str
    """Name of the checkpoint with the vision tower and connector."""
    encoder_digest: str
    """Digest of their weights and settings; see ``engine.model.identity``."""
    normalization: str
    """Text of ``Normalization.describe``."""
    pooling: str
    """``mean``, ``first`` or ``none``."""
    fps: float


def feature_info(checkpoint: Checkpoint, *, fps: float) -> FeatureInfo:
    """Return the metadata of features that this checkpoint makes at ``fps``."""
    return FeatureInfo(
        encoder=checkpoint.name,
        encoder_digest=checkpoint.encoder_digest,
        normalization=checkpoint.normalization.describe(),
        pooling=checkpoint.model.pooling,
        fps=fps,
    )


def feature_path(folder: Path, video: Path, info: FeatureInfo, *, excerpt: Excerpt | None = None) -> Path:
    """Return the cache path of the features of a video or an excerpt; its key digests the content and ``info``."""
    origin = f"{digest_file(video)} {info.encoder_digest} {info.normalization} {info.pooling} {info.fps!r}"
    if excerpt is not None:
        origin += f" {excerpt.start_s!r} {excerpt.num_frames}"
    return folder / f"{video.stem}.{hashlib.sha256(origin.encode()).hexdigest()[:16]}.safetensors"


def write_features(path: Path, frames: Iterable[FrameFeatures], info: FeatureInfo, *, remark: str = "") -> int:
    """Write a ``.safetensors`` feature file atomically. Returns the number of frames."""
    kept = [(frame.time_s, frame.features.half().cpu()) for frame in frames]
    if not kept:
        raise FeatureError(f"{path} would hold no frames; check the video")
    tensors = {
        "features": torch.stack([features for _, features in kept]),
        "times_s": torch.tensor([time_s for time_s, _ in kept], dtype=torch.float64),
    }
    write_tensors(path, tensors, {_METADATA: json.dumps(asdict(info)), "remark": remark})
    return len(kept)


def read_features(path: Path, checkpoint: Checkpoint, *, fps: float) -> Iterator[FrameFeatures]:
    """Read a feature file for a checkpoint. The whole file is checked before this function returns.

    Raises ``FeatureError`` for a pickle, a damaged file, or features of a different encoder, pooling, rate or shape.
    """
    if path.suffix == ".safetensors":
        features, times_s = _read_safetensors(path, checkpoint, fps)
    elif path.suffix == ".npy":
        features = _read_npy(path)
        times_s = torch.arange(len(features), dtype=torch.float64) / fps
    else:
        raise FeatureError(f"{path} is not a .safetensors or .npy file; no other format is read, least of all pickles")
    shape = (checkpoint.model.tokens_per_frame, checkpoint.model.feature_dim)
    if features.ndim != 3 or tuple(features.shape[1:]) != shape or len(features) != len(times_s):
        raise FeatureError(
            f"{path} holds features {list(features.shape)}, but {checkpoint.name} takes [T, {shape[0]}, {shape[1]}]; "
            "encode the video with this checkpoint"
        )
    return (
        FrameFeatures(index=index, time_s=float(time_s), features=frame)
        for index, (time_s, frame) in enumerate(zip(times_s, features, strict=True))
    )


def read_remark(path: Path) -> str:
    """Return the remark on the video in a ``.safetensors`` feature file; raises as ``read_features`` does."""
    with open_tensors(path, FeatureError) as file:
        return str((file.metadata() or {}).get("remark", ""))


def _read_safetensors(path: Path, checkpoint: Checkpoint, fps: float) -> tuple[Tensor, Tensor]:
    with open_tensors(path, FeatureError) as file:
        metadata = load_json((file.metadata() or {}).get(_METADATA, "null"))
        features, times_s = file.get_tensor("features"), file.get_tensor("times_s")
    if not isinstance(metadata, dict):
        raise FeatureError(f"{path} does not record its encoder; encode the video again")
    _check_origin(path, metadata, checkpoint, fps)
    return features, times_s


def _check_origin(path: Path, metadata: Mapping[str, Any], checkpoint: Checkpoint, fps: float) -> None:
    """Raise ``FeatureError`` for features of a different origin; accept files of older versions with a warning."""
    wanted = asdict(feature_info(checkpoint, fps=fps))
    is_older = "normalization" not in metadata
    if is_older:
        wanted |= {"normalization": None, "encoder_digest": digest_stored_encoder(checkpoint.folder)}
    for name, value in wanted.items():
        if name != "encoder" and metadata.get(name) != value:
            raise FeatureError(
                f"{path} was made with {name} {metadata.get(name)!r}, but {checkpoint.name} needs {value!r}; "
                "encode the video with this checkpoint and rate"
            )
    if is_older:
        warnings.warn(
            f"{path} was written by an older version and does not record its image normalisation; if the "
            "checkpoint's preprocessor_config.json has changed since then, encode the video again",
            stacklevel=2,
        )


def _read_npy(path: Path) -> Tensor:
    try:
        features = torch.from_numpy(np.load(path, allow_pickle=False))
    except (OSError, ValueError, TypeError) as error:
        raise FeatureError(f"{path} cannot be read as an array of numbers: {error}") from error
    return features[:, None] if features.ndim == 2 else features
