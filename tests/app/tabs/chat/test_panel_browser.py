"""The panel *Ask* by keyboard alone: ask, ask again, edit, and pass a question to the reference."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from stepscope.engine.cli.options import BUNDLED
from tests.app.test_accessibility_browser import violations
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, open_page, rows, run, serve, wait_for_status

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]
ANSWERED = "^(Answered|Stopped) at"


@pytest.fixture(scope="module")
def address(demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    runs = tmp_path_factory.mktemp("runs")
    with serve(data=demo_manifest, checkpoint=BUNDLED, runs=runs) as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    yield page
    page.close()


def ask(page: Page, question: str) -> str:
    page.keyboard.press("/")
    page.keyboard.type(question)
    page.keyboard.press("Enter")
    page.wait_for_function(
        "(text) => document.querySelector('#asked').innerText.includes(text)", arg=question, timeout=60_000
    )
    return wait_for_status(page, ANSWERED, status="#ask_status .status-line")


def press(page: Page, part: str) -> None:
    page.wait_for_function("(part) => document.querySelector(part)?.disabled === false", arg=part)
    page.locator(part).focus()
    page.keyboard.press("Enter")


def test_a_question_is_asked_and_passed_to_the_reference_by_keyboard(page: Page, address: str) -> None:
    open_page(page, address)
    run(page)
    before = rows(page)
    page.locator(".ss-canvas").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    time_s = inspect(page)["time"]
    assert "0 of" in ask(page, "What is next?")
    page.locator(".ss-canvas").focus()
    assert " 0 of" not in ask(page, "How many steps are left?")
    page.evaluate("document.querySelector('#ask_status .status-line').textContent = ''")  # of the answer before
    press(page, "#answer_again")
    wait_for_status(page, "^Answered at", status="#ask_status .status-line")
    assert page.locator("#asked .message-row").count() == 6  # with the times
    page.keyboard.press("Home")
    page.locator("#asked .ask-time").first.click()
    page.wait_for_function("(time) => Math.abs(document.querySelector('.ss').inspect().time - time) < 0.3", arg=time_s)
    assert rows(page) == before
    assert violations(page) == []
    press(page, "#promote")
    page.wait_for_function("document.querySelector('.ss-addedText').value === 'How many steps are left?'")
    assert page.locator(".ss-addedRole").input_value() == "user"
    assert inspect(page)["time"] == pytest.approx(time_s, abs=0.5)
    press(page, "#promote_answer")
    page.wait_for_function("document.querySelector('.ss-addedRole').value === 'assistant'")
    assert page.locator(".ss-addedText").input_value() in page.locator("#asked").inner_text()
    press(page, "#promote_run")
    page.wait_for_function("/How many steps are left\\?$/.test(document.querySelector('#user_turns textarea').value)")
    press(page, "#promote_correction")
    page.wait_for_function("document.querySelector('.ss').inspect().said.startsWith('Not saved yet. Type your name')")
    page.keyboard.type("ann")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.ss').inspect().said.startsWith('Corrected the reference turn')")
    press(page, "#new_chat")
    page.wait_for_function("!document.querySelector('#asked').innerText.includes('What is next?\\n')")
