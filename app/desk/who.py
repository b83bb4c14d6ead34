"""Who asks: the user of ``--auth``, the Hugging Face account on a Space, or whoever a typed name says."""

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
    if name:
        return str(name)
    page = raw.app
    cookies = (f"access-token-{page.cookie_id}", f"access-token-unsecure-{page.cookie_id}")
    return next((page.tokens[token] for token in map(raw.cookies.get, cookies) if token in page.tokens), None)


def reviewer_of(request: Any, typed: str) -> str:
    """Return in whose name an action is kept: who signed in, or the typed name.

    Raises ``ValueError`` for a name that cannot be shown.
    """
    return check_reviewer(signed_in(request) or typed)
