"""Every score has one entry, the entries say what they must, and docs/metrics.md is made from them."""

import re

import pytest

from stepscope.eval.metrics.definitions import METRICS, Metric, find_metric, to_markdown
from stepscope.eval.metrics.score import VideoCounts, score_counts
from tests.support.paths import ROOT


def test_the_entries_are_the_scores() -> None:
    computed = {*score_counts(VideoCounts()), "peak_memory_mb"}
    assert {metric.name for metric in METRICS if metric.scope != "video"} == computed
    renamed = {name.replace("CIDEr", "CIDEr_split_df") for name in computed} - {"peak_memory_mb"}
    assert {metric.name for metric in METRICS if metric.scope != "split"} == renamed
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_an_entry_is_whole(metric: Metric) -> None:
    assert find_metric(metric.name) is metric
    for text in (metric.definition, metric.caveat):
        assert not text or ((text[0].isupper() or text[0].isdigit() or text.startswith("nlg")) and text.endswith("."))
    assert metric.range
    assert metric.source
    assert "{" not in metric.hint + metric.name
    assert metric.better in {"higher", "lower", "near 0", "near 1", "neither"}


def test_the_page_of_definitions_is_current() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert page == to_markdown(), "run: python -m stepscope.eval metrics > docs/metrics.md"
    names = {re.sub(r"(_event_\w+)_(0|0\.5|2|5)s$", r"\1_1s", metric.name).removesuffix("_w") for metric in METRICS}
    names = {name.replace("dst_update_", "speaking_") for name in names}
    assert all(f"`{name}`" in page for name in names)
