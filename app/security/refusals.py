"""The response of a refused request, and the address that it is counted by."""

from ipaddress import IPv6Address, ip_network

from starlette.responses import JSONResponse
from starlette.types import Scope


def refuse(status: int, reason: str) -> JSONResponse:
    """Return a response with the reason as one sentence."""
    return JSONResponse({"detail": f"{reason[:1].upper()}{reason[1:]}."}, status)


def client_address(scope: Scope) -> str:
    """Return the address of the client, of IPv6 the network that one client has; empty if it is not known."""
    return find_network(scope["client"][0]) if scope.get("client") else ""


def find_network(address: str) -> str:
    """Return the first 64 bits of an IPv6 address, since one client has all addresses with them; others as they are."""
    try:
        found = IPv6Address(address.partition("%")[0])
    except ValueError:  # also what a proxy passes on that is no address
        return address
    return address if found.ipv4_mapped else str(ip_network((found.packed, 64), strict=False))
