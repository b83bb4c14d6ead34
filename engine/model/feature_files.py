"""Files of frame features, so that a video is encoded once.

A ``.safetensors`` file holds ``features [T, I, F]`` (float16), ``times_s [T]`` (float64) and, as metadata, which
encoder, normalisation, pooling and rate made them: features of another encoder are refused. A remark on the video, such
as that it is damaged, stays with them. A ``.npy`` file ``[T, F]`` or ``[T, I, F]`` says nothing of its origin: its
shape is checked and its frames are taken at the rate given.
Pickles are refused.
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
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from engine.errors import FeatureError
from engine.io import atomic_write, load_json
from engine.model.checkpoint import Checkpoint
from engine.model.frame_encoder import FrameFeatures
from engine.model.identity import digest_stored_encoder
from engine.records import Excerpt

_METADATA = "stepscope_features"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureInfo:
    """Where features come from."""

    encoder: str
    """Name of the checkpoint whose vision tower and connector made them."""
    encoder_digest: str
    """Digest of those weights and their settings; see ``engine.model.identity``."""
    normalization: str
    """The values by which its images were normalised, as text."""
    pooling: str
    """``mean``, ``first`` or ``none``."""
    fps: float
    """Frames sampled per second of video."""


def feature_info(checkpoint: Checkpoint, *, fps: float) -> FeatureInfo:
    """Return what features that this checkpoint makes at ``fps`` are marked with."""
    return FeatureInfo(
        encoder=checkpoint.name,
        encoder_digest=checkpoint.encoder_digest,
        normalization=checkpoint.normalization.describe(),
        pooling=checkpoint.model.pooling,
        fps=fps,
    )


def feature_path(folder: Path, video: Path, info: FeatureInfo, *, excerpt: Excerpt | None = None) -> Path:
    """Return where the features of a video, or of an excerpt, are kept: keyed by the video's content and ``info``."""
    with video.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    origin = f"{content} {info.encoder_digest} {info.normalization} {info.pooling} {info.fps!r}"
    if excerpt is not None:
        origin += f" {excerpt.start_s!r} {excerpt.num_frames}"
    key = hashlib.sha256(origin.encode())
    return folder / f"{video.stem}.{key.hexdigest()[:16]}.safetensors"


def write_features(path: Path, frames: Iterable[FrameFeatures], info: FeatureInfo, *, remark: str = "") -> int:
    """Write a ``.safetensors`` feature file, whole or not at all. Returns the number of frames."""
    kept = [(frame.time_s, frame.features.half().cpu()) for frame in frames]
    if not kept:
        raise FeatureError(f"{path} would hold no frames; check the video")
    tensors = {
        "features": torch.stack([features for _, features in kept]),
        "times_s": torch.tensor([time_s for time_s, _ in kept], dtype=torch.float64),
    }
    with atomic_write(path, binary=True) as file:
        file.write(save(tensors, metadata={_METADATA: json.dumps(asdict(info)), "remark": remark}))
    return len(kept)


def read_features(path: Path, checkpoint: Checkpoint, *, fps: float) -> Iterator[FrameFeatures]:
    """Read a feature file for a checkpoint, checked before the first frame is given.

    Raises ``FeatureError`` for a pickle, a damaged file, or features of another encoder, pooling, rate or shape.
    """
    if path.suffix == ".safetensors":
        features, times_s = _read_safetensors(path, checkpoint, fps)
    elif path.suffix == ".npy":
        features = _read_npy(path)
        times_s = torch.arange(len(features), dtype=torch.float64) / fps
    else:
        raise FeatureError(f"{path} is not a .safetensors or .npy file; other formats, pickles above all, are not read")
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
    """Return what was remarked on the video of a ``.safetensors`` feature file; raises as ``read_features``."""
    try:
        with safe_open(path, framework="pt") as file:
            return str((file.metadata() or {}).get("remark", ""))
    except (SafetensorError, OSError) as error:
        raise FeatureError(f"{path} cannot be read as a feature file: {error}") from error


def _read_safetensors(path: Path, checkpoint: Checkpoint, fps: float) -> tuple[Tensor, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = load_json((file.metadata() or {}).get(_METADATA, "null"))
            features, times_s = file.get_tensor("features"), file.get_tensor("times_s")
    except (SafetensorError, OSError, ValueError) as error:
        raise FeatureError(f"{path} cannot be read as a feature file: {error}") from error
    if not isinstance(metadata, dict):
        raise FeatureError(f"{path} does not say which encoder made it; encode the video again")
    _check_origin(path, metadata, checkpoint, fps)
    return features, times_s


def _check_origin(path: Path, metadata: Mapping[str, Any], checkpoint: Checkpoint, fps: float) -> None:
    """Refuse features that this checkpoint would not make; those of an older StepScope are taken with a warning."""
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
            f"{path} is of an older StepScope and does not record how its images were normalised; if the "
            "checkpoint's preprocessor_config.json has changed since, encode the video again",
            stacklevel=2,
        )


def _read_npy(path: Path) -> Tensor:
    try:
        features = torch.from_numpy(np.load(path, allow_pickle=False))
    except (OSError, ValueError, TypeError) as error:
        raise FeatureError(f"{path} cannot be read as an array of numbers: {error}") from error
    return features[:, None] if features.ndim == 2 else features
