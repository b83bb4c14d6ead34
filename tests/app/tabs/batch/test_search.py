"""The search of the batch tab: its table, the player at a moment, and the slice and file of the moments."""

import csv
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from stepscope.app import opening
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.tabs.batch import search as searching
from stepscope.app.tabs.batch.search import ALL_RUNS, THIS_RUN, Hits
from stepscope.app.tabs.batch.selection import read_slices
from stepscope.app.web.views import PlayerView
from tests.app.tabs.batch.test_selection import batches, scored  # noqa: F401 - fixtures

NO_CONTEXT: Any = SimpleNamespace()


def search(batches: BatchContext, query: str, *, scope: str = THIS_RUN) -> Hits:  # noqa: F811
    view = searching.run_search(batches, "a", scope, query)
    assert view.hits is not None, view.said
    assert len(view.table) == len(view.hits.moments)
    return Hits(*view.hits)


def test_a_search_lists_moments_with_their_place(batches: BatchContext) -> None:  # noqa: F811
    view = searching.run_search(batches, "a", THIS_RUN, "failure:missed is:message")
    assert view.said.startswith("1 moment in 1 video.")
    number, video, _, what, failure, text, reference, *_ = view.table[0]
    assert (number, video, what, failure, text, reference) == (1, "v1", "message", "missed", "", reference)
    assert searching.run_search(batches, "a", THIS_RUN, "foo:1").said.startswith("there is no field")
    assert searching.run_search(batches, None, THIS_RUN, "wheel").said.startswith("choose a run")
    empty = searching.run_search(batches, "a", THIS_RUN, " ")
    assert (empty.table, empty.said) == ([], searching.NO_QUERY)
    assert "in 0 videos. Remove a term" in searching.run_search(batches, "a", THIS_RUN, "nosuchword").said
    assert searching.search_linked(batches, "a", THIS_RUN, None, "failure:missed is:message").table == view.table


def test_a_term_is_chosen_instead_of_typed() -> None:
    assert searching.add_term("wheel", "tag: too dark") == ('wheel tag:"too dark"', None)
    assert searching.add_term(None, "cause: decoy") == ("cause:decoy", None)


def test_the_player_starts_a_search_for_its_kind_of_failure(batches: BatchContext) -> None:  # noqa: F811
    picked: Any = SimpleNamespace(run="a", kind="missed update")
    found = searching.find_kind(batches, picked)
    assert (found.runs.value, found.scope, found.views.selected) == ("a", THIS_RUN, "search")
    assert found.query == 'failure:"missed update"'
    assert len(search(batches, found.query).moments) > 0


def test_all_runs_of_the_split_are_searched(batches: BatchContext) -> None:  # noqa: F811
    alone = search(batches, "is:user or -is:user")
    shutil.copytree(batches.runs / "a", batches.runs / "b")
    shutil.copytree(batches.runs / "a", batches.runs / "unscored", ignore=shutil.ignore_patterns("moments.csv"))
    both = search(batches, "is:user or -is:user", scope=ALL_RUNS)
    assert list(both.moments["run"]) == ["a"] * len(alone.moments) + ["b"] * len(alone.moments)


def test_each_moment_opens_its_own_event_and_says_its_place(
    batches: BatchContext,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[dict[str, Any]] = []

    def open_moment(*_: Any, **options: Any) -> PlayerView:
        opened.append(options)
        return PlayerView(strategy="opened")

    monkeypatch.setattr(opening, "open_moment", open_moment)
    hits = search(batches, "is:message")
    at = [searching.open_hit(NO_CONTEXT, batches, None, hits, number).at for number in range(len(hits.moments))]
    assert at == list(range(len(hits.moments)))
    assert [one["hit"]["number"] for one in opened] == [number + 1 for number in at]
    assert len({one["open_event"] for one in opened}) == len(opened)
    monkeypatch.setattr(gr, "Warning", lambda words: None)
    assert searching.open_hit(NO_CONTEXT, batches, None, hits, len(at)).player == PlayerView()
    assert searching.open_hit(NO_CONTEXT, batches, None, None, 0).player == PlayerView()


def test_the_videos_are_kept_as_a_slice_and_the_moments_as_a_file(batches: BatchContext) -> None:  # noqa: F811
    hits = search(batches, "failure:missed is:message")
    assert "1 video saved" in searching.save_hits(batches, "a", hits, "silent").result
    assert read_slices(batches, "a") == {"silent": ["v1"]}
    assert "no video is selected" in searching.save_hits(batches, "a", None, "none").result
    written = searching.download_hits(batches, "a", THIS_RUN, "failure:missed is:message")
    with Path(next(written)).open(newline="") as file:
        assert [row["video_id"] for row in csv.DictReader(file)] == ["v1"]
