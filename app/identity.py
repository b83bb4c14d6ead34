"""Who asks: the user of ``--auth``, the Hugging Face account on a Space, or whoever a typed name says."""

import math
import os
import time
from pathlib import Path
from typing import Any

from app.reviews.actions import check_reviewer


def signed_in(request: Any) -> str | None:
    """Return the name that somebody signed in with; None on a page that asks for none.

    Args:
        request: That of an event (``gr.Request``) or of a server function, which Gradio hands over as it came in.
    """
    raw = getattr(request, "request", None) or request
    login = raw.scope.get("session", {}).get("oauth_info") or {}
    name = login.get("userinfo", {}).get("preferred_username")
    if name and login.get("expires_at", math.inf) > time.time():
        return str(name)
    page = raw.app
    cookies = (f"access-token-{page.cookie_id}", f"access-token-unsecure-{page.cookie_id}")
    return next((page.tokens[token] for token in map(raw.cookies.get, cookies) if token in page.tokens), None)


def needs_login() -> bool:
    """Whether this is a Space with OAuth: there a typed name is nobody's."""
    return bool(os.environ.get("OAUTH_CLIENT_ID"))


def typed_name(typed: str | None) -> str:
    """Return a typed name where it counts; else an empty one."""
    return "" if needs_login() else (typed or "").strip()


def reviewer_of(request: Any, typed: str) -> str:
    """Return in whose name an action is kept: who signed in, or the typed name where nobody has to sign in.

    Raises ``ValueError`` for a name that cannot be shown.
    """
    return check_reviewer(signed_in(request) or typed_name(typed))


def read_users(path: Path) -> list[tuple[str, str]]:
    """Read who may come in, from lines of ``name:password``. Raises ``ValueError`` naming the line that is wrong.

    Blank lines are passed over. No message holds what stands in the file: it may be a password.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8; write a line name:password for each reviewer") from None
    users: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        name, _, password = line.rstrip("\r").partition(":")
        if not name.strip() and not password:
            continue
        if not password or not _is_name(name):
            raise ValueError(f"{path}, line {number} is not written name:password; mend or remove it")
        if name in users:
            raise ValueError(f"{path}, line {number} names somebody for a second time; remove one of the lines")
        users[name] = password
    if not users:
        raise ValueError(f"{path} names nobody; write a line name:password for each reviewer")
    return list(users.items())


def _is_name(name: str) -> bool:
    try:
        return check_reviewer(name) == name
    except ValueError:
        return False
