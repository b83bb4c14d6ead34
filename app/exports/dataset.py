"""Write rows as a folder for Hugging Face ``datasets``: Parquet files and a dataset card.

Parquet has typed columns. From JSON lines, ``datasets`` would infer types and read texts such as ``2026-01-02`` as
timestamps. Parquet needs the optional package ``pyarrow``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from stepscope.app.exports.rows import ROW_TYPES, Tables, column_types
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import atomic_write

try:
    import pyarrow
    from pyarrow import parquet
except ImportError:
    pyarrow = None

_TYPES: Mapping[object, str] = {str: "string", int: "int64", float: "float64", float | None: "float64"}
"""Names of Arrow types; the other columns are lists of strings."""
_CARD = """---
{front}---

# Reviewed videos

Written by StepScope: a configuration per table, a file per split.
"""


def write_dataset(folder: Path, splits: Mapping[str, Tables]) -> None:
    """Write a dataset folder with one configuration per table; ``load_dataset(folder, "verdicts")`` loads a table.

    Tables that are empty in all splits are omitted. Raises ``ValueError`` for a split name that ``datasets`` refuses,
    and ``EngineError`` if ``pyarrow`` is not installed.
    """
    if pyarrow is None:
        raise EngineError("a datasets folder needs the package pyarrow: pip install '.[parquet]'")
    for split in splits:
        if not re.fullmatch(r"\w+(\.\w+)*", split):
            raise ValueError(f"a split name has letters, digits and underscores only, such as test; got {split!r}")
    configs = []
    for name, row in ROW_TYPES.items():
        kept = {split: getattr(tables, name) for split, tables in splits.items() if getattr(tables, name)}
        for split, records in kept.items():
            _write_parquet(folder / name / f"{split}.parquet", row, records)
        if kept:
            files = [{"split": split, "path": f"{name}/{split}.parquet"} for split in kept]
            configs.append({"config_name": name, "data_files": files})
    front = yaml.safe_dump({"configs": configs}, sort_keys=False)
    with atomic_write(folder / "README.md") as file:
        file.write(_CARD.format(front=front))


def _write_parquet(path: Path, row: type, records: Sequence[Any]) -> None:
    texts = pyarrow.list_(pyarrow.string())
    schema = pyarrow.schema([(column, _TYPES.get(kind, texts)) for column, kind in column_types(row).items()])
    table = pyarrow.Table.from_pylist([asdict(record) for record in records], schema=schema)
    with atomic_write(path, binary=True) as file:
        parquet.write_table(table, file)
