"""Files of frame features, so that a video is encoded once: ``.safetensors`` of one encoder, ``.npy`` or ``.arrow``.

The first holds ``features [T, I, F]`` (float16), ``times_s [T]`` (float64), its encoder and a remark on the video, for
example on damage. Of the other two, ``[T, F]`` or ``[T, I, F]``, only the shape is checked; an Arrow file, as the
library ``datasets`` writes it, has one row per frame. Pickles are refused. ``FeatureFile`` reads any range of
frames from disk.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stepscope.engine.config import HardwareDecoding
from stepscope.engine.errors import FeatureError, first_line
from stepscope.engine.io.files import check_regular, digest_file, load_json
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.files.checkpoint_files import open_tensors, write_tensors
from stepscope.engine.model.vision_language import fits_shape, format_shape
from stepscope.engine.records import Excerpt

FEATURE_SUFFIXES = (".safetensors", ".npy", ".arrow")
_METADATA = "stepscope_features"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureInfo:
    """Origin of frame features."""

    encoder: str
    """Name of the checkpoint with the vision tower and connector."""
    encoder_digest: str
    """Digest of their weights and settings; see ``engine.model.identity``."""
    normalization: str
    """Text of ``Checkpoint.describe_images``."""
    pooling: str
    """Tokens that represent a frame: ``mean``, ``first``, ``none``, or such as ``cls+3x3``."""
    fps: float
    hardware_decoding: HardwareDecoding = "off"
    """Kind of device that decoded the video."""


def feature_info(checkpoint: Checkpoint, *, fps: float, hardware: HardwareDecoding = "off") -> FeatureInfo:
    """Return the metadata of features that this checkpoint makes at ``fps`` of a video that ``hardware`` decodes."""
    return FeatureInfo(
        encoder=checkpoint.name,
        encoder_digest=checkpoint.encoder_digest,
        normalization=checkpoint.describe_images(),
        pooling=checkpoint.model.frame_tokens,
        fps=fps,
        hardware_decoding=hardware,
    )


def feature_path(folder: Path, video: Path, info: FeatureInfo, *, excerpt: Excerpt | None = None) -> Path:
    """Return the cache path of the features of a video or an excerpt; its key digests the content and ``info``."""
    named = f"{info.encoder_digest} {info.normalization} {info.pooling} {info.fps!r} {info.hardware_decoding}"
    origin = f"{digest_file(video)} {named}"
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureFile:
    """An open feature file, from which any range of frames is read without the rest."""

    path: Path
    shape: tuple[int, ...]
    """``[T, I, F]`` or ``[T, rows, columns, F]``."""
    times_s: Tensor
    """Times of the frames ``[T]``, in seconds."""
    load: Callable[[int, int], Tensor]
    """Returns the features of the frames from ``first`` to before ``stop``, ``[n, I, F]`` or ``[n, F]``."""

    @property
    def num_frames(self) -> int:
        """``T``."""
        return self.shape[0]

    def read(self, first: int = 0, stop: int | None = None) -> Tensor:
        """Read the features ``[n, I, F]`` of the frames from ``first`` to before ``stop``."""
        stop = self.num_frames if stop is None else stop
        return self.load(first, stop).reshape(stop - first, *self.shape[1:])


def open_features(path: Path, checkpoint: Checkpoint, *, fps: float) -> FeatureFile:
    """Open a feature file for a checkpoint; its origin and shape are checked.

    Raises ``FeatureError`` for a pickle, a damaged file, or features of a different encoder, pooling, rate or shape.
    """
    if path.suffix == ".safetensors":
        file = _open_safetensors(path, checkpoint, fps)
    elif path.suffix == ".npy":
        file = _open_npy(path, fps)
    elif path.suffix == ".arrow":
        shape, load = open_arrow(path)
        file = FeatureFile(path=path, shape=_three(shape), times_s=_regular_times(shape[0], fps), load=load)
    else:
        raise FeatureError(
            f"{path} is not a .safetensors, .npy or .arrow file; no other format is read, least of all pickles"
        )
    wanted = checkpoint.model.feature_shape
    if not fits_shape(file.shape[1:], wanted) or file.num_frames != len(file.times_s):
        raise FeatureError(
            f"{path} holds features {list(file.shape)}, but {checkpoint.name} takes [T, {format_shape(wanted)[1:]}; "
            "encode the video with this checkpoint"
        )
    return file


def read_features(path: Path, checkpoint: Checkpoint, *, fps: float) -> Iterator[FrameFeatures]:
    """Read a feature file for a checkpoint. The whole file is read before this function returns.

    Raises as ``open_features``.
    """
    file = open_features(path, checkpoint, fps=fps)
    features = file.read()
    return (
        FrameFeatures(index=index, time_s=float(time_s), features=frame)
        for index, (time_s, frame) in enumerate(zip(file.times_s, features, strict=True))
    )


def read_remark(path: Path) -> str:
    """Return the remark on the video in a ``.safetensors`` feature file; raises as ``open_features``."""
    if path.suffix != ".safetensors":
        return ""
    with open_tensors(path, FeatureError) as file:
        return str((file.metadata() or {}).get("remark", ""))


def _open_safetensors(path: Path, checkpoint: Checkpoint, fps: float) -> FeatureFile:
    with open_tensors(path, FeatureError) as file:
        metadata = load_json((file.metadata() or {}).get(_METADATA, "null"))
        shape, times_s = tuple(file.get_slice("features").get_shape()), file.get_tensor("times_s")
    if not isinstance(metadata, dict):
        raise FeatureError(f"{path} does not record its encoder; encode the video again")
    _check_origin(path, metadata, checkpoint, fps)

    def load(first: int, stop: int) -> Tensor:
        with open_tensors(path, FeatureError) as file:
            part: Tensor = file.get_slice("features")[first:stop]
        return part

    return FeatureFile(path=path, shape=shape, times_s=times_s, load=load)


def _check_origin(path: Path, metadata: Mapping[str, Any], checkpoint: Checkpoint, fps: float) -> None:
    for name, value in asdict(feature_info(checkpoint, fps=fps)).items():
        if name not in ("encoder", "hardware_decoding") and metadata.get(name) != value:
            raise FeatureError(
                f"{path} was made with {name} {metadata.get(name)!r}, but {checkpoint.name} needs {value!r}; "
                "encode the video with this checkpoint and rate"
            )


def _open_npy(path: Path, fps: float) -> FeatureFile:
    def open_array() -> Any:
        try:
            check_regular(path)
            array = np.load(path, allow_pickle=False, mmap_mode="r")
            torch.from_numpy(np.empty(0, array.dtype))  # raises TypeError for values that are no numbers
        except (OSError, ValueError, TypeError) as error:
            raise FeatureError(f"{path} cannot be read as an array of numbers: {error}") from error
        return array

    shape = open_array().shape
    times_s = _regular_times(shape[0] if shape else 0, fps)
    return FeatureFile(
        path=path,
        shape=_three(shape),
        times_s=times_s,
        load=lambda first, stop: torch.from_numpy(np.array(open_array()[first:stop])),
    )


def _three(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``[T, 1, F]`` for ``[T, F]``."""
    return (shape[0], 1, shape[1]) if len(shape) == 2 else tuple(shape)


def _regular_times(num_frames: int, fps: float) -> Tensor:
    return torch.arange(num_frames, dtype=torch.float64) / fps


def open_arrow(path: Path) -> tuple[tuple[int, ...], Callable[[int, int], Tensor]]:
    """Return the shape, ``[T, F]`` or ``[T, I, F]``, and a function that reads the frames from ``first`` to ``stop``.

    The features are the column ``features``, or the only column. Raises ``FeatureError`` if the file has no such
    column of equally long rows, or if ``pyarrow`` is missing.
    """
    try:
        pyarrow = import_module("pyarrow")
    except ImportError:
        raise FeatureError(f"{path} needs the package pyarrow; install the extra parquet") from None
    column = _open_column(path, pyarrow)

    def load(first: int, stop: int) -> Tensor:
        values, _ = _flatten(column.slice(first, stop - first), pyarrow)
        return torch.from_numpy(np.array(values))

    try:
        values, inner = _flatten(column.slice(0, 1), pyarrow)
        shape = (len(column), *inner, len(values) // max(1, *inner, 1))
        if len(column) == 0 or len(_flatten(column, pyarrow)[0]) != int(np.prod(shape)):
            raise ValueError("its rows differ in length, or there is none")
    except (ValueError, TypeError, pyarrow.ArrowException) as error:
        raise FeatureError(f"{path} cannot be read as an array of numbers: {first_line(error)}") from error
    return shape, load


def _open_column(path: Path, pyarrow: Any) -> Any:
    try:
        check_regular(path)
        source = pyarrow.memory_map(str(path))
        try:
            table = pyarrow.ipc.open_file(source).read_all()
        except pyarrow.ArrowInvalid:  # the library datasets writes streams
            source.seek(0)
            table = pyarrow.ipc.open_stream(source).read_all()
    except (OSError, pyarrow.ArrowException) as error:
        raise FeatureError(f"{path} cannot be read as an Arrow file: {first_line(error)}") from error
    names = table.column_names
    if "features" not in names and len(names) != 1:
        raise FeatureError(f"{path} must have a column features; it has {', '.join(names)}")
    return table.column("features" if "features" in names else 0)


def _flatten(column: Any, pyarrow: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the numbers of rows, and for rows of lists the number of lists in the first row."""
    array = column.combine_chunks()
    if isinstance(array, pyarrow.ChunkedArray):
        array = pyarrow.concat_arrays(array.chunks)
    array = getattr(array, "storage", array)  # of the extension types of the library datasets
    inner: tuple[int, ...] = ()
    depth, num_rows = 0, len(array)
    while pyarrow.types.is_list(array.type) or pyarrow.types.is_large_list(array.type) or _is_fixed(array, pyarrow):
        array, depth = array.flatten(), depth + 1
        inner = (len(array) // max(1, num_rows),) if depth == 1 else inner
    if not 1 <= depth <= 2 or array.null_count:
        raise ValueError("a row must be a list of numbers, or a list of such lists, without nulls")
    return array.to_numpy(zero_copy_only=False), inner if depth == 2 else ()


def _is_fixed(array: Any, pyarrow: Any) -> bool:
    return bool(pyarrow.types.is_fixed_size_list(array.type))
