"""The player's ES modules: each import resolves without cycles, and the joiner refuses other forms."""

import tomllib
from glob import glob
from graphlib import CycleError
from pathlib import Path

import pytest

from stepscope.app.web.component import STATIC
from stepscope.app.web.modules import exports_of, imports_of, join_modules, load_modules, make_script
from tests.support.paths import ROOT


def test_the_imports_of_the_player_resolve_and_have_no_cycle() -> None:
    modules = load_modules(STATIC)
    assert list(load_modules(STATIC, entry="main"))[-1] == "main"
    assert "mount" in exports_of(modules["main"])
    before: set[str] = set()
    for name, source in modules.items():
        assert before.issuperset(imports_of(name, source)), name
        before.add(name)


def test_the_player_imports_what_is_beside_it_alone() -> None:
    source = (STATIC / "state" / "player.js").read_text(encoding="utf-8")
    assert all(name.startswith("state/") for name in imports_of("state/player", source))


def test_each_module_has_at_most_410_lines() -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in STATIC.rglob("*.*")}
    assert max(lines.values()) <= 410, lines


def test_each_folder_has_about_ten_files() -> None:
    folders = [STATIC, *(path for path in STATIC.rglob("*") if path.is_dir())]
    files = {folder.name: sum(path.is_file() for path in folder.iterdir()) for folder in folders}
    assert max(files.values()) <= 12, files


def test_a_wheel_has_all_files() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["stepscope.app.web"]
    packed = {path for pattern in patterns for path in glob(pattern, root_dir=STATIC.parent, recursive=True)}
    assert {path.relative_to(STATIC.parent).as_posix() for path in STATIC.rglob("*.*")} <= packed


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


def test_imports_between_folders_are_resolved(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    (tmp_path / "one" / "a.js").write_text('import { two } from "../two/a.js";\n')
    (tmp_path / "two" / "a.js").write_text("export const two = 2;\n")
    assert list(load_modules(tmp_path)) == ["two/a", "one/a"]
    assert "const { two } = $two$a;\n" in join_modules(tmp_path)
    (tmp_path / "one" / "a.js").write_text('import { two } from "./b.js";\n')
    with pytest.raises(ValueError, match=r"one/a\.js imports two, which one/b\.js does not export"):
        load_modules(tmp_path)


def test_a_script_has_the_modules_that_its_entry_needs_and_mounts_it(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { two } from "./b.js";\nexport function mount() {}\n')
    (tmp_path / "b.js").write_text("export const two = 2;\n")
    (tmp_path / "c.js").write_text('import { two } from "./b.js";\nexport const three = two + 1;\n')
    assert list(load_modules(tmp_path, entry="a")) == ["b", "a"]
    script = make_script(tmp_path, entry="a", settings={"hint": 'a "b"', "can_run": False})
    assert "$c" not in script
    assert script.endswith(
        '$a.mount({ element, trigger, props, server, watch, settings: {"hint": "a \\"b\\"", "can_run": false} });\n'
    )


def test_a_cycle_of_imports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { two } from "./b.js";\nexport const one = 1;\n')
    (tmp_path / "b.js").write_text('import { one } from "./a.js";\nexport const two = 2;\n')
    with pytest.raises(CycleError):
        join_modules(tmp_path)
