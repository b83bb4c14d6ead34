"""The player's ES modules in a browser, imported without a server or the page."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, Route

from stepscope.app.player.component import STATIC

ORIGIN = "http://player.test"
MAKE_PLAYER = f"""
    const {{ Player }} = await import("{ORIGIN}/state/player.js");
    const makePlayer = (settings = {{}}) => new Player(
        {{ element: document.body, trigger() {{}}, settings }},
        {{ tick() {{}}, drawReview() {{}}, moveThreshold() {{}} }},
    );
"""
"""Script that defines ``makePlayer(settings)``: a player without its parts."""


@contextmanager
def open_modules(browser: Browser) -> Iterator[Page]:
    """Open an empty page of an origin that has only the modules."""

    def fulfil(route: Route) -> None:
        path = STATIC / route.request.url.removeprefix(f"{ORIGIN}/")
        if path.suffix == ".js" and not path.exists():
            route.fulfill(status=404)  # an exception here would leave the import waiting
        elif path.suffix == ".js":
            route.fulfill(body=path.read_text(encoding="utf-8"), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html>", content_type="text/html")

    page = browser.new_page()
    page.route(f"{ORIGIN}/**", fulfil)
    page.goto(f"{ORIGIN}/")
    yield page
    page.close()


def run(page: Page, module: str, names: str, body: str, argument: Any = None) -> Any:
    """Run the body of a function of ``arg`` with names that a module exports; return its result as JSON allows it."""
    return page.evaluate(
        f"async (arg) => {{ const {{ {names} }} = await import('{address(module)}'); {body} }}", argument
    )


def address(module: str) -> str:
    """Return the address of a module by its name."""
    (path,) = STATIC.rglob(f"{module}.js")
    return f"{ORIGIN}/{path.relative_to(STATIC).as_posix()}"
