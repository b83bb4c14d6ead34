"""The player's ES modules: each import resolves without cycles, and the joiner refuses other forms."""

from graphlib import CycleError
from pathlib import Path

import pytest

from app.player.component import STATIC
from app.player.modules import exports_of, imports_of, join_modules, load_modules


def test_the_imports_of_the_player_resolve_and_have_no_cycle() -> None:
    modules = load_modules(STATIC)
    assert list(modules)[-1] == "main"
    assert "mount" in exports_of(modules["main"])
    before: set[str] = set()
    for name, source in modules.items():
        assert before.issuperset(imports_of(source)), name
        before.add(name)


def test_the_shared_state_imports_constants_alone() -> None:
    assert set(imports_of((STATIC / "state.js").read_text(encoding="utf-8"))) <= {"data"}


def test_each_module_has_at_most_300_lines() -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in STATIC.iterdir()}
    assert max(lines.values()) <= 300, lines


def test_modules_are_joined_in_the_order_of_their_imports(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { two } from "./b.js";\n\nexport function three() { return two + 1; }\n')
    (tmp_path / "b.js").write_text("export const two = 2;\nconst three = 3; // its own\n")
    assert join_modules(tmp_path).splitlines() == [
        "const $b = (() => {",
        '"use strict";',
        "const two = 2;",
        "const three = 3; // its own",
        "",
        "return { two };",
        "})();",
        "const $a = (() => {",
        '"use strict";',
        "const { two } = $b;",
        "",
        "function three() { return two + 1; }",
        "",
        "return { three };",
        "})();",
    ]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ('import { two } from "./c.js";\n', "a.js imports two, which c.js does not export"),
        ('import { four } from "./b.js";\n', "a.js imports four, which b.js does not export"),
        ('import * as b from "./b.js";\n', "a.js: not an import or export of the supported form: import"),
        ('import { two as other } from "./b.js";\n', "a.js imports two as other, which b.js does not export"),
        ("export default 1;\n", "a.js: not an import or export of the supported form: export default"),
        ("export let count = 1;\n", "a.js: not an import or export of the supported form: export let"),
    ],
)
def test_an_import_that_cannot_be_joined_is_refused(tmp_path: Path, source: str, problem: str) -> None:
    (tmp_path / "a.js").write_text(source)
    (tmp_path / "b.js").write_text("export const two = 2;\n")
    with pytest.raises(ValueError, match=r"\.js") as refused:
        join_modules(tmp_path)
    assert problem in str(refused.value)


def test_a_cycle_of_imports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { two } from "./b.js";\nexport const one = 1;\n')
    (tmp_path / "b.js").write_text('import { one } from "./a.js";\nexport const two = 2;\n')
    with pytest.raises(CycleError):
        join_modules(tmp_path)
