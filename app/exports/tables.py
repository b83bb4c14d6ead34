"""Write rows as CSV and JSON, from which they can be read back exactly.

In CSV, an apostrophe is put before a cell that a spreadsheet would evaluate as a formula, and before a cell that starts
with an apostrophe. So a reader can always remove one. Lists of texts are one cell with JSON. This is not the escaping
of ``engine.io.to_cell``, which is for one-way reports: it cannot be undone and writes nan as an empty cell.
"""

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path

from app.exports.rows import ROW_TYPES, Tables, column_types
from engine.io import atomic_write, escape_formula, write_json


def write_csv_tables(folder: Path, tables: Tables) -> None:
    """Write one CSV file per table, named after the table; each file is written atomically."""
    for name, row in ROW_TYPES.items():
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(column_types(row)), lineterminator="\r\n")
        writer.writeheader()
        for record in getattr(tables, name):
            writer.writerow({column: _to_cell(value) for column, value in asdict(record).items()})
        with atomic_write(folder / f"{name}.csv") as file:
            file.write(text.getvalue())


def write_json_tables(path: Path, tables: Tables) -> None:
    """Write all tables as one JSON object of lists."""
    write_json(path, asdict(tables))


def _to_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith("'") else escape_formula(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, tuple | list) else repr(value)
