"""The owner of a question, whose kept caches it may reuse."""

from typing import Any

from starlette.requests import HTTPConnection

from stepscope.app.security.identity import signed_in


def owner_of_page(request: Any) -> str:
    """Return the owner of a question on the page: the signed-in user; without a login, the browser window."""
    user = signed_in(request)
    return f"window {request.session_hash}" if user is None else f"user {user}"


def owner_of_program(connection: HTTPConnection) -> str:
    """Return the owner of a program's question: the signed-in user; without a login, the address of the client."""
    user = signed_in(connection)
    address = connection.client.host if connection.client is not None else ""
    return f"address {address}" if user is None else f"user {user}"
