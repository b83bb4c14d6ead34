"""A metric is one module in ``eval.metrics`` and its entry in ``metrics.toml``."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope.eval.metrics
from stepscope.eval.metrics.definitions import METRICS, Metric, find_metric, to_markdown
from stepscope.eval.metrics.measures import find_measures
from stepscope.eval.metrics.score import MEASURES, VideoCounts, score_counts
from tests.support.paths import ROOT

NEW_METRIC = """
from dataclasses import dataclass

from stepscope.eval.metrics.counts import Counts, ratio
from stepscope.eval.metrics.matched_video import MatchedVideo
from stepscope.eval.metrics.measures import Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class WordCounts(Counts):
    num_words: int = 0
    num_responses: int = 0


def _count(video: MatchedVideo) -> WordCounts:
    texts = [output.response for output in video.outputs if output.response]
    return WordCounts(num_words=sum(len(text.split()) for text in texts), num_responses=len(texts))


def _summarize(counts: WordCounts) -> dict[str, float]:
    return {"words_per_response": ratio(counts.num_words, counts.num_responses)}


MEASURES = (Measure(name="words", kind=WordCounts, count=_count, summarize=_summarize),)
"""
# The module is added to the package before the counts are made again, as if it had been there from the start.
PROGRAM = """
import importlib, json, sys
from pathlib import Path
import stepscope.eval.metrics
stepscope.eval.metrics.__path__.append(sys.argv[1])
from stepscope.eval.metrics import score
importlib.reload(score)
from stepscope.eval.sweeps.folder import SweepFolder, SweptVideo
from tests.eval.metrics.test_score import SAMPLE, outputs
from tests.support.streams.fakes import count_letters
runs = [outputs({0: "Go on now.", 4: "Good."}, {}), outputs({0: "Good."}, {})]
rows = [score.analyze_video(SAMPLE, run, encode=count_letters).counts for run in runs]
folder = SweepFolder(Path(sys.argv[1]))
folder.save_video(SweptVideo(video_id="a", source="", runs=tuple(rows), points=(0, 1), passes=(1, 1)))
kept = folder.video("a", num_points=2)
assert not kept.error, kept.error
some = (rows[0] + rows[1], rows[1], kept.runs[0] + kept.runs[1], kept.runs[1])
print(json.dumps([score.score_counts(counts)["words_per_response"] for counts in some]))
"""


@pytest.mark.slow
def test_a_module_with_measures_is_counted_pooled_scored_and_kept_by_a_sweep(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(NEW_METRIC)
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=True, capture_output=True, text=True)
    # 3 + 1 words in two responses and 1 word in one: (4 + 1) / (2 + 1); the second video alone has 1 / 1
    assert json.loads(done.stdout) == [5 / 3, 1, 5 / 3, 1]


def test_the_modules_of_this_version_are_found() -> None:
    names = ["speaking", "updating", "dst", "failures", "system", "turns", "live"]
    assert set(names) <= {measure.name for measure in MEASURES}
    assert all(isinstance(getattr(VideoCounts(), measure.name), measure.kind) for measure in MEASURES)


def test_two_measures_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "twice.py").write_text("from stepscope.eval.metrics.replies.turn_taking import MEASURES\n")
    monkeypatch.setattr(stepscope.eval.metrics, "__path__", [*stepscope.eval.metrics.__path__, str(tmp_path)])
    with pytest.raises(ValueError, match=r"two measures share a name; .*turns"):
        find_measures()


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
