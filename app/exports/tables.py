"""Rows as files for programs, CSV and JSON; both read back as they were.

In CSV a cell that a spreadsheet would take for a formula gets an apostrophe before it, and so does one that begins with
an apostrophe, so that reading can take it away again. Lists of texts stand in one cell, as JSON.
"""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from app.exports.rows import ROWS, Tables, column_types
from engine.io import atomic_write, escape_formula, write_json


def write_csv_tables(folder: Path, tables: Tables) -> None:
    """Write a CSV file per table, named after it, each whole or not at all."""
    for name, row in ROWS.items():
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(column_types(row)), lineterminator="\r\n")
        writer.writeheader()
        for record in getattr(tables, name):
            writer.writerow({column: _to_cell(value) for column, value in asdict(record).items()})
        with atomic_write(folder / f"{name}.csv") as file:
            file.write(text.getvalue())


def read_csv_tables(folder: Path) -> Tables:
    """Read what ``write_csv_tables`` wrote. Raises ``ValueError`` naming the file that cannot be read."""
    tables = {}
    for name, row in ROWS.items():
        path, types = folder / f"{name}.csv", column_types(row)
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            found = reader.fieldnames or []
            if found != [column for column in types if column in found or column not in _later_columns(row)]:
                raise ValueError(f"{path} must have the columns {', '.join(types)}")
            try:
                cells = [{column: _from_cell(cell, types[column]) for column, cell in line.items()} for line in reader]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
        tables[name] = tuple(row(**values) for values in cells)
    return Tables(**tables)


def _later_columns(row: type[Any]) -> set[str]:
    """Return the columns that files of earlier versions lack: those with a default."""
    return {field.name for field in fields(row) if field.default is not MISSING}


def write_json_tables(path: Path, tables: Tables) -> None:
    """Write all tables as one JSON object of lists."""
    write_json(path, asdict(tables))


def read_json_tables(path: Path) -> Tables:
    """Read what ``write_json_tables`` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return Tables(**{name: tuple(row(**_listed(values)) for values in content[name]) for name, row in ROWS.items()})


def _to_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith("'") else escape_formula(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, tuple | list) else repr(value)


def _from_cell(cell: str, kind: object) -> object:
    if kind is str:
        return cell.removeprefix("'")
    if kind in (int, float):
        return int(cell) if kind is int else float(cell)
    if kind == float | None:
        return float(cell) if cell else None
    return tuple(json.loads(cell))


def _listed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
