"""Tests and times the engine on a GPU by one command: ``python -m benchmarks.gpu``.

It runs from a checkout, without installation: the engine, torch, transformers, numpy, safetensors and
pydantic are enough.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def _map_checkout(root: Path) -> None:
    """Import ``stepscope`` from the folders of a checkout, as ``setup.py`` maps them."""
    folder = root / "stepscope"
    spec = spec_from_file_location(
        "stepscope", folder / "__init__.py", submodule_search_locations=[str(folder), str(root)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["stepscope"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["stepscope"])


try:
    import stepscope  # noqa: F401 - whether it is installed
except ModuleNotFoundError:
    _map_checkout(Path(__file__).parents[2])
