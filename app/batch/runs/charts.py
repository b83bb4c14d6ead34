"""Data frames for the charts of a split, from ``charts.json``."""

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from app.formatting import STATE_DIFFERENCES
from app.theme import CHART_COLOURS

PLOT: Final[dict[str, Any]] = {"height": 240, "buttons": [], "min_width": 340}
"""Layout of all plots."""
Charts = Mapping[str, Any]
HEAD_COLOURS: Final = {name: CHART_COLOURS[name] for name in ("speak", "update")}
DIFFERENCE_COLOURS: Final = {
    STATE_DIFFERENCES["behind"]: CHART_COLOURS["missed"],
    STATE_DIFFERENCES["ahead"]: CHART_COLOURS["redundant"],
}


def precision_recall(charts: Charts) -> pd.DataFrame:
    """Return columns ``recall``, ``precision``, ``threshold``, ``head``: one row per threshold and head."""
    rows = [{**point, "head": head} for head, points in charts.get("precision_recall", {}).items() for point in points]
    return pd.DataFrame(rows, columns=["recall", "precision", "threshold", "head"])


def reliability(charts: Charts) -> pd.DataFrame:
    """Return columns ``probability``, ``share``, ``frames``, ``head``: one row per tenth with frames."""
    rows = [
        {"probability": tenth["mean_prob"], "share": tenth["expected_share"], "frames": tenth["num_frames"], "head": h}
        for h, tenths in charts.get("reliability", {}).items()
        for tenth in tenths
    ]
    return pd.DataFrame(rows, columns=["probability", "share", "frames", "head"])


def leads(charts: Charts) -> pd.DataFrame:
    """Return columns ``seconds``, ``events``, ``head``: one row per half second with events."""
    rows = [
        {"seconds": f"{point['lead_s']:+g}", "events": point["num_events"], "head": head, "at": point["lead_s"]}
        for head, points in charts.get("leads_s", {}).items()
        for point in points
    ]
    frame = pd.DataFrame(rows, columns=["seconds", "events", "head", "at"])
    return frame.sort_values("at")[["seconds", "events", "head"]]


def failures(charts: Charts) -> pd.DataFrame:
    """Return columns ``kind``, ``failures``."""
    rows = [{"kind": kind, "failures": number} for kind, number in charts.get("failures", {}).items()]
    return pd.DataFrame(rows, columns=["kind", "failures"])


def states(charts: Charts) -> pd.DataFrame:
    """Return columns ``step``, ``share``, ``state``: the share of frames in which a step is ahead or behind."""
    rows = [
        {"step": f"step {number}", "share": step[difference], "state": STATE_DIFFERENCES[difference]}
        for number, step in enumerate(charts.get("states", []), 1)
        for difference in ("behind", "ahead")
    ]
    return pd.DataFrame(rows, columns=["step", "share", "state"])


def latency(charts: Charts) -> pd.DataFrame:
    """Return columns ``milliseconds``, ``share``: the share of frames with at most this latency."""
    rows = [{"milliseconds": p["latency_ms"], "share": p["share"]} for p in charts.get("latency_ms", [])]
    return pd.DataFrame(rows, columns=["milliseconds", "share"])
