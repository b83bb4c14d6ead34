import re

import pytest
from playwright.sync_api import Browser, Page

from tests.conftest import Uploads
from tests.support.pages.browser import NEEDS_CHROMIUM, enter_task, inspect, open_page, run, upload, wait_for_status

pytestmark = NEEDS_CHROMIUM


def wait_for_address(page: Page, pattern: str) -> None:
    page.wait_for_function("(pattern) => RegExp(pattern).test(location.search)", arg=pattern)


@pytest.mark.slow
def test_a_reload_and_back_keep_video_run_second_and_tabs(browser: Browser, tiny_page: str, uploads: Uploads) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    open_page(page, tiny_page)
    wait_for_address(page, "^.video=truck-1$")
    page.click("#chosen input")
    page.get_by_role("option", name=re.compile("truck-2")).click()
    wait_for_address(page, "video=truck-2")
    run(page)
    page.evaluate("document.querySelector('#video video').currentTime = 2.5")
    page.click("[data-tab=curves]")
    wait_for_address(page, "video=truck-2&run=[0-9a-f]{12}&speak=0.5&update=0.5&context=refresh&t=2.5&beside=curves")
    page.reload()
    wait_for_status(page, "^Done")
    page.wait_for_function("Math.abs(document.querySelector('.ss').inspect().time - 2.5) < 0.05")
    assert (inspect(page)["video"], inspect(page)["tab"]) == ("truck-2", "curves")
    upload(page, uploads.foreign, "press Run")
    wait_for_address(page, "upload=foreign")
    enter_task(page)
    page.fill("#goal textarea", "mine")
    run(page)
    wait_for_address(page, "upload=foreign.mp4.*&run=")
    page.get_by_role("tab", name="Reviews").click()
    wait_for_address(page, "tab=reviews")
    page.set_viewport_size({"width": 390, "height": 844})  # the tab is in a menu at first
    page.reload()
    page.wait_for_selector("#reviewed_split", state="visible")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("tab", name="Player").click()
    wait_for_status(page, "^foreign.mp4, 0:02, the earlier run")
    assert page.input_value("#goal textarea") == "mine"
    wait_for_address(page, "^(?!.*tab=).*upload=foreign")
    page.go_back()
    page.wait_for_selector("#reviewed_split", state="visible")
    page.go_back()
    page.wait_for_selector("#video", state="visible")
    is_drawn = "document.querySelector('#video video').dispatchEvent(new Event('seeked'))"  # which writes the address
    page.evaluate(f"addEventListener('popstate', () => {is_drawn})")
    page.go_back()
    wait_for_status(page, "^Done")
    assert inspect(page)["video"] == "truck-2"
    page.go_forward()
    wait_for_status(page, "^foreign.mp4, 0:02")
    page.close()


@pytest.mark.slow
def test_a_reload_keeps_thresholds_and_task_of_a_video_without_a_run(browser: Browser, tiny_page: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    open_page(page, tiny_page)
    page.fill("#speak_threshold input[type=number]", "0.42")
    page.keyboard.press("Enter")
    page.click("#chosen input")
    page.get_by_role("option", name=re.compile("truck-2")).click()
    wait_for_address(page, "^.video=truck-2&speak=0.42$")
    page.fill("#update_threshold input[type=number]", "0.6")
    page.keyboard.press("Enter")
    wait_for_address(page, "^.video=truck-2&speak=0.42&update=0.6$")
    page.fill("#update_threshold input[type=number]", "0.5")
    page.keyboard.press("Enter")
    wait_for_address(page, "^.video=truck-2&speak=0.42&update=0.5$")
    page.locator("#goal textarea").press_sequentially(" again")
    page.reload()
    wait_for_status(page, "^truck-2, .*Press Run")
    page.wait_for_function("document.querySelector('#speak_threshold input[type=number]').value === '0.42'")
    page.wait_for_function("document.querySelector('#goal textarea').value.endsWith(' again')")
    assert page.input_value("#update_threshold input[type=number]") == "0.5"
    run(page)
    assert inspect(page)["runThresholds"] == {"speak": 0.42, "update": 0.5}
    page.close()
