"""Tables in LaTeX, read again by a strict parser: there is no TeX on this machine."""

import re
from pathlib import Path
from string import printable

from hypothesis import example, given
from hypothesis import strategies as st

from stepscope.engine.io.files import write_csv
from stepscope.eval.reports.table_files import read_video_rows
from stepscope.eval.reports.table_formats import escape_latex, format_notes, format_table

HOSTILE = r"_%&$#{}~^\|<>"
NAMED = {
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textasciicircum": "^",
    "textbar": "|",
    "textless": "<",
    "textgreater": ">",
}
TOKEN = re.compile(r"\\([a-zA-Z]+)[ \n]*|\\(.)|(.|\n)", re.DOTALL)
TEXTS = st.text(st.sampled_from(printable + "é…"), max_size=12)


def read_cells(latex: str) -> list[list[str]]:
    """Return the rows of the body of a tabular as TeX prints them; fail at each sign that TeX does not print."""
    rows, depth, is_new = [[""]], 0, False
    for match in TOKEN.finditer(latex):
        command, sign, plain = match.groups()
        if is_new and plain and plain.strip():
            assert plain not in "[*", "the row begins with an argument of the command that ends the row above"
        is_new = is_new and bool(plain) and not plain.strip()
        if command == "hline":
            continue
        if command is not None:
            rows[-1][-1] += NAMED[command]
        elif sign == "\\":
            assert depth == 0
            rows.append([""])
            is_new = True
        elif sign is not None:
            assert sign in "&%$#_{}", f"there is no command \\{sign}"
            rows[-1][-1] += sign
        elif plain == "&":
            rows[-1].append("")
        elif plain in "{}":
            depth += 1 if plain == "{" else -1
            assert depth >= 0
        else:
            assert plain not in "%$#_^~", f"{plain} is no sign that TeX prints"
            rows[-1][-1] += plain
    assert depth == 0
    assert rows.pop() in ([""], ["\n"])
    return [[" ".join(cell.split()) for cell in row] for row in rows]


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), min_size=1, max_size=3))
@example([["[1, 2]", "*"], ["*", HOSTILE], ["[", "a\n\nb"]])
def test_each_text_of_a_table_is_printed_as_it_is(rows: list[list[str]]) -> None:
    latex = format_table(["a_b", "95 %"], rows, latex=True)
    head, body, end = latex.partition("}\n\\hline\n")[0], latex.partition("}\n")[2], latex.rpartition("\\end{")[2]
    assert (head, end) == ("\\begin{tabular}{ll", "tabular}\n\n")
    found = read_cells(body.rpartition("\\end{")[0])
    assert found == [["a_b", "95 %"], *([" ".join(cell.split()) for cell in row] for row in rows)]


def test_a_footnote_is_one_paragraph() -> None:
    assert format_notes([f"a\n\nb {HOSTILE}"], latex=True).count("\n\n") == 1
    assert read_cells(escape_latex(HOSTILE) + r"\\") == [[HOSTILE]]


def test_a_video_whose_name_is_like_a_formula_keeps_its_name(tmp_path: Path) -> None:
    write_csv(tmp_path / "videos.csv", [{"video_id": name, "error": ""} for name in ("=a", "'b", "c")])
    assert [row["video_id"] for row in read_video_rows(tmp_path)] == ["=a", "'b", "c"]
