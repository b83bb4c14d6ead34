"""Splits that are added while the page runs."""

import json
import os
import resource
import signal
from collections import ChainMap
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event, Semaphore
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.batch.new_run import own_splits
from stepscope.app.batch.new_run.own_splits import add_files, add_path, delete_upload, read_kept_splits
from stepscope.app.batch.new_run.split_table import open_row, show_split
from stepscope.app.batch.training import list_sources
from stepscope.app.core.batch_context import SPLITS_FOLDER, BatchContext
from stepscope.app.core.job_queue import JobQueue
from stepscope.app.core.places import RecentSessions
from stepscope.app.player.review import answer
from stepscope.app.review_store.store import open_store
from stepscope.app.server.identity import current_user
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.engine.io.files import digest_file
from stepscope.engine.video.reader import probe
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import InvalidSample, Sample, Split
from stepscope.eval.data.writers import write_samples
from tests.support.data.batches import SCORING, copies, make_worker_config, write_split
from tests.support.streams.fakes import anybody, count_letters


@pytest.fixture
def batches(demo_manifest: Path, tmp_path: Path) -> BatchContext:
    (tmp_path / "data").mkdir()
    path = write_split(tmp_path / "data", *copies(demo_manifest, tmp_path / "data", 3))
    return BatchContext(
        jobs=JobQueue(encode=count_letters, scoring=SCORING),
        splits={"split": read_split(path)},
        runs=tmp_path / "runs",
        work=make_worker_config(tmp_path),
        takes_paths=True,
        recent=RecentSessions(current_user.get),
    )


@pytest.fixture
def samples(batches: BatchContext) -> tuple[Sample, ...]:
    return batches.splits["split"].samples


def write(path: Path, *samples: Sample) -> str:
    path.parent.mkdir(exist_ok=True)
    write_samples(path, samples, file_format="manifest")
    return str(path)


def test_a_path_adds_a_split_for_all_windows_and_reads_it_again(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    path = write(tmp_path / "own.json", *samples[:2])
    view = add_path(batches, f" {path} ")
    assert view.status.value == "The split “own” has 2 videos."
    assert (view.split.value, [name for name, _ in view.split.choices]) == ("own", ["split", "own"])
    write(Path(path), samples[0])
    assert add_path(batches, path).status.value == "The split “own” has 1 video."
    reviewed: MutableMapping[str, Split] = ChainMap(batches.splits, {})
    assert "own" in reviewed


def test_a_page_that_others_see_takes_no_paths(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    path = write(tmp_path / "own.json", *samples)
    assert "this page accepts no paths" in add_path(replace(batches, takes_paths=False), path).status.value
    assert set(batches.splits) == {"split"}


def test_an_upload_finds_its_videos_among_those_of_the_page_and_names_no_others(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    (tmp_path / "secret.mp4").write_bytes((tmp_path / "data" / "v0.mp4").read_bytes())
    foreign = replace(samples[2], video_id="x", video_path=tmp_path / "secret.mp4")
    by_id = replace(samples[1], video_path=None, goal="mine")
    upload = write(tmp_path / "uploads" / "own.json", samples[0], by_id, foreign)
    Path(upload).write_text(
        json.dumps({**json.loads(Path(upload).read_text()), "provenance": {"reference_writer": "m"}})
    )
    view = add_files(batches, [upload])
    assert view.status.value.startswith("⚠ The split “own” has 2 videos. Unusable records: 1; the first: x: ")
    assert (
        "an uploaded split cannot use files of the server, and this page has no such video: secret.mp4"
        in view.status.value
    )
    assert view.split.value == "own"
    first, second, third = batches.splits["own"].entries
    assert [entry.video_path for entry in (first, second)] == [s.video_path for s in samples[:2]]  # type: ignore[union-attr]
    assert isinstance(third, InvalidSample)
    kept: dict[str, Split] = {}
    assert read_kept_splits(kept, batches.runs / SPLITS_FOLDER) == []
    assert [(sample.video_id, sample.goal) for sample in kept["own"].samples] == [
        ("v0", samples[0].goal),
        ("v1", "mine"),
    ]
    assert kept["own"].reference_writer == batches.splits["own"].reference_writer == "m", "its scores are marked"
    assert kept["own"].path == batches.splits["own"].path, "its runs can be opened after a restart"


def test_a_vocabulary_is_uploaded_after_its_split(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    ann = current_user.set("ann")
    file = tmp_path / "uploads" / "own.vocabulary.json"
    add_files(batches, [write(tmp_path / "uploads" / "own.json", samples[0])])
    file.write_text('{"tags": {"blurry": ""}}')
    assert add_files(batches, [str(file)]).status.value == "The split “own” has this vocabulary now."
    token = current_user.set("ben")
    assert "has a vocabulary of the user who uploaded it" in add_files(batches, [str(file)]).status.value
    current_user.reset(token)
    file.write_text('{"tags": ["dark"]}')
    assert "own.vocabulary.json cannot be read: tags: " in add_files(batches, [str(file)]).status.value
    reviews = ReviewContext(store=open_store(tmp_path / "reviews.sqlite"), splits=batches.splits)
    asked = {"video_id": samples[0].video_id, "reviewer": "", "is_blind": False, "has_layer": None, "actions": []}
    assert answer(reviews, asked, request=anybody())["state"]["vocabulary"]["tags"] == [["blurry", ""]], (
        "the first split has none"
    )
    assert read_kept_splits({}, batches.runs / SPLITS_FOLDER) == [], "it is no split"
    current_user.reset(ann)
    of_page = file.rename(file.with_name("split.vocabulary.json"))
    assert (
        "no split called split was uploaded; upload split.json first" in add_files(batches, [str(of_page)]).status.value
    )


def test_an_upload_of_a_known_name_leaves_the_split_of_this_name_alone(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    before = batches.splits["split"]
    said = add_files(batches, [write(tmp_path / "uploads" / "split.json", samples[0])]).status.value
    assert "the page has another split called split; rename the file" in said
    assert batches.splits["split"] is before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("no JSON", "own.json cannot be read as JSON"),
        ('{"videos": [{"video_id": "x"}]}', "own.json, video x: num_frames is missing"),
        (None, "there is no file "),
    ],
)
def test_a_file_that_is_no_split_is_refused_in_a_sentence(
    batches: BatchContext, tmp_path: Path, content: str | None, words: str
) -> None:
    path = tmp_path / "own.json"
    if content is not None:
        path.write_text(content)
        assert words in add_files(batches, [str(path)]).status.value
    said = add_path(batches, str(path)).status.value
    assert said.startswith("⚠ ")
    assert words in said
    assert set(batches.splits) == {"split"}
    assert "the path is empty" in add_path(batches, " ").status.value


def test_the_user_with_the_most_uploads_loses_the_oldest_that_was_not_run(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_splits, "MAX_ADDED", 4)
    folder = batches.runs / SPLITS_FOLDER

    def add(name: str, user: str) -> str:
        token = current_user.set(user)
        said: str = add_files(batches, [write(tmp_path / "uploads" / f"{name}.json", samples[0])]).status.value
        current_user.reset(token)
        return said

    for age, (name, user) in enumerate([("anns", "ann"), ("run", "bob"), ("unused", "bob"), ("later", "bob")]):
        add(name, user)
        os.utime(folder / f"{name}.json", (age, age))
    (batches.runs / "a").mkdir()
    (batches.runs / "a" / "run.json").write_text(json.dumps({"split": str(folder / "run.json")}))
    (folder / "unused.vocabulary.json").write_text("[]")
    add("new", "cid")
    assert set(batches.splits) == {"split", "anns", "run", "later", "new"}
    assert sorted(path.stem for path in folder.glob("*.json")) == ["anns", "later", "new", "run"]
    assert sorted(path.stem for path in folder.glob("*.owner")) == ["anns", "later", "new", "run"]
    monkeypatch.setattr(own_splits, "MAX_ADDED", 1)
    monkeypatch.setattr(
        batches.jobs, "active_jobs", lambda: [SimpleNamespace(split=s) for s in batches.splits.values()]
    )
    assert "1 uploads with runs are stored already" in add("x", "cid")


def test_an_upload_of_ones_own_is_deleted_unless_it_has_runs(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    folder = batches.runs / SPLITS_FOLDER
    for name in ("mine", "run"):
        add_files(batches, [write(tmp_path / "uploads" / f"{name}.json", samples[0])])
    (batches.runs / "a").mkdir()
    (batches.runs / "a" / "run.json").write_text(json.dumps({"split": str(folder / "run.json")}))
    assert "has runs, so it stays" in delete_upload(batches, "run").status.value
    for name in ("split", "../mine"):
        assert "is no upload of yours" in delete_upload(batches, name).status.value
    (folder / "mine.owner").write_text("ann")
    assert "is no upload of yours" in delete_upload(batches, "mine").status.value
    assert "status" not in vars(delete_upload(batches, None)), "it was not confirmed"
    token = current_user.set("ann")
    left = delete_upload(batches, "mine").split
    current_user.reset(token)
    assert [name for name, _ in left.choices] == ["split", "run"]
    assert sorted(path.name for path in folder.iterdir()) == ["run.json"]


def test_a_visitor_finds_the_own_uploads_and_their_runs_in_lists_and_not_those_of_others(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    visitor = ["ann"]
    batches = replace(batches, recent=RecentSessions(lambda: visitor[0]))
    token = current_user.set("ann")
    offered = add_files(batches, [write(tmp_path / "uploads" / "mine.json", samples[0])]).split.choices
    assert [name for name, _ in offered] == ["split", "mine"]
    current_user.reset(token)
    (batches.runs / "a").mkdir()
    (batches.runs / "a" / "run.json").write_text(json.dumps({"split": str(batches.splits["mine"].path)}))

    def listed() -> tuple[object, ...]:
        sources = [name for name, _ in list_sources(batches, None).choices]
        return [*batches.listed_splits()], batches.listed_runs(), batches.newest_run(), sources

    mine = (["split", "mine"], ["a"], "a", ["split: split", "split: mine"])
    nothing: tuple[object, ...] = (["split"], [], None, ["split: split"])
    assert listed() == mine
    visitor[0] = "window 2"
    assert listed() == nothing
    assert batches.need_run("a"), "by its link"
    batches = replace(batches, recent=RecentSessions(lambda: visitor[0]))  # after a restart
    assert listed() == nothing
    visitor[0] = "ann"
    assert listed() == mine
    batches = replace(batches, recent=RecentSessions())  # a page of one person
    assert listed() == mine


def test_of_two_uploads_of_one_name_at_a_time_the_second_is_refused(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = Semaphore(0), Event()

    def digest_slowly(path: Path) -> str:
        begun.release()
        assert goes_on.wait(60)
        return digest_file(path)

    batches = replace(batches, takes_paths=False)  # where no visitor may replace an upload
    files = [write(tmp_path / folder / "own.json", one) for folder, one in zip("ab", samples[:2], strict=True)]
    monkeypatch.setattr(own_splits, "digest_file", digest_slowly)
    with ThreadPoolExecutor() as pool:
        added = [pool.submit(add_files, batches, [file]) for file in files]
        assert begun.acquire(timeout=60)
        begun.acquire(timeout=0.2)  # by the second, if it is not kept waiting
        goes_on.set()
        said = sorted(view.result().status.value for view in added)
    assert said[0] == "The split “own” has 1 video."
    assert "the page has another split called own; rename the file" in said[1]


def test_a_full_disk_keeps_the_earlier_vocabulary(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    file = tmp_path / "uploads" / "own.vocabulary.json"
    add_files(batches, [write(tmp_path / "uploads" / "own.json", samples[0])])
    file.write_text('{"tags": {"blurry": ""}}')
    add_files(batches, [str(file)])
    file.write_text(json.dumps({"tags": {f"tag {number}": "long" * 9 for number in range(30)}}))
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1][1]))
    try:
        said = add_files(batches, [str(file)]).status.value
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[1])
        signal.signal(signal.SIGXFSZ, before[0])
    assert "File too large" in said
    assert (batches.runs / SPLITS_FOLDER / file.name).read_text() == '{"tags": {"blurry": ""}}'


def test_an_upload_does_not_replace_a_stored_split_that_cannot_be_read(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    (batches.runs / SPLITS_FOLDER).mkdir(parents=True)
    stored = batches.runs / SPLITS_FOLDER / "own.json"
    stored.write_text('{"videos": [{"video_id"')
    assert len(read_kept_splits(batches.splits, stored.parent)) == 1
    said = add_files(batches, [write(tmp_path / "uploads" / "own.json", samples[0])]).status.value
    assert "the page keeps an unreadable split called own; rename the file" in said
    assert stored.read_text() == '{"videos": [{"video_id"'


def test_a_vocabulary_whose_owner_cannot_be_read_is_replaced_by_nobody(
    batches: BatchContext, samples: tuple[Sample, ...], tmp_path: Path
) -> None:
    file = tmp_path / "uploads" / "own.vocabulary.json"
    add_files(batches, [write(tmp_path / "uploads" / "own.json", samples[0])])
    file.write_text('{"tags": {"blurry": ""}}')
    add_files(batches, [str(file)])
    (batches.runs / SPLITS_FOLDER / "own.owner").write_bytes(b"\xff\xfe")
    file.write_text('{"tags": {"dark": ""}}')
    assert "own.owner cannot be read: " in add_files(batches, [str(file)]).status.value
    assert (batches.runs / SPLITS_FOLDER / file.name).read_text() == '{"tags": {"blurry": ""}}'


TEA = """video,start,end,step,goal
kettle,0:01,0:02,fill the kettle,make tea
kettle,0:02,0:04,boil the water,make tea
kettle,0:02,0:04,boil the water,make tea
v0,0:01,0:02,a <b>step</b>,build
late,0:01,,nothing,build
"""


def test_annotated_segments_become_a_split_whose_missing_videos_are_drawn(
    context: AppContext, batches: BatchContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, graph = tmp_path / "tea.csv", tmp_path / "make tea.json"
    table.write_text(TEA)
    graph.write_text(json.dumps({"steps": {"7": "fill the kettle", "9": "boil the water"}, "edges": [[7, 9]]}))
    view = add_files(batches, [str(table), str(graph)], True)
    line = "table: 2 videos, 3 steps, 1 without a file (drawn), 1 duplicate, 1 without a recipe."
    assert view.status.value.startswith(
        f"⚠ The split “tea” has 2 videos. {line} Unusable records: 1; the first: late: row 5: "
    )
    assert (view.split.value, view.views.selected) == ("tea", "Split")
    kettle, found = batches.splits["tea"].samples
    assert kettle.video_path is not None
    assert probe(kettle.video_path).duration_s == kettle.num_frames / 2
    assert found.video_path == (tmp_path / "data" / "v0.mp4").resolve()
    shown = show_split(batches, "tea")
    late = shown.videos["data"][2][-1]
    assert shown.videos["data"] == [
        ["kettle", "0:04", "make tea", 2, 3, "drawn", "1 duplicate"],
        ["v0", shown.videos["data"][1][1], "build", 1, 1, "found", "1 without a recipe"],
        ["late", "", "", None, None, "", late],
    ]
    assert late.startswith("unusable: ")
    assert '<li>boil the water <span class="dim">(after 1)</span></li>' in shown.recipes
    assert "a &lt;b&gt;step&lt;/b&gt;" in shown.recipes
    event: Any = SimpleNamespace(row_value=["kettle"])
    opened = open_row(replace(context, splits=batches.splits), batches, "tea", event)
    assert (opened.tabs.selected, getattr(opened.clip, "path", None)) == ("player", kettle.video_path)
    assert add_files(batches, [str(table), str(graph)], True).status.value == view.status.value, "a second time"
    (other := tmp_path / "other").mkdir()
    (other / "tea.csv").write_text(TEA.replace("0:04", "0:05"))
    shared = replace(batches, takes_paths=False)
    refused = add_files(shared, [str(other / "tea.csv")], True).status.value
    assert "the page has another split called tea; rename the file" in refused, "anybody could replace it"
    assert list((batches.runs / SPLITS_FOLDER).glob("*.drawn")) == [kettle.video_path.parent]
    assert add_files(batches, [str(other / "tea.csv"), str(graph)], True).views.selected == "Split"
    kettle = batches.splits["tea"].samples[0]
    assert kettle.video_path is not None
    assert probe(kettle.video_path).duration_s == 5.5, "an own split without runs is replaced"
    assert list((batches.runs / SPLITS_FOLDER).glob("*.drawn")) == [kettle.video_path.parent]
    shown = show_split(batches, "tea")
    kept: dict[str, Split] = {}
    assert read_kept_splits(kept, batches.runs / SPLITS_FOLDER) == []
    assert show_split(replace(batches, splits=kept), "tea").videos["data"][0] == shown.videos["data"][0]
    monkeypatch.setattr(own_splits, "MAX_ADDED", 1)
    add_files(batches, [str(table.rename(tmp_path / "other.csv"))])
    assert not kettle.video_path.parent.exists(), "the drawn videos go with their split"


def test_annotations_at_a_path_find_the_videos_beside_them(batches: BatchContext, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "data" / "v1.mp4").rename(tmp_path / "own" / "kettle.mp4")
    (tmp_path / "own" / "tea.csv").write_text(TEA)
    said = add_path(batches, str(tmp_path / "own" / "tea.csv")).status.value
    assert "table: 2 videos, 3 steps, 1 duplicate." in said
    assert batches.splits["tea"].samples[0].video_path == (tmp_path / "own" / "kettle.mp4").resolve()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "one,two\n1,2\n", "no data set has the columns one, two; name those of yours with stepscope annot"),
        (
            "a.csv",
            TEA.replace("0:01,0:02", "nan,0:02"),
            "⚠ kettle: row 1: a time is a number, or like 1:30; got 'nan'.",
        ),
        ("a.csv", TEA.replace("0:04", "9:00:00"), "the missing videos last 32,4"),
        ("a.json", '{"database": {}}', "has an unknown format"),
    ],
)
def test_annotations_that_cannot_be_used_are_one_sentence(
    batches: BatchContext, tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text)
    said = add_files(batches, [str(tmp_path / name)], True).status.value
    assert said.startswith("⚠ ")
    assert words in said
    assert set(batches.splits) == {"split"}
