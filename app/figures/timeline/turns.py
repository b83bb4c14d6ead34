"""The lanes of the dialogue: user turns, reference turns, the assistant's messages, and the pairs that match."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import plotly.graph_objects as go

from stepscope.app.figures.text import LINE, clean_text, to_markup, wrap_text
from stepscope.app.figures.timeline.run import TimelineRun
from stepscope.app.figures.timeline.sheet import Sheet
from stepscope.engine.records import UserTurn
from stepscope.eval.metrics.failures import FailureKind, JudgedTurn

_SIGN_PX: Final = 7.0
_MAX_BOX_PX: Final = 260.0
_PADDING_PX: Final = 3.0
_MAX_LINES: Final = 3
_MAX_LINES_NARROW: Final = 4
_NARROW_PX: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The sign of a turn, as in the player (``lanes/turns.js``), and its entry in the legend."""

    sign: str
    colour: str
    entry: str = ""
    is_hollow: bool = False


LOOKS: Final = {
    "matched": Look(sign="✓", colour="matched", entry="matched"),
    "mismatched": Look(sign="≠", colour="mismatched", entry="wrong text"),
    "redundant": Look(sign="+", colour="redundant", entry="redundant"),
    "early or late": Look(sign="↔", colour="matched", entry="early or late"),
    "repeats itself": Look(sign="↺", colour="redundant", entry="repeats itself"),
    "missed": Look(sign="✕", colour="missed", entry="missed", is_hollow=True),
    "reference": Look(sign="●", colour="reference"),
    "assistant": Look(sign="●", colour="speak"),
    "user": Look(sign="▹", colour="user"),
    "user not asked": Look(sign="▹", colour="reference", entry="user turn not given", is_hollow=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTurn:
    """One turn of a lane."""

    time_s: float
    text: str
    look: str
    """Key of ``LOOKS``."""


def user_turns(run: TimelineRun) -> list[DrawnTurn]:
    """Return the user turns that the run had, by time."""
    turns = sorted(run.user_turns, key=lambda turn: turn.time_s)
    return [DrawnTurn(time_s=turn.time_s, text=turn.text, look="user") for turn in turns]


def reference_turns(run: TimelineRun) -> list[DrawnTurn]:
    """Return the reference's messages, and its user turns that the run did not have."""
    missed = {failure.reference for failure in (run.judged.failures if run.judged else ()) if failure.turn is None}
    drawn = []
    for number, turn in enumerate(run.sample.turns if run.sample else ()):
        if turn.role == "assistant":
            look = "missed" if number in missed else "reference"
            drawn.append(DrawnTurn(time_s=turn.time_s, text=turn.text, look=look))
        elif turn.role == "user" and UserTurn(time_s=turn.time_s, text=turn.text) not in run.user_turns:
            drawn.append(DrawnTurn(time_s=turn.time_s, text=turn.text, look="user not asked"))
    return drawn


def assistant_turns(run: TimelineRun) -> list[DrawnTurn]:
    """Return the assistant's messages, with their outcome if the run has a reference."""
    if run.judged is None:
        said = [output for output in run.outputs if output.response]
        return [DrawnTurn(time_s=output.time_s, text=output.response or "", look="assistant") for output in said]
    kinds = {failure.turn: failure.kind for failure in run.judged.failures}
    return [
        DrawnTurn(time_s=run.time_of(turn.frame_index), text=turn.text, look=_find_look(turn, kinds.get(number)))
        for number, turn in enumerate(run.judged.turns)
        if turn.role == "assistant"
    ]


def _find_look(turn: JudgedTurn, kind: FailureKind | None) -> str:
    return kind if kind is not None and kind in LOOKS else turn.outcome


def links(run: TimelineRun) -> list[tuple[float, float, str]]:
    """Return the matched pairs as time of the reference, time of the message, and outcome."""
    sample = run.sample
    if run.judged is None or sample is None:
        return []
    return [
        (sample.turns[turn.reference].time_s, run.time_of(turn.frame_index), turn.outcome)
        for turn in run.judged.turns
        if turn.role == "assistant" and turn.reference is not None
    ]


def draw_turns(sheet: Sheet, label: str, turns: Sequence[DrawnTurn]) -> None:
    """Add the lane of some turns: boxes that begin at their times, as high as the longest text needs."""
    shown = [turn for turn in turns if sheet.is_visible(turn.time_s)]
    ends = [later.time_s - sheet.seconds(2) for _, later in pairwise(shown)] + [sheet.to_s] * bool(shown)
    rooms = [max(3.0, min(sheet.pixels(end - turn.time_s), _MAX_BOX_PX)) for turn, end in zip(shown, ends, strict=True)]
    max_lines = _MAX_LINES if sheet.width_px >= _NARROW_PX else _MAX_LINES_NARROW
    texts = [
        wrap_text(clean_text(turn.text), room - 2 * _SIGN_PX - 4, sheet.size, max_lines=max_lines)
        if room > 4 * _SIGN_PX
        else []
        for turn, room in zip(shown, rooms, strict=True)
    ]
    num_lines = max(map(len, texts), default=1) or 1
    height = LINE * sheet.size * num_lines + 2 * _PADDING_PX
    if shown:
        _draw_boxes(sheet, shown, rooms, texts, height)
    sheet.label([label], sheet.top + height / 2)
    sheet.top += height


def _draw_boxes(
    sheet: Sheet, turns: Sequence[DrawnTurn], rooms: Sequence[float], texts: Sequence[Sequence[str]], height: float
) -> None:
    looks = [LOOKS[turn.look] for turn in turns]
    inks = [sheet.colours[look.colour] for look in looks]
    tints = [sheet.tint(look.colour, 0.1 if look.is_hollow else 0.2) for look in looks]
    starts, middle = [turn.time_s for turn in turns], sheet.top + height / 2
    hover = [to_markup(clean_text(turn.text)) for turn in turns]
    for look in looks:
        if look.entry:
            sheet.signs.setdefault(look.entry, {"text": look.sign, "color": sheet.colours[look.colour]})
    boxes = {"orientation": "h", "y": [middle] * len(turns), "xaxis": "x", "yaxis": "y"}
    sheet.add(
        go.Bar(
            x=list(map(sheet.seconds, rooms)),
            base=starts,
            width=height - 2,
            marker={"color": tints, "line": {"width": 0}},
            hovertext=hover,
            hoverinfo="text",
            **boxes,
        )
    )
    edge = {"color": inks, "line": {"width": 0}}
    sheet.add(
        go.Bar(x=[sheet.seconds(2)] * len(turns), base=starts, width=height - 2, marker=edge, hoverinfo="skip", **boxes)
    )
    offsets = [sheet.seconds(_SIGN_PX + 1) if room > 2 * _SIGN_PX else 0.0 for room in rooms]
    sheet.add(
        go.Scatter(
            x=[start + offset for start, offset in zip(starts, offsets, strict=True)],
            y=[middle] * len(turns),
            text=[look.sign for look in looks],
            mode="text",
            textposition="middle center",
            textfont={"color": inks, "size": sheet.size},
            xaxis="x",
            yaxis="y",
            hoverinfo="skip",
            cliponaxis=False,
        )
    )
    written = [(start, lines) for start, lines in zip(starts, texts, strict=True) if lines]
    sheet.add(
        go.Scatter(
            x=[start + sheet.seconds(2 * _SIGN_PX + 1) for start, _ in written],
            y=[middle] * len(written),
            text=["<br>".join(map(to_markup, lines)) for _, lines in written],
            mode="text",
            textposition="middle right",
            textfont={"color": sheet.colours["ink"], "size": sheet.size},
            xaxis="x",
            yaxis="y",
            hoverinfo="skip",
            cliponaxis=False,
        )
    )


def draw_links(sheet: Sheet, pairs: Sequence[tuple[float, float, str]]) -> None:
    """Add the lane of lines between the references above and the messages below."""
    height = 0.8 * sheet.size
    for look in ("matched", "mismatched"):
        chosen = [(wanted, said) for wanted, said, outcome in pairs if outcome == look]
        visible = [pair for pair in chosen if sheet.is_visible(pair[0]) or sheet.is_visible(pair[1])]
        if not visible:
            continue
        offset = sheet.seconds(1)
        sheet.add(
            go.Scatter(
                x=[x for wanted, said in visible for x in (wanted + offset, said + offset, None)],
                y=[y for _ in visible for y in (sheet.top, sheet.top + height, None)],
                mode="lines",
                line={"color": sheet.colours[LOOKS[look].colour], "width": 1.5},
                xaxis="x",
                yaxis="y",
                hoverinfo="skip",
            )
        )
    sheet.top += height
