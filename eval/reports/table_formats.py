"""Formats of tables of scores."""

from typing import Final, Literal, get_args

TableFormat = Literal["markdown", "csv", "latex"]
TABLE_FORMATS: Final[tuple[TableFormat, ...]] = get_args(TableFormat)
