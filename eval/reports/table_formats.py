"""Formats of tables of scores."""

from collections.abc import Sequence
from typing import Final, Literal

TableFormat = Literal["markdown", "csv", "latex"]
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
    """Return a text that LaTeX prints as it is, on one line."""
    return "".join(_SAFE_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def format_tabular(heads: Sequence[str], rows: Sequence[Sequence[str]], *, columns: str) -> str:
    """Return a tabular, whose cells are LaTeX; ``columns`` are their alignments."""
    lines = [" & ".join(cells) for cells in (heads, *rows)]
    # After the \\ of the row before, a [ or * would be its argument.
    top, *below = (f"{'{}' if line[:1] in ('[', '*') else ''}{line} \\\\\n" for line in lines)
    body = f"\\hline\n{top}\\hline\n{''.join(below)}\\hline\n"
    return f"\\begin{{tabular}}{{{columns}}}\n{body}\\end{{tabular}}\n\n"


def format_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, latex: bool) -> str:
    """Return a table as LaTeX, or as Markdown; the cells are plain texts."""
    if latex:
        top, *below = ([escape_latex(cell) for cell in cells] for cells in (heads, *rows))
        return format_tabular(top, below, columns="l" * len(heads))
    shown = ([" ".join(cell.split()).replace("|", "\\|") for cell in cells] for cells in (heads, *rows))
    first, *rest = (f"| {' | '.join(cells)} |" for cells in shown)
    return "\n".join([first, "|" + " --- |" * len(heads), *rest]) + "\n\n"


def format_notes(notes: Sequence[str], *, latex: bool) -> str:
    """Return the footnotes below tables."""
    return "".join(f"\\par\\footnotesize {escape_latex(note)}\n\n" if latex else f"- {note}\n" for note in notes)
