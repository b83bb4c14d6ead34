"""Imports without garbage collection."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from stepscope.engine.imports import collection_paused, import_uncollected


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.parametrize("was_enabled", [True, False])
def test_collection_is_paused_and_then_as_before(was_enabled: bool) -> None:
    try:
        (gc.enable if was_enabled else gc.disable)()
        with pytest.raises(ValueError, match="inside"), collection_paused():  # noqa: PT012
            assert not gc.isenabled()
            raise ValueError("inside")
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()


def test_imported_objects_are_exempt_from_later_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    before = gc.get_freeze_count()
    assert import_uncollected("colorsys").__name__ == "colorsys"
    assert gc.get_freeze_count() > before
    assert gc.isenabled()
    gc.unfreeze()
    import_uncollected("colorsys")
    assert gc.get_freeze_count() == 0  # of a module that was there, nothing is kept
    with pytest.raises(ModuleNotFoundError):
        import_uncollected("no_such_module")
    assert gc.isenabled()


@pytest.mark.slow
def test_no_collection_runs_while_a_command_imports_its_libraries() -> None:
    program = """
import gc, sys
collected = []
gc.callbacks.append(lambda phase, info: collected.append(len(sys.modules)))
from stepscope.engine.imports import import_uncollected
del collected[:]
import_uncollected("stepscope.eval.runs.pools.worker")
assert "torch" in sys.modules and "transformers" in sys.modules
sys.exit(len(collected))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
