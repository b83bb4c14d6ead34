"""Why a run failed, by experiment: which failures are roots, what follows from each, and what would prevent it."""

from typing import TYPE_CHECKING

from stepscope.engine.imports import import_on_use

if TYPE_CHECKING:
    from stepscope.eval.diagnosis.recordings import explain as explain
else:
    _MODULES = {"explain": "stepscope.eval.diagnosis.recordings"}
    __all__ = list(_MODULES)
    __getattr__, __dir__ = import_on_use(globals(), _MODULES)
