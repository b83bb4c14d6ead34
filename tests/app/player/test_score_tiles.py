"""The score tiles: hostile text stays text, and each has its figure."""

import math
from types import SimpleNamespace

from stepscope.app.player.score_tiles import HEADLINES, SPANS, STATES, TEACHER_FORCED, make_tiles
from stepscope.app.templates import render

HOSTILE = "\"><img src=x onerror='window.hacked=1'>&{{1+1}}"


def test_hostile_text_is_escaped_in_every_place() -> None:
    html = render("score_tiles", tiles=[SimpleNamespace(label=HOSTILE, figure=HOSTILE, hint=HOSTILE)], basis=HOSTILE)
    escaped = "&#34;&gt;&lt;img src=x onerror=&#39;window.hacked=1&#39;&gt;&amp;{{1+1}}"
    assert html.count(escaped) == 7
    assert "<img" not in html


def test_updates_and_reply_spans_have_tiles_where_they_are_known() -> None:
    bare = dict.fromkeys(HEADLINES, 0.5) | dict.fromkeys((*STATES, *SPANS, *TEACHER_FORCED), math.nan)
    assert len(make_tiles(bare)) == len(HEADLINES)
    hint = make_tiles(bare, rules="speak by score, above, threshold 2.00")[HEADLINES.index("speaking_event_f1_1s")].hint
    assert hint.endswith(
        "Here of the run's messages, not of its rule's decisions (speak by score, above, threshold 2.00)."
    )
    one = make_tiles(bare | {"dst_f1": 0.25})
    assert [tile.figure for tile in one[len(HEADLINES) :]] == ["undefined", "0.25", "undefined", "undefined"]
    spans = make_tiles(bare | {"PAUC_w0.5": 61.25, "PAUC_silent": 25.0, "span_coverage": 1.0})
    assert [tile.label for tile in spans[len(HEADLINES) :]] == ["PAUC, w 0.5", "PAUC, always silent", "Spans covered"]
