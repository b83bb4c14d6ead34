"""The response of a refused request, and the address that it is counted by."""

from starlette.responses import JSONResponse
from starlette.types import Scope


def refuse(status: int, reason: str) -> JSONResponse:
    """Return a response with the reason as one sentence."""
    return JSONResponse({"detail": f"{reason[:1].upper()}{reason[1:]}."}, status)


def client_address(scope: Scope) -> str:
    """Return the address of the client; empty if it is not known."""
    return scope["client"][0] if scope.get("client") else ""
