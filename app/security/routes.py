"""The routes of Gradio that the page and programs use; all others are refused."""

import re
from typing import Final

API_PREFIX: Final = "/gradio_api/"
ALLOWED_ROUTES: Final = frozenset(
    {"app_id", "cancel", "component_server", "heartbeat", "info", "login_check", "queue", "reset", "startup-events"}
    | {"theme.css", "token", "upload", "upload_progress", "user"}
)
"""Gradio routes that the page uses, in addition to files. Routes that bypass the event queue are left out."""
ENDPOINTS: Final = ("run", "score", "open", "export")
"""Named endpoints for programs; ``app.endpoints`` registers them."""
_CALL: Final = re.compile(rf"call/(v2/)?({'|'.join(ENDPOINTS)})(/\w+)?")
"""Route of an endpoint for programs without a Gradio client; it goes through the event queue."""


def is_known_route(path: str) -> bool:
    """Return whether a path is no route of Gradio's API, or one that is used."""
    _, _, route = path.partition(API_PREFIX)
    name = route.partition("/")[0]
    return not route or route.startswith("file=") or name in ALLOWED_ROUTES or bool(_CALL.fullmatch(route))
