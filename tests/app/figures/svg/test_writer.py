"""The SVG writer, with figures whose places are worked out by hand: an area of 100 x 100 pixels from (50, 20)."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
import pytest
from lxml import etree

from app.figures.svg.markers import SYMBOLS
from app.figures.svg.writer import to_svg
from tests.support.reviews.played import HOSTILE

_NAMES = {"s": "http://www.w3.org/2000/svg"}
AXES = {"xaxis": {"range": [0, 10]}, "yaxis": {"range": [0, 10]}}


def draw(traces: Sequence[Any], **layout: Any) -> etree._Element:
    margin = {"l": 50, "r": 50, "t": 20, "b": 30}
    figure = go.Figure(list(traces), {"width": 200, "height": 150, "margin": margin, "template": None, **layout})
    return etree.fromstring(to_svg(figure).encode())


def find(svg: etree._Element, path: str) -> list[etree._Element]:
    found: list[etree._Element] = svg.xpath(path, namespaces=_NAMES)
    return found


def numbers(element: etree._Element, *names: str) -> list[float]:
    return [float(element.get(name)) for name in names]


def texts(svg: etree._Element) -> list[str]:
    return ["".join(element.itertext()) for element in find(svg, "//s:text")]


def test_markers_lie_at_their_values_and_missing_values_have_none() -> None:
    svg = draw([go.Scatter(x=[0, 5, None, 10], y=[0, 5, 5, 10], mode="markers")], **AXES)
    assert [numbers(circle, "cx", "cy", "r") for circle in find(svg, "//s:circle")] == [
        [50, 120, 3],
        [100, 70, 3],
        [150, 20, 3],
    ]


def test_a_line_has_a_part_for_each_stretch_without_a_gap_and_is_clipped_to_its_axes() -> None:
    svg = draw([go.Scatter(x=[0, 5, 7, 8, 12], y=[0, 5, None, 2, 2], mode="lines")], **AXES)
    lines = find(svg, "//s:polyline")
    assert [line.get("points") for line in lines] == ["50,120 100,70", "130,100 170,100"]
    clip = lines[0].getparent().get("clip-path").removeprefix("url(#").removesuffix(")")
    assert numbers(find(svg, f"//s:clipPath[@id='{clip}']/s:rect")[0], "x", "y", "width", "height") == [
        50,
        20,
        100,
        100,
    ]


def test_steps_and_areas_have_their_corners() -> None:
    stepped = go.Scatter(x=[0, 10], y=[0, 10], mode="lines", line={"shape": "hv"}, fill="tozeroy")
    svg = draw([stepped], **AXES)
    assert find(svg, "//s:polyline")[0].get("points") == "50,120 150,120 150,20"
    assert find(svg, "//s:polygon")[0].get("points") == "50,120 150,120 150,20 150,120 50,120"


def test_bars_stand_side_by_side_stack_or_start_at_their_base() -> None:
    def boxes(*bars: Any, **layout: Any) -> list[list[float]]:
        found = find(draw(bars, **layout), "//s:g[@class='traces']/s:rect")
        return [[round(value, 1) for value in numbers(box, "x", "y", "width", "height")] for box in found]

    two = [go.Bar(x=[0, 1], y=[5, 10]), go.Bar(x=[0, 1], y=[10, 5])]
    axes = {"xaxis": {"range": [-0.5, 1.5]}, "yaxis": {"range": [0, 20]}, "bargap": 0.2}
    # A bar takes 0.4 of a unit of 50 pixels; the middles of the places are at x 75 and 125.
    assert boxes(*two, **axes) == [[55, 95, 20, 25], [105, 70, 20, 50], [75, 70, 20, 50], [125, 95, 20, 25]]
    stacked = boxes(*two, **axes, barmode="stack")
    assert stacked == [[55, 95, 40, 25], [105, 70, 40, 50], [55, 45, 40, 50], [105, 45, 40, 25]]
    level = go.Bar(x=[3], base=[2], y=[5], width=[4], orientation="h")
    assert boxes(level, **AXES) == [[70, 50, 30, 40]]


def test_a_histogram_is_drawn_in_its_bins() -> None:
    counted = go.Histogram(x=[1, 1.5, 3, 9], xbins={"start": 0, "end": 10, "size": 2})
    found = find(draw([counted], **AXES, bargap=0), "//s:g[@class='traces']/s:rect")
    assert [numbers(box, "x", "width", "height") for box in found] == [
        [50, 20, 20],
        [70, 20, 10],
        [90, 20, 0],
        [110, 20, 0],
        [130, 20, 10],
    ]


def test_a_box_has_its_quartiles_whiskers_and_outliers() -> None:
    svg = draw([go.Box(y=[1, 2, 3, 4, 5, 10], name="a")], yaxis={"range": [0, 10]})
    # q1 2.25, median 3.5, q3 4.75: the whiskers reach values from -1.5 to 8.5, which are 1 and 5.
    assert find(svg, "//s:g[@class='traces']/s:polygon")[0].get("points").split()[0].endswith(",97.5")
    ends = [line.get("points").split()[-1].split(",")[1] for line in find(svg, "//s:polyline")]
    assert ends == ["85", "110", "70", "110", "70"]
    assert [numbers(circle, "cy") for circle in find(svg, "//s:circle")] == [[20]]


def test_a_heat_map_has_a_cell_for_each_known_value_in_the_colours_of_its_scale() -> None:
    scale = [[0, "#000000"], [1, "#ffffff"]]
    cells = go.Heatmap(z=[[0, 1], [0.5, None]], x=["a", "b"], y=["c", "d"], colorscale=scale, texttemplate="%{z:.1f}")
    svg = draw([cells], width=400)
    found = find(svg, "//s:g[@class='traces']/s:rect")
    assert [cell.get("fill") for cell in found] == ["#000000", "#ffffff", "#808080"]
    assert {"0.0", "1.0", "0.5", "a", "b", "c", "d"} <= set(texts(svg))
    assert len(find(svg, "//s:linearGradient")) == 1, "the colour bar"


def test_cells_and_markers_of_a_colour_axis_share_its_range() -> None:
    cells = go.Heatmap(z=[[1, 3]], x=[2, 6], y=[5], name="cells", coloraxis="coloraxis")
    marks = go.Scatter(x=[2, 8], y=[5, 5], mode="markers", marker={"color": [5, 3], "coloraxis": "coloraxis"})
    marks.showlegend = False
    axis = {"colorscale": [[0, "#000000"], [1, "#ffffff"]], "reversescale": True}
    svg = draw([cells, marks], width=400, coloraxis=axis, showlegend=True, **AXES)
    assert [cell.get("fill") for cell in find(svg, "//s:g[@class='traces']/s:rect")] == ["#ffffff", "#808080"]
    assert [mark.get("fill") for mark in find(svg, "//s:circle")] == ["#000000", "#808080"]
    assert {"1", "2", "3", "4", "5"} <= set(texts(svg)), "the ticks of the colour bar are round numbers"
    assert "cells" not in texts(svg), "the colour bar stands for them"


def test_axes_have_domains_reversed_ranges_categories_and_logarithms() -> None:
    traces = [
        go.Scatter(x=[1], y=[0], mode="markers"),
        go.Scatter(x=[100], y=[0], mode="markers", xaxis="x2", yaxis="y2"),
        go.Scatter(x=[1], y=["b"], mode="markers", yaxis="y3"),
    ]
    svg = draw(
        traces,
        xaxis={"range": [0, 2]},
        yaxis={"range": [10, 0], "domain": [0.5, 1]},
        xaxis2={"type": "log", "range": [0, 4]},
        yaxis2={"range": [0, 1], "domain": [0, 0.5]},
        yaxis3={"type": "category", "categoryarray": ["a", "b"]},
    )
    places = [numbers(circle, "cx", "cy") for circle in find(svg, "//s:circle")]
    assert places == [[100, 20], [100, 120], [100, 45]]


@pytest.mark.parametrize("symbol", [*SYMBOLS, "circle-open", "square-x-open", "line-ew-open", "diamond-dot"])
def test_every_symbol_is_drawn_around_its_point(symbol: str) -> None:
    marker = {"symbol": symbol, "size": 10, "line": {"width": 1, "color": "#ff0000"}}
    svg = draw([go.Scatter(x=[5], y=[5], mode="markers", marker=marker)], **AXES)
    (group,) = [group for group in find(svg, "//s:g[@class='points']") if len(group)]
    corners = [
        tuple(map(float, pair.split(",")))
        for polygon in group.iter("{*}polygon")
        for pair in (polygon.get("points") or "").split()
    ]
    corners += [tuple(numbers(line, *ends)) for line in group.iter("{*}line") for ends in (("x1", "y1"), ("x2", "y2"))]
    corners += [(numbers(dot, "cx")[0], numbers(dot, "cy")[0]) for dot in group.iter("{*}circle")]
    assert corners
    assert all(abs(x - 100) <= 7.1 and abs(y - 70) <= 7.1 for x, y in corners)


def test_shapes_lie_below_or_above_the_traces_on_axes_domains_or_the_paper() -> None:
    shapes = [
        {"type": "line", "x0": 5, "x1": 5, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dash", "width": 1}},
        {
            "type": "rect",
            "x0": 0,
            "x1": 0.5,
            "xref": "x domain",
            "y0": 0,
            "y1": 10,
            "layer": "below",
            "fillcolor": "red",
        },
    ]
    svg = draw([go.Scatter(x=[5], y=[5], mode="markers")], shapes=shapes, **AXES)
    (line,) = find(svg, "//s:g[@class='above']/s:line")
    assert numbers(line, "x1", "x2", "y1", "y2") == [100, 100, 120, 20]
    assert line.get("stroke-dasharray") == "5 3"
    (box,) = find(svg, "//s:g[@class='background']/s:rect[@fill='red']")
    assert numbers(box, "x", "y", "width", "height") == [50, 20, 50, 100]


def test_titles_ticks_annotations_and_the_legend_are_written() -> None:
    notes = [{"x": 5, "y": 5, "text": "<b>bold</b> and<br>more", "showarrow": False}]
    traces = [go.Scatter(x=[1], y=[2], name="one"), go.Scatter(x=[1], y=[3], name="two")]
    titles = {"title": {"text": "Head", "subtitle": {"text": "below"}}, "xaxis_title": "across", "yaxis_title": "up"}
    svg = draw(traces, annotations=notes, height=300, width=400, **titles)
    assert {"Head", "below", "across", "up", "one", "two", "bold andmore"} <= set(texts(svg))
    assert [span.text for span in find(svg, "//s:tspan[@font-weight='bold']")] == ["bold"]
    alone = draw([go.Scatter(x=[1], y=[2], name="one")])
    assert "one" not in texts(alone), "one trace needs no legend"


def test_colours_are_written_without_functions_which_old_readers_do_not_know() -> None:
    svg = draw([go.Scatter(x=[5], y=[5], mode="markers", marker={"color": "rgba(255, 0, 16, 0.5)"})], **AXES)
    (circle,) = find(svg, "//s:circle")
    assert (circle.get("fill"), circle.get("fill-opacity")) == ("#ff0010", "0.5")
    assert "rgba" not in etree.tostring(svg, encoding="unicode")


def test_hostile_texts_are_only_text() -> None:
    hostile = HOSTILE.replace("<", "&lt;") + "\x00\x08\ud800"
    trace = go.Scatter(x=[5], y=[5], mode="text", text=[hostile], name=hostile)
    svg = draw([trace, go.Scatter(x=[5], y=[6], name='"><script>x</script>')], title=hostile, **AXES)
    assert {etree.QName(element).localname for element in svg.iter()} <= {
        *("svg", "defs", "clipPath", "rect", "g", "line", "text", "tspan", "circle", "polyline", "title"),
    }
    assert any("<img src=x onerror=" in text for text in texts(svg))
    assert not [name for element in svg.iter() for name in element.attrib if name.startswith("on")]


def test_the_size_on_paper_has_its_unit_and_fonts_have_fallbacks() -> None:
    figure = go.Figure(layout={"width": 300, "height": 200, "font": {"family": "Helvetica, Arial, sans-serif"}})
    svg = etree.fromstring(to_svg(figure, width="85mm", height="56.7mm").encode())
    assert (svg.get("width"), svg.get("height"), svg.get("viewBox")) == ("85mm", "56.7mm", "0 0 300 200")
    assert svg.get("font-family") == "Helvetica, Arial, sans-serif"


def test_other_types_of_traces_are_refused() -> None:
    with pytest.raises(ValueError, match="a trace of type pie cannot be written as SVG; scatter, bar,"):
        to_svg(go.Figure(go.Pie(values=[1])))
