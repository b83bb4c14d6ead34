"""Exports read back and edited: tables, and the annotations of ELAN documents."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lxml import etree

from stepscope.app.exports.rows import ROW_TYPES, Tables, column_types
from stepscope.app.review_store.actions import Action
from stepscope.app.review_store.store import ReviewStore
from stepscope.engine.io.files import unescape_formula
from stepscope.eval.annotations.corrections import Correction
from tests.support.paths import ROOT

SCHEMA = etree.XMLSchema(etree.parse(str(ROOT / "tests" / "data" / "eaf.xsd")))


def read_csv_tables(folder: Path) -> Tables:
    """Read the files of ``write_csv_tables``."""
    tables = {}
    for name, row in ROW_TYPES.items():
        if name == "predictions" and not (folder / "predictions.csv").exists():  # left out without any
            tables[name] = ()
            continue
        types = column_types(row)
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            tables[name] = tuple(
                row(**{column: _from_cell(cell, types[column]) for column, cell in line.items()})
                for line in csv.DictReader(file)
            )
    return Tables(**tables)


def read_json_tables(path: Path) -> Tables:
    """Read a file of ``write_json_tables``."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return Tables(
        **{name: tuple(row(**_listed(values)) for values in content[name]) for name, row in ROW_TYPES.items()}
    )


def _from_cell(cell: str, kind: object) -> object:
    if kind is str:
        return unescape_formula(cell)
    if kind in (int, float):
        return int(cell) if kind is int else float(cell)
    if kind == float | None:
        return float(cell) if cell else None
    return tuple(json.loads(cell))


def _listed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def correct(store: ReviewStore, correction: Correction) -> None:
    store.append(Action(kind="correction", reviewer=correction.reviewer, video_id="boat", correction=correction))


def reword(path: Path, old: str, new: str) -> None:
    document = etree.parse(str(path))
    for tier in document.iter("TIER"):
        for value in tier.iter("ANNOTATION_VALUE"):
            if tier.get("TIER_ID").startswith("corrected: ") and value.text == old:
                value.text = new
    document.write(str(path))


def annotation(root: etree._Element, text: str, tier: str = "corrected: ") -> etree._Element:
    found = [
        value.getparent()
        for value in root.iter("ANNOTATION_VALUE")
        if value.text == text and value.getparent().getparent().getparent().get("TIER_ID").startswith(tier)
    ]
    assert len(found) == 1
    return found[0]
