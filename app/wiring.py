"""How events and lines of all tabs are wired."""

from typing import Any, Final

AT_ONCE: Final[dict[str, Any]] = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
"""For events that never wait for another's end."""
MODEL: Final[dict[str, Any]] = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
"""For events that need the model: one at a time, the others wait in a queue."""
LINE: Final[dict[str, Any]] = {
    "show_label": False,
    "container": False,
    "interactive": False,
    "lines": 1,
    "max_lines": 6,
}
"""A line that says something; names and errors in it stay text."""
