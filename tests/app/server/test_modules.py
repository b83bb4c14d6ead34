"""The ES modules of the page: their imports, and how they are served."""

import re
import tomllib
from glob import glob
from graphlib import TopologicalSorter
from pathlib import Path

from starlette.applications import Starlette
from starlette.testclient import TestClient

from stepscope.app.player.component import STATIC
from stepscope.app.server.routes import Modules
from tests.support.paths import ROOT

IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?:async )?(?:function\*?|class|const) (\w+)", re.MULTILINE)


def imports_of(path: Path) -> dict[Path, set[str]]:
    """Return the names that a module imports, by the module that exports them."""
    found = IMPORT.findall(path.read_text(encoding="utf-8"))
    return {
        (path.parent / module).resolve(): {name.strip() for name in names.split(",")} - {""} for names, module in found
    }


def test_the_imports_of_the_player_resolve_and_have_no_cycle() -> None:
    imports = {path.resolve(): imports_of(path) for path in STATIC.rglob("*.js")}
    assert len(list(TopologicalSorter(imports).static_order())) == len(imports)
    for path, found in imports.items():
        for module, names in found.items():
            assert names <= set(EXPORT.findall(module.read_text(encoding="utf-8"))), (path, module)


def test_events_call_the_functions_of_the_page_module() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py"))
    called = set(re.findall(r'run_script\([^"\n]*"(\w+)"|\bscript"?[=:] ?"(\w+)"', sources))
    exported = set(EXPORT.findall((STATIC / "page.js").read_text(encoding="utf-8")))
    assert len(called) > 10
    assert {one or other for one, other in called} <= exported
    assert exported <= set(re.findall(r'"(\w+)"', sources))


def test_no_module_has_state_of_its_own() -> None:
    """Two players on a page share their modules."""
    found = {
        path.name: re.findall(r"^let \w+.*", path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in STATIC.rglob("*.js")
    }
    assert {name: lets for name, lets in found.items() if lets} == {}


def test_a_wheel_has_all_files() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["stepscope.app.player"]
    packed = {path for pattern in patterns for path in glob(pattern, root_dir=STATIC.parent, recursive=True)}
    assert {path.relative_to(STATIC.parent).as_posix() for path in STATIC.rglob("*.*")} <= packed


def write_modules(folder: Path, two: int) -> Modules:
    (folder / "one").mkdir(exist_ok=True)
    (folder / "one" / "a.js").write_text('import { two } from "../b.js";\nexport function mount() {}\n')
    (folder / "b.js").write_text(f"export const two = {two};\n")
    (folder / "style.css").write_text("p {}\n")
    return Modules.read(folder)


def test_a_server_has_the_modules_and_nothing_else(tmp_path: Path) -> None:
    modules = write_modules(tmp_path, 2)
    client = TestClient(Starlette(routes=[modules.make_route()]))
    answer = client.get(f"/{modules.address}/one/a.js")
    assert answer.content == (tmp_path / "one" / "a.js").read_bytes()
    assert answer.headers["content-encoding"] == "gzip"
    plain = client.get(f"/{modules.address}/b.js", headers={"accept-encoding": "identity"})
    assert (plain.content, "content-encoding" in plain.headers) == (b"export const two = 2;\n", False)
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    for path in ("style.css", "c.js", "%2e%2e/secret"):
        assert client.get(f"/{modules.address}/{path}").status_code == 404, path
    assert client.get("/stepscope/another/b.js").status_code == 404
    assert modules.make_preloads().splitlines() == [
        f'<link rel="modulepreload" href="{modules.address}/{path}">' for path in ("b.js", "one/a.js")
    ]
