"""The tools of agents and programs: one table, served by MCP over stdio and on the page, and used from Python."""

from typing import TYPE_CHECKING

from stepscope.engine.imports import import_on_use

if TYPE_CHECKING:
    from stepscope.app.agents.tools import open_runs as open_runs
else:
    _MODULES = {"open_runs": "stepscope.app.agents.tools"}
    __all__ = list(_MODULES)
    __getattr__, __dir__ = import_on_use(globals(), _MODULES)
