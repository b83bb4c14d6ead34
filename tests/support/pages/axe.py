"""The rules of WCAG 2.1 AA by axe-core."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_OPTIONS = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "resultTypes": ["violations"],  # of elements that pass, axe then describes only one
}


def find_violations(page: Page, part: str | None = None) -> list[str]:
    """Return one line per violation on the page, or in the part of it that a selector names."""
    found: list[dict[str, Any]] = Axe().run(page, context=part, options=_OPTIONS).response["violations"]
    return [f"{rule['id']}: {node['target']}: {node['failureSummary']}" for rule in found for node in rule["nodes"]]
