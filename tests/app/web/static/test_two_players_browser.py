"""Two players on one page, whose modules they share, are two objects."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from stepscope.app.web.component import STATIC
from stepscope.app.web.payload import pack_run
from tests.app.web.static import test_script_data_browser as scripts
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import run
from tests.support.reviews.played import judge, make_run

pytestmark = NEEDS_CHROMIUM
page = scripts.page
MOUNT = """
    const { thresholds } = JSON.parse(arg.pack), settings = { verdicts: [], plotly_url: "none.js", thresholds };
    const players = ["", "a second player"].map((hint) => {
        const element = document.body.appendChild(document.createElement("div"));
        element.innerHTML = arg.markup;
        mount({
            element, settings: { ...settings, hint, video_id: "none" }, props: { value: arg.pack },
            trigger() {}, server: {}, watch() {},
        });
        return element.querySelector(".ss");
    });
"""


def test_what_is_done_in_one_player_stays_in_it(page: Page, tmp_path: Path) -> None:
    body = """
        const [first, second] = players, before = second.inspect();
        document.dispatchEvent(new CustomEvent("stepscope:threshold", { detail: { speak: 0.9 } }));
        first.querySelector("[data-tab=curves]").click();
        first.querySelectorAll(".ss-row")[2].click();
        first.querySelector("[data-do=loop]").click();
        const seen = (player) => {
            const { thresholds, isPreview, tab, time, isLooping, said } = player.inspect();
            return { speak: thresholds.speak, isPreview, tab, time, isLooping, said };
        };
        return [seen(first), seen(second), first.unpacked() === second.unpacked(), before.said];"""
    made = make_run(tmp_path)
    argument = {"pack": pack_run(made, judge(made)), "markup": (STATIC / "player.html").read_text(encoding="utf-8")}
    found: list[Any] = run(page, "main", "mount", MOUNT + body, argument)
    first, second, is_shared, said = found
    assert (first["speak"], first["isPreview"], first["tab"], first["isLooping"]) == (0.9, True, "curves", True)
    assert first["time"] > 0
    expected = {"isPreview": False, "tab": "rows", "time": 0, "isLooping": False, "said": said}
    assert {name: second[name] for name in expected} == expected
    assert second["speak"] != 0.9
    assert not is_shared
