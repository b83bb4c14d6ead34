"""The pen that writes SVG: it draws what a canvas draws."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import address, open_modules, run

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with open_modules(browser) as page:
        yield page


def test_a_drawing_is_that_of_a_canvas(page: Page) -> None:
    body = """
        const shapes = await import(arg), width = 200, height = 120;
        function scene(pen) {
            pen.font = "12px sans-serif"; pen.textBaseline = "middle";
            pen.fillStyle = "rgba(125, 132, 142, 0.25)"; pen.fillRect(5, 5, 60, 30);
            pen.globalAlpha = 0.5; pen.fillStyle = "#0b785c"; pen.fillRect(20, 20, 60, 30); pen.globalAlpha = 1;
            pen.strokeStyle = "#c2331f"; pen.lineWidth = 2; pen.setLineDash([4, 2]); pen.strokeRect(90, 5, 40, 30);
            pen.setLineDash([]);
            pen.save(); pen.beginPath(); pen.rect(100, 50, 30, 30); pen.clip();
            pen.fillStyle = "#1c6fab"; pen.fillRect(90, 40, 25, 60);
            pen.save(); pen.restore(); pen.restore();
            pen.fillRect(140, 40, 10, 60); // the colour of before, and not clipped
            shapes.dot(pen, 20, 80); shapes.cross(pen, 40, 80);
            shapes.diamond(pen, 60, 80); shapes.triangle(pen, 80, 80);
            shapes.line(pen, 5, 100, 190, 110);
            pen.fillStyle = shapes.createHatching(pen, "#27272a"); pen.fillRect(160, 10, 36, 24);
            pen.fillStyle = "#27272a";
            for (const [align, y] of [["left", 60], ["center", 75], ["right", 90]]) {
                pen.textAlign = align; pen.fillText("Wg & <b>", 165, y);
            }
        }
        const read = (canvas) => { // the mean opacity of blocks of 4 by 4 pixels
            const small = Object.assign(document.createElement("canvas"), { width: width / 4, height: height / 4 });
            const pen = small.getContext("2d");
            pen.imageSmoothingQuality = "high";
            pen.drawImage(canvas, 0, 0, small.width, small.height);
            return pen.getImageData(0, 0, small.width, small.height).data.filter((_, at) => at % 4 === 3);
        };
        const [drawn, written] = [0, 1].map(() => Object.assign(document.createElement("canvas"), { width, height }));
        scene(drawn.getContext("2d"));
        const pen = new SvgPen(); scene(pen);
        const head = 'xmlns="http://www.w3.org/2000/svg" width="200" height="120" font-family="sans-serif"';
        const svg = `<svg ${head}>${pen}</svg>`;
        const image = new Image(); image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`; await image.decode();
        written.getContext("2d").drawImage(image, 0, 0);
        const [a, b] = [read(drawn), read(written)];
        return [Math.max(...a.map((value, at) => Math.abs(value - b[at]))), a.filter((value) => value > 64).length];
    """
    apart, inked = run(page, "svg_pen", "SvgPen", body, address("canvas"))
    assert inked > 300
    assert apart < 60, "of 255: edges of letters may be half a pixel apart"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("in the end", 300, ["in the end"]),
        ("in the end", 40, ["in the", "end"]),
        ("one two three four", 30, ["one", "two", "thre…"]),
        ("incomprehensible words", 40, ["incom…"]),  # a word that is cut ends the text
        ("", 40, []),
        ("abc", 1, []),
    ],
)
def test_a_text_is_broken_at_spaces_and_cut(page: Page, text: str, width: int, lines: list[str]) -> None:
    body = """
        const pen = { measureText: (text) => ({ width: 6 * text.length }) };
        return wrapText(pen, arg[0], arg[1], 3);"""
    assert run(page, "canvas", "wrapText", body, [text, width]) == lines
