"""Joins the ES modules of the player into one script.

Gradio runs ``js_on_load`` as the body of a function, where ``import`` is not allowed. The joined script needs no
further request and starts with fresh state each time that the component is mounted.
"""

import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

_IMPORT: Final = re.compile(r'^import \{ ([\w, $]+) \} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def imports_of(source: str) -> dict[str, list[str]]:
    """Return the names that a module imports, by the name of the module that exports them."""
    return {module: names.split(", ") for names, module in _IMPORT.findall(source)}


def exports_of(source: str) -> list[str]:
    """Return the names that a module exports."""
    return _EXPORT.findall(source)


def load_modules(folder: Path) -> dict[str, str]:
    """Return the sources of the modules ``*.js`` of a folder by their names, each after the modules that it imports.

    Raises:
        ValueError: An import or export has another form, or its name does not exist; the imports form a cycle
            (``graphlib.CycleError``).
    """
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.js"))}
    for name, source in sources.items():
        if left := _LEFT.search(_EXPORT.sub("", _IMPORT.sub("", source))):
            raise ValueError(f"{name}.js: not an import or export of the supported form: {left.group()}")
        for module, imported in imports_of(source).items():
            if missing := set(imported) - set(exports_of(sources.get(module, ""))):
                raise ValueError(f"{name}.js imports {', '.join(sorted(missing))}, which {module}.js does not export")
    order = TopologicalSorter({name: imports_of(source) for name, source in sources.items()}).static_order()
    return {name: sources[name] for name in order}


def join_modules(folder: Path) -> str:
    """Return one script in which each module of a folder is a constant: ``$data`` holds the exports of ``data.js``."""
    return "".join(_wrap(name, source) for name, source in load_modules(folder).items())


def _wrap(name: str, source: str) -> str:
    """Return a module as a function that is called once: its scope is its own, as that of an ES module is."""
    body = _EXPORT.sub("", _IMPORT.sub(r"const { \1 } = $\2;\n", source))
    return f'const ${name} = (() => {{\n"use strict";\n{body}\nreturn {{ {", ".join(exports_of(source))} }};\n}})();\n'
