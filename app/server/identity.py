"""Identity of a request: the ``--auth`` user, the Hugging Face account on a Space, a typed name, or the address."""

import math
import os
import time
from collections import OrderedDict
from contextvars import ContextVar
from ipaddress import IPv6Address, ip_network
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Scope

from stepscope.app.review_store.actions import check_reviewer
from stepscope.engine.io.files import INVISIBLE, EncodingError, read_text


def signed_in(request: Any) -> str | None:
    """Return the name of the signed-in user; None without a login.

    Gradio wraps the request of an event (``gr.Request``), and passes that of a server function unwrapped.
    """
    raw = getattr(request, "request", None) or request
    login = raw.scope.get("session", {}).get("oauth_info") or {}
    name = login.get("userinfo", {}).get("preferred_username")
    if name and login.get("expires_at", math.inf) > time.time():
        return str(name)
    page = raw.app
    cookies = (f"access-token-{page.cookie_id}", f"access-token-unsecure-{page.cookie_id}")
    return next((page.tokens[token] for token in map(raw.cookies.get, cookies) if token in page.tokens), None)


current_user: ContextVar[str] = ContextVar("user", default="")
"""The user, or the address, of the request or event that is handled."""


current_visitor: ContextVar[str] = ContextVar("visitor", default="nobody")
"""The signed-in user, or the window, whose event is handled."""


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


def name_user(scope: Scope) -> str:
    """Return the user of a request, or its address without one."""
    has_users = getattr(scope.get("app"), "auth", None) is not None
    return (signed_in(Request(scope)) if has_users else None) or client_address(scope)


def lacks_login(scope: Scope) -> bool:
    """Return whether the page has ``--auth`` users, and a request comes from none of them."""
    page = scope.get("app")
    return getattr(page, "auth", None) is not None and signed_in(Request(scope)) is None


_MAX_SESSIONS: Final = 10_000
_session_users = OrderedDict[str, str]()
"""The signed-in user of each Gradio session, by its name; the latest ones."""


def claim_session(session: str, user: str) -> bool:
    """Bind a session to the signed-in user who uses it first; return whether it is that user's."""
    owner = _session_users.setdefault(session, user)
    _session_users.move_to_end(session)
    if len(_session_users) > _MAX_SESSIONS:
        _session_users.popitem(last=False)
    return owner == user


_upload_users: Final[dict[str, set[str]]] = {}
"""The users of each upload, by the name of its folder, which is its digest."""


def share_upload(folder: str, user: str) -> None:
    """Let a user read an upload: its uploader, or one who has opened a link to it."""
    _upload_users.setdefault(folder, set()).add(user)


def is_foreign(scope: Scope) -> bool:
    """Return whether a request reads the events of a session, or an upload, of other signed-in users."""
    if scope["type"] != "http":
        return False
    request, parts = Request({"query_string": b"", **scope}), Path(scope["path"]).parts
    has_users = getattr(scope.get("app"), "auth", None) is not None
    owners = [_upload_users[part] for part in parts if has_users and part in _upload_users]
    session = request.query_params.get("session_hash", "")
    if parts[-2:] == ("queue", "data") and session in _session_users:
        owners.append({_session_users[session]})
    return any(signed_in(request) not in users for users in owners)


def needs_login() -> bool:
    """Return whether this is a Space with OAuth, where typed names are not accepted."""
    return bool(os.environ.get("OAUTH_CLIENT_ID"))


def typed_name(typed: str | None) -> str:
    """Return the stripped typed name; an empty one where a login is required."""
    return "" if needs_login() else (typed or "").strip()


def reviewer_of(request: Any, typed: str) -> str:
    """Return the reviewer of an action: the signed-in user, or the typed name where no login is required.

    Raises ``ValueError`` for a name that cannot be displayed.
    """
    return check_reviewer(signed_in(request) or typed_name(typed))


def read_users(path: Path) -> list[tuple[str, str]]:
    """Return the users of an ``--auth`` file of ``name:password`` lines. Raises ``ValueError`` with the line number.

    Blank lines are skipped, and invisible characters at the ends of a line. Messages never quote the file, since it
    holds passwords.
    """
    try:
        lines = read_text(path).split("\n")
    except EncodingError as error:
        raise ValueError(f"{path} cannot be read: {error}, with a line name:password for each reviewer") from None
    users: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        line = line.rstrip("\r").strip(INVISIBLE)
        hidden = next((character for character in line if character in INVISIBLE), None)
        if hidden is not None:
            raise ValueError(f"{path}, line {number} has the invisible character U+{ord(hidden):04X}; remove it")
        name, _, password = line.partition(":")
        if not name.strip() and not password:
            continue
        if not password or not _is_name(name):
            raise ValueError(f"{path}, line {number} is not of the form name:password; correct or remove it")
        if name in users:
            raise ValueError(f"{path}, line {number} repeats a name; remove one of the lines")
        users[name] = password
    if not users:
        raise ValueError(f"{path} has no users; write a line name:password for each reviewer")
    return list(users.items())


def _is_name(name: str) -> bool:
    try:
        return check_reviewer(name) == name
    except ValueError:
        return False
