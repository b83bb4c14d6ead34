"""Joins the ES modules of a component of the page into one script.

Gradio runs ``js_on_load`` as the body of a function, where ``import`` is not allowed. The joined script needs no
further request and starts with fresh state each time that the component is mounted.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Final

_IMPORT: Final = re.compile(r'^import \{\s+([\w$][\w,\s$]*?),?\s+\} from "(\.\.?/[\w./]+)\.js";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def imports_of(name: str, source: str) -> dict[str, list[str]]:
    """Return the names that a module imports, by the name of the module that exports them.

    The name of a module is its path in the folder: ``lanes/table`` imports ``state/data`` as ``../state/data.js``.
    """
    return {
        _resolve(name, path): [word.strip() for word in names.split(",")] for names, path in _IMPORT.findall(source)
    }


def exports_of(source: str) -> list[str]:
    """Return the names that a module exports."""
    return _EXPORT.findall(source)


def load_modules(folder: Path, *, entry: str | None = None) -> dict[str, str]:
    """Return the sources of the modules of a folder by their names, each after the modules that it imports.

    With ``entry``, the name of a module, only this module and those that it needs are returned.

    Raises:
        ValueError: An import or export has another form, or its name does not exist; the imports form a cycle
            (``graphlib.CycleError``).
    """
    paths = sorted(folder.rglob("*.js"))
    sources = {path.relative_to(folder).with_suffix("").as_posix(): path.read_text(encoding="utf-8") for path in paths}
    for name, source in sources.items():
        if left := _LEFT.search(_EXPORT.sub("", _IMPORT.sub("", source))):
            raise ValueError(f"{name}.js: not an import or export of the supported form: {left.group()}")
        for module, imported in imports_of(name, source).items():
            if missing := set(imported) - set(exports_of(sources.get(module, ""))):
                raise ValueError(f"{name}.js imports {', '.join(sorted(missing))}, which {module}.js does not export")
    imports = {name: imports_of(name, source) for name, source in sources.items()}
    order = TopologicalSorter(imports).static_order()
    needed = set(sources) if entry is None else _find_needed(entry, imports)
    return {name: sources[name] for name in order if name in needed}


def _find_needed(entry: str, imports: Mapping[str, Iterable[str]]) -> set[str]:
    """Return a module with all modules that it imports, directly or not."""
    needed, waiting = set[str](), [entry]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += imports[name]
    return needed


def join_modules(folder: Path, *, entry: str | None = None) -> str:
    """Return the modules of ``load_modules`` as one script.

    Each module is a constant: ``$state$data`` holds the exports of ``state/data.js``.
    """
    return "".join(_wrap(name, source) for name, source in load_modules(folder, entry=entry).items())


def make_script(folder: Path, *, entry: str, settings: Mapping[str, Any] | None = None) -> str:
    """Return the ``js_on_load`` of a component: it calls ``mount`` of the module ``entry`` with the names of Gradio.

    ``settings`` are JSON values that never change, given to ``mount`` under this name. They are part of the script,
    because Gradio drops properties of a ``gr.HTML`` whose value is set before its tab is shown for the first time.
    """
    host = f"{{ element, trigger, props, server, watch, settings: {json.dumps(dict(settings or {}))} }}"
    return f"{join_modules(folder, entry=entry)}{_constant(entry)}.mount({host});\n"


def _wrap(name: str, source: str) -> str:
    """Return a module as a function that is called once: its scope is its own, as that of an ES module is."""
    imports = _IMPORT.sub(lambda found: f"const {{ {found[1]} }} = {_constant(_resolve(name, found[2]))};\n", source)
    body, exports = _EXPORT.sub("", imports), ", ".join(exports_of(source))
    return f'const {_constant(name)} = (() => {{\n"use strict";\n{body}\nreturn {{ {exports} }};\n}})();\n'


def _resolve(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _constant(name: str) -> str:
    return "$" + name.replace("/", "$")
