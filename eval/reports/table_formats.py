"""Formats of tables of scores."""

from collections.abc import Sequence
from typing import Final, Literal, get_args

TableFormat = Literal["markdown", "csv", "latex"]
TABLE_FORMATS: Final[tuple[TableFormat, ...]] = get_args(TableFormat)
_SAFE_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # In the default encoding of fonts these three print as other signs.
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    """Return a text that LaTeX prints as it is."""
    return "".join(_SAFE_LATEX.get(sign, sign) for sign in text)


def add_latex_notes(notes: Sequence[str]) -> str:
    """Return the footnotes below a table in LaTeX."""
    return "".join(f"\n\\par\\footnotesize {escape_latex(note)}\n" for note in notes)


def format_table(heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str], *, latex: bool) -> str:
    """Return a table with footnotes as LaTeX, or as Markdown; the cells are plain texts."""
    if latex:
        lines = [" & ".join(map(escape_latex, cells)) + r" \\" for cells in (heads, *rows)]
        body = "\n".join(["\\hline", lines[0], "\\hline", *lines[1:], "\\hline"])
        return f"\\begin{{tabular}}{{{'l' * len(heads)}}}\n{body}\n\\end{{tabular}}\n{add_latex_notes(notes)}"
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in (heads, *rows)]
    lines.insert(1, "|" + " --- |" * len(heads))
    return "\n".join(lines) + "\n\n" + "".join(f"- {note}\n" for note in notes)
