"""Options of a page behind a proxy: its path, and the proxies whose headers are trusted."""

import ipaddress
import os
import re
from collections.abc import Sequence
from typing import Final

ROOT_PATH_VARIABLE: Final = "GRADIO_ROOT_PATH"
"""Gradio's own name of the path, for a page that is started without ``--root-path``."""
TRUSTED_VARIABLE: Final = "FORWARDED_ALLOW_IPS"
"""The addresses whose ``X-Forwarded-For`` uvicorn accepts; its default is this machine."""
_ROOT_PATH: Final = re.compile(r"(/[\w.~@+%-]+)+", re.ASCII)


def read_root_path(option: str) -> str:
    """Return the path of the page below its host, without a slash at its end; empty for the host itself.

    ``GRADIO_ROOT_PATH`` is returned as it is: Gradio also takes the whole address of the page from it.

    Raises ``ValueError`` for a value that is no path.
    """
    if not option:
        return os.environ.get(ROOT_PATH_VARIABLE, "")
    path = option.rstrip("/")
    if path and (not _ROOT_PATH.fullmatch(path) or {".", ".."} & set(path.split("/"))):
        raise ValueError(f"--root-path must be a path such as /tools/stepscope, without the host; got {option[:200]!r}")
    return path


def trust_proxies(addresses: Sequence[str]) -> None:
    """Make the server take the client's address from ``X-Forwarded-For`` of these proxies, and of no one else.

    Raises ``ValueError`` for a value that is neither an address nor a network.
    """
    networks: list[str] = []
    for address in addresses:
        try:
            networks.append(str(ipaddress.ip_network(address, strict=False)))
        except ValueError as error:
            raise ValueError(
                f"--trusted-proxy must be an address or a network such as 10.0.0.0/8; got {address[:200]!r}"
            ) from error
    os.environ[TRUSTED_VARIABLE] = ",".join(networks)  # Gradio starts uvicorn, and passes no such option


def bypass_proxies(host: str) -> None:
    """Let Gradio, which calls the page once at its start, reach it without the ``HTTP_PROXY`` of the environment."""
    before = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    os.environ["no_proxy"] = ",".join(filter(None, (before, host, "localhost", "127.0.0.1", "::1")))
