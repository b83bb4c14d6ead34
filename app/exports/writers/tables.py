"""Write rows as CSV and JSON. Both keep every value: ``unescape_formula`` of ``engine.io.files`` returns a cell."""

from dataclasses import asdict
from pathlib import Path

from stepscope.app.exports.rows import ROW_TYPES, Tables, column_types
from stepscope.engine.io.files import write_csv, write_json


def write_csv_tables(folder: Path, tables: Tables) -> None:
    """Write one CSV file per table, named after the table; each file is written atomically."""
    for name, row in ROW_TYPES.items():
        write_csv(folder / f"{name}.csv", map(asdict, getattr(tables, name)), columns=list(column_types(row)))


def write_json_tables(path: Path, tables: Tables) -> None:
    """Write all tables as one JSON object of lists."""
    write_json(path, asdict(tables))
