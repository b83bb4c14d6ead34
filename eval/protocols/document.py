"""The tables of docs/protocols.md: ``stepscope protocols``."""

from collections.abc import Callable, Sequence

from stepscope.eval.protocols.protocol import Protocol
from stepscope.eval.protocols.registry import PROTOCOLS


def to_markdown() -> str:
    """Return a table of the rules, and one of the published judges and parameters."""
    rules = _tabulate(
        ("protocols", "window", "matching", "scores", "source"),
        lambda one: (one.windows, one.matching, one.aggregation, one.source),
    )
    parameters = _tabulate(
        ("protocols", "published judge", "parameters"),
        lambda one: (one.judge, ", ".join(f"{name} {part.default:g}" for name, part in one.parameters.items())),
    )
    return f"{rules}\n{parameters}"


def _tabulate(heads: Sequence[str], describe: Callable[[Protocol], tuple[str, ...]]) -> str:
    """Return a table with a row for each description, and the protocols that share it."""
    names: dict[tuple[str, ...], list[str]] = {}
    for protocol in PROTOCOLS.values():
        names.setdefault(describe(protocol), []).append(f"`{protocol.name}`")
    rows = [heads, ["---"] * len(heads), *([", ".join(same), *cells] for cells, same in names.items())]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)
