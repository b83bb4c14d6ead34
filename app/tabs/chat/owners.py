"""The owner of a question, whose kept caches it may reuse."""

from typing import Any
from uuid import uuid4

from starlette.requests import HTTPConnection

from stepscope.app.security.identity import signed_in


def owner_of_page(request: Any) -> str:
    """Return the owner of a question on the page: the signed-in user; without a login, the browser window."""
    user = signed_in(request)
    return f"window {request.session_hash}" if user is None else f"user {user}"


def owner_of_program(connection: HTTPConnection) -> str:
    """Return the owner of a program's question: the signed-in user; without a login, the connection.

    An address is no owner: behind a proxy, all clients have that of the proxy.
    """
    user = signed_in(connection)
    return f"connection {uuid4().hex}" if user is None else f"user {user}"
