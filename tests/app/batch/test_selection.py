"""Videos of a run chosen by failures, causes, verdicts and tags, kept as a slice, and scored separately."""

import csv
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event, Semaphore
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from stepscope.app.batch import search as searching
from stepscope.app.batch import selection as choosing
from stepscope.app.batch.runs import handlers
from stepscope.app.batch.runs.files import MOMENTS, export
from stepscope.app.batch.search import Hits
from stepscope.app.batch.selection import ALL_RUNS, THIS_RUN, read_slices
from stepscope.app.core import slices
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.run import file_name
from stepscope.app.player import opening
from stepscope.app.player.commands import KindRequest, RunInFocus
from stepscope.app.player.views import PlayerView
from stepscope.app.review_store.actions import Action
from stepscope.app.review_store.events import reference_event
from stepscope.app.review_store.store import open_store, read_marks
from stepscope.engine.io.files import write_json
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from tests.app.batch.runs.test_scoring import repeat
from tests.support.data.batches import copies, write_scores, write_split
from tests.support.pages.batch_tab import make_batches, make_jobs, select, shown_videos
from tests.support.paths import ASSETS
from tests.support.streams.fakes import count_letters

BENCH: Any = SimpleNamespace(encode=count_letters)


@pytest.fixture(scope="module")
def scored(demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Score a run ``a`` of three videos: ``v0`` is right but for updates, ``v1`` silent, of ``v2`` there is no file."""
    folder = tmp_path_factory.mktemp("scored")
    videos = copies(demo_manifest, folder, 3)
    for video in videos:
        video |= {"fps": 2.0, "num_frames": 12}
    videos[1]["turns"] = [{**turn, "cause": "dim light"} for turn in videos[1]["turns"]]
    split = write_split(folder, *videos)
    run = folder / "runs" / "a"
    run.mkdir(parents=True)
    RunFolder(run).write_settings({"split": str(split.resolve()), "config": {}, "text_encoder": "letters"})
    right, silent, lost = read_split(split).samples
    for sample, outputs in ((right, repeat(right)), (silent, [replace(o, response=None) for o in repeat(silent)])):
        record = VideoRecord(video_id=sample.video_id, source=digest_sample(sample), num_frames=12)
        RunFolder(run).save_video(record, outputs)
    RunFolder(run).save_video(VideoRecord(video_id="v2", source=digest_sample(lost), error="no such file"), [])
    write_scores(split, run)
    return split


@pytest.fixture
def batches(scored: Path, tmp_path: Path) -> BatchContext:
    """Serve a copy of the run."""
    shutil.copytree(scored.parent / "runs", tmp_path / "runs")
    return make_batches(scored, checkpoint=tmp_path, runs=tmp_path / "runs")


def shown(batches: BatchContext, query: str = "") -> list[str]:
    """Return the videos of the list."""
    return [video["id"] for video in shown_videos(handlers.show(batches, select("a", query)))]


def test_videos_are_chosen_by_what_their_moments_have(batches: BatchContext) -> None:
    offered = {trait: label for label, trait in choosing.list_traits(batches, "a")}
    assert offered["failure: missed"] == "failure: missed (1)"
    assert offered["failure: missed update"] == "failure: missed update (2)"
    assert "failure: redundant" not in offered
    assert shown(batches) == ["v0", "v1", "v2"]
    assert shown(batches, 'failure:"missed update"') == ["v0", "v1"]
    assert shown(batches, 'failure:"missed update" -video:v0') == ["v1"]
    assert shown(batches, 'cause:"dim light"') == ["v1"]
    view = handlers.show(batches, select("a", "failure:redundant"))
    assert (shown_videos(view), "0 videos, of 3 videos. Try another term, or search in all" in view.videos) == (
        [],
        True,
    )
    videos = shown_videos(handlers.show(batches, select("a", order="error")))
    assert [(video["id"], video["failed"]) for video in videos] == [("v2", True), ("v0", False), ("v1", False)]
    assert {kind for _, kind in videos[2]["marks"]} == {"missed", "missed update", "wrong state"}
    assert all(0 <= time_s <= videos[2]["length"] for time_s, _ in videos[2]["marks"])


def mark(sample: Sample, **said: Any) -> Action:
    event = reference_event(sample.video_id, name_turns(sample.turns)[0])
    return Action(reviewer="ada", video_id=sample.video_id, event=event, **said)


def test_videos_are_chosen_by_verdict_and_tag_but_not_where_reviews_are_blind(
    batches: BatchContext, tmp_path: Path
) -> None:
    first, second, _ = batches.splits["split"].samples
    words = {"tags": {"occlusion": "a hand hides the part", "glare": ""}, "causes": {"decoy": ""}}
    batches.splits["split"].path.with_suffix(".vocabulary.json").write_text(json.dumps(words))
    with open_store(tmp_path / "reviews.sqlite") as store:
        store.append(mark(first, kind="verdict", verdict="missed"))
        store.append(mark(second, kind="tags", tags=("occlusion", "cause:decoy")))
        judged = replace(batches, marks=lambda: read_marks(store, is_blind=False))
        assert shown(judged, "verdict:missed") == ["v0"]
        assert shown(judged, "tag:occlusion") == ["v1"]
        assert shown(judged, "cause:decoy") == ["v1"]
        labels = [label for label, _ in choosing.list_traits(judged, "a")]
        assert {"tag: glare (0)", "tag: occlusion (1)", "cause: decoy (1)"} <= set(labels)
        assert read_marks(store, is_blind=True) == {}
    with pytest.raises(ValueError, match="a reason is shown after your verdict"):
        choosing.find(replace(batches, is_blind=True), select("a", 'failure:root class:"history"'))


def test_a_search_of_a_run_without_scores_says_when_it_has_them(batches: BatchContext) -> None:
    (batches.runs / "new").mkdir()
    shutil.copy(batches.runs / "a" / "run.json", batches.runs / "new")
    for name in ("new", "a"):
        (batches.runs / name / "moments.csv").unlink(missing_ok=True)
        with pytest.raises(ValueError, match="once the run is scored: score it"):
            choosing.find(batches, select(name, "failure:missed"))


def test_a_slice_is_kept_beside_the_runs_and_scored_by_itself(batches: BatchContext) -> None:
    assert "search first" in choosing.save_slice(batches, select("a"), "silent")
    assert "1 video saved" in choosing.save_slice(batches, select("a", "failure:missed"), "  silent  ")
    again = replace(batches, jobs=make_jobs())
    assert shown(again, "slice:silent") == ["v1"]
    assert shown(again, "-slice:silent") == ["v0", "v2"]
    assert shown(again, 'cause:"dim light" slice:silent') == ["v1"]
    assert "has no slice 'loud'; slices are silent" in handlers.show(again, select("a", "slice:loud")).videos
    waits, table = choosing.score_chosen(BENCH, again, select("a", "slice:silent"))
    assert "Scoring 1 video." in waits
    assert "<h3>slice:silent: 1 of 3 videos of a, scored separately</h3>" in table
    assert "<td>Responses missed <code>missing_rate</code></td><td><b>1.000</b></td>" in table
    *_, both = choosing.score_chosen(BENCH, again, select("a", 'failure:"missed update"'))
    assert "2 of 3 videos of a" in both
    assert "<b>0.500</b></td><td>0.000 to 1.000</td>" in both  # half is missed, with an interval of these two videos
    before = json.loads((batches.runs / "a" / "metrics.json").read_text(encoding="utf-8"))
    assert before["num_videos"] == 2  # the scores of the run are as they were


@pytest.mark.parametrize("called", ["", "x" * 61, 'a"b', "a\x00b"])
def test_a_slice_needs_a_name(batches: BatchContext, called: str) -> None:
    assert "give the slice a name" in choosing.save_slice(batches, select("a", "failure:missed"), called)
    assert not (batches.runs / ".slices").exists()


@pytest.mark.parametrize(
    "content",
    [
        *("[", "[]", "{}", '{"slices": []}', '{"slices": {"x": "v0"}}', '{"slices": {"x": ["v'),
        '{"slices": {"x": {"ids": ["v0"], "by": "ann"}}}',
        '{"slices": {"x": ["v0"]}, "owners": {"x": "ann"}}',
    ],
)
def test_slices_that_cannot_be_read_are_kept_and_named_in_one_sentence(batches: BatchContext, content: str) -> None:
    choosing.save_slice(batches, select("a", "failure:missed"), "x")
    (path,) = (batches.runs / ".slices").iterdir()
    path.write_text(content, encoding="utf-8")
    for said in (
        choosing.save_slice(batches, select("a", "failure:missed"), "y"),
        choosing.save_slice(batches, select("a", "slice:x"), "y"),
        json.loads(handlers.show(batches, select("a", "slice:x")).videos)["said"],
    ):
        assert f"the saved slices are kept, but .slices/{path.name} cannot be read: " in said
        assert "restore or remove the file" in said
    assert path.read_text(encoding="utf-8") == content
    assert searching.offer_terms(batches, "a").choices, "the other terms are offered"
    with pytest.warns(UserWarning, match="the saved slices are kept"):  # a note at the corner of the page
        assert choosing.make_filter(batches, select("a", "slice:x")).videos == frozenset()
    assert choosing.make_filter(batches, select("a")).videos is None


WRITE_TWENTY = """
import sys
from pathlib import Path
from stepscope.app.core.slices import write_slice
for number in range(20):
    write_slice(Path(sys.argv[1]), f"{sys.argv[2]}{number}", ["v0"])
"""


def test_slices_of_two_programs_at_once_are_all_kept(tmp_path: Path) -> None:
    path = slices.slices_path(tmp_path, tmp_path / "split.json")
    programs = [subprocess.Popen([sys.executable, "-c", WRITE_TWENTY, str(path), name]) for name in ("a", "b")]
    assert [program.wait() for program in programs] == [0, 0]
    assert len(slices.read_slices(path)) == 40


NO_CONTEXT: Any = SimpleNamespace()


def search(batches: BatchContext, query: str, *, scope: str = THIS_RUN) -> Hits:
    view = handlers.show(batches, select("a", query, scope=scope))
    listed = json.loads(view.videos)
    assert listed["hits"], listed["said"]
    ranges = [number for video in listed["videos"] for number in range(*video["hits"])]
    assert ranges == list(range(len(view.hits.moments))), "each moment is in the row of its video"
    return Hits(*view.hits)


def said(batches: BatchContext, run: str | None, query: str) -> str:
    return str(json.loads(handlers.show(batches, select(run, query)).videos)["said"])


def test_a_search_lists_moments_in_the_rows_of_their_videos(batches: BatchContext) -> None:
    query = "failure:missed is:message"
    listed = json.loads(handlers.show(batches, select("a", query)).videos)
    assert listed["said"].startswith("1 moment in 1 video, of 3 videos.")
    (hit,) = listed["hits"]
    assert (hit["what"], hit["failure"], hit["text"]) == ("message", "missed", "")
    assert said(batches, "a", "foo:1").startswith("there is no field")
    assert said(batches, None, "wheel").startswith("Choose a run")
    assert "in 0 videos, of 3 videos. Try another term, or search in all" in said(batches, "a", "nosuchword")
    assert "in 0 videos, of 3 videos. Remove a term, or search in all scored" in said(batches, "a", "nosuchword wheel")
    assert said(batches, "a", "video:zzz") == (
        "0 moments in 0 videos: video has no value 'zzz' in these moments; values are v0, v1."
    )
    request: Any = SimpleNamespace(query_params={"search": query, "shown": "a"})
    entered = handlers.enter(batches, select(None), RunInFocus(), request)
    assert (entered.runs, entered.query, json.loads(entered.videos)) == ("a", query, listed)


def test_the_player_starts_a_search_for_its_kind_of_failure(batches: BatchContext) -> None:
    found = searching.choose_kind(select(None), KindRequest(run="a", kind="missed update"))
    assert (found.runs, found.scope, found.query) == ("a", THIS_RUN, 'failure:"missed update"')
    assert len(search(batches, found.query).moments) > 0
    bar: Any = SimpleNamespace(point="missed")
    assert searching.choose_bar("failure", select("a"), bar).query == "failure:missed"


def test_a_class_of_first_mistakes_is_offered_and_searched(batches: BatchContext) -> None:
    shutil.copytree(ASSETS / "demo" / "run", batches.runs / "known")
    assert ("class: prompt: ids (2)", "class: prompt: ids") in choosing.list_traits(batches, "known")
    bar: Any = SimpleNamespace(point="prompt: ids")
    query = searching.choose_bar("class", select("known"), bar).query
    assert query == 'failure:root class:"prompt: ids"'
    found = choosing.find(batches, select("known", query)).moments
    assert found is not None
    assert sorted(set(found["video_id"])) == ["robot-permuted", "sandwich-hard-permuted"]
    assert set(found["origin"]) == {"root"}


def test_all_runs_of_the_split_are_searched(batches: BatchContext) -> None:
    alone = search(batches, "time>=0")
    shutil.copytree(batches.runs / "a", batches.runs / "b")
    shutil.copytree(batches.runs / "a", batches.runs / "unscored", ignore=shutil.ignore_patterns("moments.csv"))
    write_json(batches.runs / "unscored" / "run.json", {**batches.settings_of("a"), "checkpoint": "m"})
    (batches.runs / "unscored" / "metrics.json").unlink()
    both = search(batches, "time>=0", scope=ALL_RUNS)
    assert list(both.moments["run"]) == ["a"] * len(alone.moments) + ["b"] * len(alone.moments)
    when = "once all videos of the run are finished: continue it."
    assert said(batches, "unscored", "wheel") == f"moments are searched {when}"
    assert said(batches, "unscored", "").endswith(f"A click opens one. Marks of failures come {when}")


def test_each_moment_opens_its_own_event_and_says_its_place(
    batches: BatchContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[dict[str, Any]] = []

    def open_moment(*_: Any, **options: Any) -> PlayerView:
        opened.append(options)
        return PlayerView(strategy="opened")

    monkeypatch.setattr(opening, "open_moment", open_moment)
    hits = search(batches, "is:message")
    at = [searching.open_hit(NO_CONTEXT, batches, hits, number).at for number in range(len(hits.moments))]
    assert at == list(range(len(hits.moments)))
    assert [one["destination"].place.number for one in opened] == [number + 1 for number in at]
    assert len({one["destination"].event for one in opened}) == len(opened)
    monkeypatch.setattr(gr, "Warning", lambda words: None)
    assert searching.open_hit(NO_CONTEXT, batches, hits, len(at)) == PlayerView()
    assert searching.open_hit(NO_CONTEXT, batches, None, 0) == PlayerView()


def test_the_moments_are_exported(batches: BatchContext) -> None:
    written = export(batches, [MOMENTS], select("a", "failure:missed is:message"))
    path = Path(next(written))
    assert path.name == file_name("a", MOMENTS)
    with path.open(newline="") as file:
        assert [row["video_id"] for row in csv.DictReader(file)] == ["v1"]


def test_slices_of_two_users_at_a_time_are_both_kept_up_to_a_limit(
    batches: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = Semaphore(0), Event()

    def write_slowly(path: Path, content: Any) -> None:
        begun.release()
        assert goes_on.wait(60)
        write_json(path, content)

    monkeypatch.setattr(slices, "write_json", write_slowly)
    with ThreadPoolExecutor() as pool:
        saved = [pool.submit(choosing.save_slice, batches, select("a", "video:v1"), name) for name in ("one", "two")]
        assert begun.acquire(timeout=60)
        begun.acquire(timeout=0.2)  # by the second, if it is not kept waiting
        goes_on.set()
        assert all("1 video saved." in view.result() for view in saved)
    assert {"one", "two"} <= set(read_slices(batches, "a"))
    monkeypatch.setattr(slices, "MAX_SLICES", 2)
    assert "a split has at most 2 slices" in choosing.save_slice(batches, select("a", "video:v1"), "three")
    assert "1 video saved." in choosing.save_slice(batches, select("a", "video:v0"), "one")
