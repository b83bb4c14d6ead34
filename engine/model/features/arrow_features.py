"""Reads frame features from Arrow files, one row per frame, through a memory map. Needs the package ``pyarrow``."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stepscope.engine.errors import FeatureError, first_line
from stepscope.engine.io.files import check_regular


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
