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

_TYPES: Mapping[object, tuple[str, str]] = {
    str: ("dtype", "string"),
    int: ("dtype", "int64"),
    float: ("dtype", "float64"),
    float | None: ("dtype", "float64"),
    tuple[str, ...]: ("list", "string"),
}
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
    configs, infos = [], []
    for name, row in ROW_TYPES.items():
        kept = {split: getattr(tables, name) for split, tables in splits.items() if getattr(tables, name)}
        for split, records in kept.items():
            _write_parquet(folder / name / f"{split}.parquet", row, records)
        if kept:
            files = [{"split": split, "path": f"{name}/{split}.parquet"} for split in kept]
            features = [{"name": column, **dict([_TYPES[kind]])} for column, kind in column_types(row).items()]
            configs.append({"config_name": name, "data_files": files})
            infos.append({"config_name": name, "features": features})
    front = yaml.safe_dump({"configs": configs, "dataset_info": infos}, sort_keys=False)
    with atomic_write(folder / "README.md") as file:
        file.write(_CARD.format(front=front))


def _write_parquet(path: Path, row: type, records: Sequence[Any]) -> None:
    schema = pyarrow.schema([(column, _arrow_type(kind)) for column, kind in column_types(row).items()])
    table = pyarrow.Table.from_pylist([asdict(record) for record in records], schema=schema)
    with atomic_write(path, binary=True) as file:
        parquet.write_table(table, file)


def _arrow_type(kind: object) -> object:
    shape, name = _TYPES[kind]
    value = pyarrow.type_for_alias(name)
    return pyarrow.list_(value) if shape == "list" else value
