"""The reviews tab without a browser: progress, agreement, what is to be settled, exports, imports, who may come in."""

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from app.__main__ import main as serve
from app.batch import saved_runs as saved
from app.batch.context import BatchContext
from app.batch.job_queue import JobQueue
from app.exports.__main__ import main as export
from app.identity import read_users
from app.player.context import AppContext
from app.player.review_context import ReviewContext
from app.review_tab import handlers
from app.review_tab.handlers import ReviewView
from app.review_tab.import_export import REVIEW_EXPORTS, SPLIT_EXPORTS
from app.review_tab.query import UNSPLIT, ReviewQuery
from app.reviews.actions import Action, Event, Moment, Verdict
from app.reviews.events import match_events, name_events, reference_event
from app.reviews.store import open_store
from app.videos import read_splits, sample_clip
from app.widgets import list_components
from eval.annotations.corrections import Correction, TurnName, name_turns
from eval.data.loading import read_samples
from eval.metrics.score import analyze_video
from eval.runs.folder import RunFolder, write_settings
from tests.support.batches import SCORING, make_worker_config, no_java
from tests.support.benches import make_context, views
from tests.support.browser import free_port
from tests.support.desks import HOSTILE, ReviewedSplit, clicked_by, write_reviewed
from tests.support.fakes import count_letters


@pytest.fixture
def reviewed(demo_manifest: Path, tmp_path: Path) -> ReviewedSplit:
    return write_reviewed(demo_manifest, tmp_path)


@pytest.fixture
def batches(reviewed: ReviewedSplit, tiny_folder: Path) -> BatchContext:
    return BatchContext(
        jobs=JobQueue(encode=count_letters, scoring=SCORING, make_scorer=no_java),
        splits=read_splits([], [reviewed.split]),
        runs=reviewed.runs,
        work=make_worker_config(tiny_folder),
        takes_paths=True,
    )


@pytest.fixture
def reviews(reviewed: ReviewedSplit, batches: BatchContext) -> Iterator[ReviewContext]:
    with open_store(reviewed.store) as store:
        yield ReviewContext(store=store, splits=batches.splits)


@pytest.fixture
def context(reviewed: ReviewedSplit, tiny_folder: Path, tmp_path: Path) -> AppContext:
    return make_context(tiny_folder, reviewed.split, tmp_path)


def make_query(**changes: Any) -> ReviewQuery:
    query = {"split": "test", "run": None, "typed": "", "is_blind": False, "request": clicked_by()}
    return ReviewQuery(**{**query, **changes})


def words(view: ReviewView) -> str:
    """Return all that a view shows."""
    rest = (view.progress, view.videos, view.agreement, view.to_settle)
    return json.dumps([view.status.value, getattr(view.prefer, "choices", None), *rest])


def figures(markup: str, verdict: str) -> str:
    """Return the row of a verdict in the table of the agreement, its cells with a blank between them."""
    row = markup.split(f"<td>{verdict}</td>")[1].split("</tr>")[0]
    return row.replace("</td><td>", " ").replace("<td>", "").replace("</td>", "")


def test_progress_agreement_and_what_is_to_be_settled_are_those_of_the_split(
    batches: BatchContext, reviews: ReviewContext
) -> None:
    other = Event(video_id="elsewhere", kind="generated", role="assistant", time_s=0.0, text="Hi.")
    told: list[tuple[str, Verdict]] = [("ann", "correct"), ("bob", "missed")]
    for who, verdict in told:
        action = Action(kind="verdict", reviewer=who, video_id="elsewhere", event=other, verdict=verdict)
        reviews.store.append(action)
    view = handlers.show(batches, reviews, make_query())
    assert view.status.value == "test: 15 events (reference turns) in 3 videos, 3 to settle."
    assert "4 of 15, 27%" in view.progress
    assert "bob" not in words(view)
    verdicts = "correct 5, missed 2, unclear 1"
    assert view.videos == [
        ["v0", 5, f"{HOSTILE} 4, ann 4", verdicts, 0, 1],
        [HOSTILE, 5, "", "", 0, 0],
        ["v2", 5, "", "", 0, 0],
    ]
    # four events, equal on three: raw 3/4; by chance (3*2 + 1*1 + 0*1) / 16 = 7/16, so kappa (12 - 7) / (16 - 7) = 5/9
    assert figures(view.agreement, "all verdicts").startswith("4 0.750 0.556 ")
    assert figures(view.agreement, "missed") == "4 1.000 1.000 1.000"
    assert figures(view.agreement, "false alarm") == "4 1.000 \N{EN DASH} \N{EN DASH}"
    assert [row[:3] for row in view.to_settle] == [
        ["v0", 0.5, "corrections differ"],
        ["v0", 0.5, "no longer fits"],
        ["v0", 2.0, "verdicts differ"],
    ]
    assert view.to_settle[2][5] == f"{HOSTILE}: unclear, ann: correct"
    assert "the source has changed" in view.to_settle[1][5]
    assert view.prefer.choices == [(HOSTILE, HOSTILE), ("ann", "ann")]


def test_a_matched_pair_is_one_event_that_one_verdict_judges(
    batches: BatchContext, reviews: ReviewContext, reviewed: ReviewedSplit
) -> None:
    sample = read_samples(reviewed.split)[0]
    name = name_turns(sample.turns)[0]
    outputs = RunFolder(reviewed.runs / "a").outputs(sample)
    said = Event(video_id="v0", kind="generated", role="assistant", time_s=1.0, text="Let's go.")
    wanted = reference_event("v0", name)
    pairs = match_events(
        name_events("v0", outputs=outputs, references=name_turns(sample.turns)),
        analyze_video(sample, outputs, encode=count_letters).judged,
    )
    assert pairs == {said.key: wanted.key}
    view = handlers.show(batches, reviews, make_query(run="a"))
    assert view.status.value.startswith("test: 15 events (reference turns and texts of a, matched pairs once)")
    assert view.videos[0][:3] == ["v0", 5, f"{HOSTILE} 3, ann 3"]  # of the pair only the reference has a verdict yet
    reviews.store.append(
        Action(kind="verdict", reviewer="ann", video_id="v0", event=said, paired=wanted, verdict="early or late")
    )
    view = handlers.show(batches, reviews, make_query(run="a"))
    assert view.videos[0][:3] == ["v0", 5, f"{HOSTILE} 3, ann 4"]
    assert "early or late 1" in str(view.videos[0][3])
    view = handlers.show(batches, reviews, make_query())  # the references only: the pair is counted with its reference
    assert view.videos[0][:3] == ["v0", 5, f"{HOSTILE} 4, ann 4"]


def test_what_was_judged_besides_counts_as_an_event_of_its_video(batches: BatchContext, reviews: ReviewContext) -> None:
    told: list[tuple[float, Verdict | None]] = [(1.0, "correct"), (1.5, None)]  # of a run; the second was taken back
    for time_s, verdict in told:
        event = Event(video_id="v0", kind="generated", role="assistant", time_s=time_s, text="Let's go.")
        reviews.store.append(Action(kind="verdict", reviewer="ann", video_id="v0", event=event, verdict=verdict))
    view = handlers.show(batches, reviews, make_query())
    assert view.status.value.startswith("test: 16 events (reference turns, and 1 more that were judged) in 3 videos")
    assert view.videos[0][:4] == ["v0", 6, f"{HOSTILE} 4, ann 5", "correct 6, missed 2, unclear 1"]
    assert "5 of 16, 31%" in view.progress
    view = handlers.show(batches, reviews, make_query(run="a"))  # which wrote it: 5 + 1 events of v0
    assert view.status.value.startswith("test: 15 events (reference turns and texts of a, matched pairs once) in 3")
    assert view.videos[0][:3] == ["v0", 5, f"{HOSTILE} 3, ann 4"]  # only ann judged both sides of the pair


def test_what_is_said_of_uploads_is_shown_and_exported(
    context: AppContext, batches: BatchContext, reviews: ReviewContext, tmp_path: Path
) -> None:
    upload = Event(video_id="mine.mp4 0123abcd", kind="generated", role="assistant", time_s=1.0, text="Hi.")
    told: list[tuple[str, Verdict]] = [("ann", "correct"), ("bob", "missed")]
    for who, verdict in told:
        reviews.store.append(
            Action(kind="verdict", reviewer=who, video_id=upload.video_id, event=upload, verdict=verdict)
        )
    query = make_query(split=UNSPLIT)
    view = handlers.show(batches, reviews, query)
    assert view.status.value == "Videos in no split: 1 judged events in 1 videos, 1 to settle."
    assert view.videos == [[upload.video_id, 1, "ann 1, bob 1", "correct 1, missed 1", 0, 0]]
    assert HOSTILE not in words(view)
    assert figures(view.agreement, "all verdicts").startswith("1 0.000 ")
    with pytest.warns(UserWarning, match="has no video in its split"):  # it is gone with its window
        handlers.open_event(context, batches, reviews, None, query, clicked(*view.to_settle[0]))
    for content in REVIEW_EXPORTS:
        if not content.endswith("dataset"):
            said, button = write(batches, reviews, query, content, [], [])
            assert said.value == f"uploads-{REVIEW_EXPORTS[content]}.zip has 1 videos."
            zipfile.ZipFile(button.value["path"]).extractall(tmp_path / "zip")
    tables = json.loads((tmp_path / "zip" / "uploads-json" / "review.json").read_text(encoding="utf-8"))
    assert [(row["reviewer"], row["verdict"]) for row in tables["verdicts"]] == told
    assert "no reference to correct" in write(batches, reviews, query, "corrected split, as manifest", [], [])[0].value
    assert "documents of uploads" in handlers.import_documents(reviews, replace(query, typed="ann"), []).value
    blind = handlers.show(batches, reviews, replace(query, typed="ann", is_blind=True))
    assert "bob" not in words(blind)
    assert blind.videos == [[upload.video_id, 1, "ann 1", "correct 1", 0, 0]]


def test_corrections_of_uploads_are_shown_and_exported_where_the_page_has_their_reference(
    batches: BatchContext, reviews: ReviewContext, tmp_path: Path
) -> None:
    sample = batches.splits["test"].samples[0]
    clip = replace(
        sample_clip(sample, sample.video_path or Path(), is_bundled=False), name="mine.mp4", content_digest="0123abcd"
    )
    own = replace(sample, video_id=clip.video_id, video_path=None)
    reviews.recent.keep_clip(replace(clip, sample=own))
    for who in ("ann", "bob"):
        for video_id in (clip.video_id, "gone.mp4 0123abcd"):
            made = Correction(reviewer=who, kind="text", turn=name_turns(own.turns)[0], text=f"Begin, {who}.")
            reviews.store.append(Action(kind="correction", reviewer=who, video_id=video_id, correction=made))
    query = make_query(split=UNSPLIT)
    view = handlers.show(batches, reviews, query)
    assert view.status.value == "Videos in no split: 0 judged events in 2 videos, 1 to settle."
    assert [row[4:] for row in view.videos] == [[0, 0], [0, 1]]
    said, button = write(batches, reviews, query, "corrected split, as manifest", ["bob"], [])
    left_out = "Omitted, since this page has no reference for them: 1 uploads."
    assert said.value == f"uploads-manifest.zip has 1 videos. {left_out}"
    zipfile.ZipFile(button.value["path"]).extractall(tmp_path / "zip")
    (found,) = read_samples(tmp_path / "zip" / "uploads-manifest" / "uploads.json")
    assert (found.video_id, found.turns[0].text) == (clip.video_id, "Begin, bob.")


def test_corrections_are_counted_by_the_turns_that_differ(batches: BatchContext, reviews: ReviewContext) -> None:
    first, second, third, *_ = name_turns(batches.splits["test"].samples[2].turns)
    new = TurnName(role="assistant", time_s=1.0, text="New.")
    corrections = [
        *(Correction(reviewer="ann", kind="time", turn=first, time_s=time_s) for time_s in (1.0, 1.5, 2.0)),
        Correction(reviewer="ann", kind="text", turn=first, text="Begin."),
        Correction(reviewer="ann", kind="time", turn=second, time_s=0.0),
        Correction(reviewer="ann", kind="time", turn=second, time_s=second.time_s),  # moved back
        Correction(reviewer="ann", kind="delete", turn=third),
        Correction(reviewer="ann", kind="add", turn=new),
    ]
    for found in corrections:
        reviews.store.append(Action(kind="correction", reviewer="ann", video_id="v2", correction=found))
    assert handlers.show(batches, reviews, make_query()).videos[2][4:] == [3, 0]  # one changed, one deleted, one added


def test_names_in_markup_are_text(batches: BatchContext, reviews: ReviewContext) -> None:
    view = handlers.show(batches, reviews, make_query())
    assert "<img" not in view.progress + view.agreement
    assert "&lt;img src=x" in view.progress


def test_a_run_adds_what_it_wrote_and_only_runs_of_the_split_are_offered(
    batches: BatchContext, reviews: ReviewContext
) -> None:
    (batches.runs / "b").mkdir()
    write_settings(batches.runs / "b", {"split": "/elsewhere.json"})
    view = handlers.show(batches, reviews, make_query(run="a"))
    assert view.status.value.startswith("test: 15 events (reference turns and texts of a, matched pairs once)")
    assert [value for _, value in view.runs.choices] == ["", "a"]
    assert view.runs.value == "a"
    view = handlers.show(batches, reviews, make_query(run="../a"))
    assert view.status.value == "⚠ there is no run '../a'; choose one from the list."
    assert view.runs.value == ""
    assert handlers.show(batches, replace(reviews, splits={}), make_query()).status.value.startswith(
        "⚠ there is no split"
    )


@pytest.mark.parametrize("is_everybody", [False, True])
def test_blind_shows_and_exports_nothing_of_the_others(
    batches: BatchContext, reviews: ReviewContext, is_everybody: bool
) -> None:
    reviews, query = replace(reviews, is_blind=is_everybody), make_query(typed=" ann ", is_blind=not is_everybody)
    view = handlers.show(batches, reviews, query)
    assert "img" not in words(view).replace(json.dumps(HOSTILE)[1:-1], "", 1)  # the video is called so
    assert "Blind mode: only the reviews of ann are shown." in view.status.value
    assert (view.agreement, [row[2] for row in view.to_settle]) == (
        handlers.HIDDEN_AGREEMENT,
        ["no longer fits"],
    )
    said, button = write(batches, reviews, query, "everything, as json", [HOSTILE], [])
    tables = json.loads(zipfile.ZipFile(button.value["path"]).read("test-json/review.json"))
    assert "It contains only the reviews of ann." in said.value
    assert {row["reviewer"] for row in (*tables["verdicts"], *tables["corrections"])} == {"ann"}
    nobody = replace(query, typed="")
    view = handlers.show(batches, reviews, nobody)
    assert "nothing is shown: write your name in Reviewer" in view.status.value
    assert "ann" not in words(view)
    assert "write your name" in write(batches, reviews, nobody, "everything, as json", [], [])[0].value


def test_who_signed_in_is_the_reviewer_whatever_is_typed(batches: BatchContext, reviews: ReviewContext) -> None:
    view = handlers.show(batches, reviews, make_query(typed=HOSTILE, is_blind=True, request=clicked_by(token="secret")))
    assert "only the reviews of ann" in view.status.value
    assert (view.reviewer.value, view.reviewer.interactive) == ("ann", False)
    assert handlers.show(batches, reviews, make_query(typed="bob")).reviewer == gr.skip()


def write(*query: Any) -> tuple[Any, Any]:
    """Write an export as far as the file that is handed out."""
    ((said, button),) = handlers.export(*query)
    return said, button


def clicked(*cells: Any) -> Any:
    return SimpleNamespace(row_value=list(cells))


def test_what_is_to_be_settled_opens_in_the_player_at_its_time(
    context: AppContext, batches: BatchContext, reviews: ReviewContext
) -> None:
    page = handlers.open_event(context, batches, reviews, None, make_query(), clicked("v0", 2.0))
    clip_view, run_view, buttons = views(page)
    shown = json.loads(run_view.player)
    assert (shown["name"], shown["open_at"], shown["turns"], len(shown["references"])) == ("v0", 2.0, [], 5)
    assert shown["open_event"] is None  # of a row that is settled by now
    assert len(shown["events"]) == 5
    shown_bytes = Path(clip_view.video).read_bytes()
    assert (clip_view.chosen, buttons.live) == ("v0", None)
    assert shown_bytes == context.bundled_videos.find("v0").path.read_bytes()
    assert page.tabs.selected == "player"
    for row in handlers.show(batches, reviews, make_query()).to_settle:  # two of them at one time
        page = handlers.open_event(context, batches, reviews, None, make_query(), clicked(*row))
        shown = json.loads(page.run.player)
        events = {event["key"]: event["text"] for event in shown["events"]}
        assert shown["open_event"] is not None
        assert events.get(shown["open_event"], "Something older.") == row[4]
        page = handlers.open_event(context, batches, reviews, None, make_query(run="a"), clicked(*row))
        assert json.loads(page.run.player)["open_event"] == shown["open_event"]
    page = handlers.open_event(context, batches, reviews, None, make_query(run="a"), clicked("v0", 2.0))
    shown = json.loads(page.run.player)
    assert (shown["run_name"], shown["open_at"]) == ("a", 2.0)
    page = handlers.open_video(context, batches, reviews, None, make_query(run="a"), clicked("v2", 5))
    assert json.loads(page.run.player)["run_name"]
    page = handlers.open_video(context, batches, reviews, None, make_query(), clicked(HOSTILE))
    assert json.loads(page.run.player)["name"] == HOSTILE
    with pytest.warns(UserWarning, match="has no video"):  # what the page shows as a notice
        page = handlers.open_event(context, batches, reviews, None, make_query(), clicked("nothing", 0.0))
    assert all(value == gr.skip() for value in list_components(page))


def test_without_a_chosen_run_the_one_that_was_judged_is_opened(
    context: AppContext, batches: BatchContext, reviews: ReviewContext
) -> None:
    digest = saved.read_saved(context, batches, "a", "v0").digest
    event = Event(video_id="v0", kind="generated", role="assistant", time_s=1.0, text="Let's go.")
    told: list[tuple[str, Verdict]] = [("ann", "correct"), ("bob", "false alarm")]
    for who, verdict in told:
        moment = Moment(run_digest=digest)
        reviews.store.append(
            Action(kind="verdict", reviewer=who, video_id="v0", event=event, verdict=verdict, moment=moment)
        )
    page = handlers.open_event(context, batches, reviews, None, make_query(), clicked("v0", 1.0))
    assert (json.loads(page.run.player)["run_name"], json.loads(page.run.player)["open_at"]) == ("a", 1.0)


def files(folder: Path) -> dict[str, bytes]:
    """Read all files; an ELAN document is dated by the second, which may pass between two exports."""
    return {
        path.relative_to(folder).as_posix(): re.sub(rb' DATE="[^"]*"', b"", path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("content", [*REVIEW_EXPORTS, *SPLIT_EXPORTS])
def test_an_export_is_what_the_command_line_writes(
    batches: BatchContext, reviews: ReviewContext, reviewed: ReviewedSplit, tmp_path: Path, content: str
) -> None:
    if content.endswith("dataset"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[parquet]'")
    without = {"dst": ["video_path", "cause"], "proassist": ["video_path", "cause", "updates"]}
    form = REVIEW_EXPORTS.get(content) or SPLIT_EXPORTS[content]
    said, button = write(batches, reviews, make_query(run="a"), content, ["ann"], without.get(form, []))
    assert said.value.startswith(f"⚠ test-{form}.zip has 3 videos. Corrections that no longer fit")
    zipfile.ZipFile(button.value["path"]).extractall(tmp_path / "zip")
    common = ["--form", form, "--prefer", "ann", "--reviews", str(reviewed.store), "--out"]
    out = tmp_path / "cli"
    if content in REVIEW_EXPORTS:
        assert export(["write", str(reviewed.runs / "a"), *common, str(out)]) == 1  # a correction does not fit
    else:
        left = [part for name in without.get(form, []) for part in ("--without", name)]
        name = {"proassist": "test.jsonl"}.get(form, "test.json")
        left += ["--relative-to", "split"]
        assert export(["split", str(reviewed.split), *left, *common, str(out / name)]) == 1
    written = files(tmp_path / "zip" / f"test-{form}")
    assert written == files(out)
    assert written


def test_a_corrected_manifest_of_the_page_names_no_folder_of_the_server_and_says_whose_corrections_it_has(
    batches: BatchContext, reviews: ReviewContext, reviewed: ReviewedSplit, tmp_path: Path
) -> None:
    _, button = write(batches, reviews, make_query(), "corrected split, as manifest", ["ann"], [])
    zipfile.ZipFile(button.value["path"]).extractall(tmp_path / "zip")
    path = tmp_path / "zip" / "test-manifest" / "test.json"
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    found = read_samples(path, videos=tmp_path)
    assert [sample.turns[1:] for sample in found] == [sample.turns[1:] for sample in read_samples(reviewed.split)]
    assert all(sample.video_path and sample.video_path.is_file() for sample in found)
    provenance = json.loads(path.read_text(encoding="utf-8"))["provenance"]
    assert provenance.pop("last_correction_at").startswith("20")
    assert provenance == {
        "written_by": "StepScope 0.1.0",
        "source": "test.json",
        "source_sha256": hashlib.sha256(reviewed.split.read_bytes()).hexdigest(),
        "reviewers": ["ann"],
        "num_corrections": {"does not fit": 1, "effective": 1, "overruled": 1},
        "num_corrected_turns": 1,
        "prefer": ["ann"],
        "only": None,
        "without": [],
    }


def test_what_a_form_cannot_hold_is_refused_in_a_sentence(batches: BatchContext, reviews: ReviewContext) -> None:
    said, button = write(batches, reviews, make_query(), "corrected split, as dst", [], [])
    said_of_boxes = "v0: the dst format cannot hold the video's file; tick “the video's file” under “Omit from a"
    assert said_of_boxes in said.value
    assert "without" not in said.value
    assert button.interactive is False
    assert "choose one from the list" in write(batches, reviews, make_query(), "../x", [], [])[0].value


def test_documents_from_elan_become_corrections_and_others_are_refused(
    batches: BatchContext, reviews: ReviewContext, tmp_path: Path
) -> None:
    _, button = write(batches, reviews, make_query(), "everything, as eaf", [], [])
    zipfile.ZipFile(button.value["path"]).extractall(tmp_path)
    document, noise = tmp_path / "test-eaf" / "v2.eaf", tmp_path / "noise.eaf"
    text = document.read_text(encoding="utf-8").replace("Let's build the toy truck.", "Let us begin.")
    document.write_text(text, encoding="utf-8")
    noise.write_text("noise", encoding="utf-8")
    paths = [str(document), str(noise)]
    before = reviews.store.read()
    assert "write your name in Reviewer" in handlers.import_documents(reviews, make_query(), paths).value
    assert "printable" in handlers.import_documents(reviews, make_query(typed="x" * 99), paths).value
    assert reviews.store.read() == before
    said = handlers.import_documents(reviews, make_query(typed="cleo"), paths).value
    kept = [action.correction for action in reviews.store.read()[len(before) :]]
    assert [(found.reviewer, found.text) for found in kept if found] == [("cleo", "Let us begin.")]
    first, second = said.splitlines()  # the refusal first
    renamed = tmp_path / "renamed.eaf"
    renamed.write_text(text.replace("corrected: assistant", "assistant"), encoding="utf-8")
    refused = handlers.import_documents(reviews, make_query(typed="cleo"), [str(renamed)]).value
    assert refused.startswith("⚠ renamed.eaf has no tier 'corrected: assistant'; the import would delete ")
    assert refused.endswith("or tick “Delete turns whose tier is missing” and choose the file again.")
    assert len(reviews.store.read()) == len(before) + 1
    allowed = handlers.import_documents(reviews, make_query(typed="dan"), [str(renamed)], allow_deletions=True).value
    assert allowed == "renamed.eaf: 1 correction was imported for dan (deletions: 1)."
    assert len(reviews.store.read()) > len(before) + 1
    assert first.startswith("⚠ noise.eaf cannot be read as an ELAN document")
    assert second == "v2.eaf: 1 correction was imported for cleo."
    assert str(tmp_path) not in said
    assert handlers.import_documents(reviews, make_query(request=clicked_by(token="secret")), paths[:1]).value.endswith(
        "for ann."
    )


def test_users_are_lines_of_name_and_password(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("ann:a:b c \r\n\nZoé: x\n", encoding="utf-8")
    assert read_users(path) == [("ann", "a:b c "), ("Zoé", " x")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"ann:secret\nsecret\n", "line 2 is not of the form name:password"),
        (b":secret\n", "line 1 is not"),
        (b"ann:\n", "line 1 is not"),
        (b"ann :secret\n", "line 1 is not"),
        (b"ann:secret\nann:secret2\n", "line 2 repeats a name"),
        (b"\n", "has no users"),
        (b"ann:secret\xff\n", "not UTF-8 text"),
    ],
)
def test_a_wrong_file_of_users_ends_with_2_and_one_line_without_passwords(
    content: bytes, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users").write_bytes(content)
    assert serve(["--port", str(free_port()), "--auth", str(tmp_path / "users")]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert "secret" not in error


def test_a_store_that_cannot_be_opened_ends_with_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "noise.sqlite").write_bytes(b"noise " * 1000)
    nowhere = tmp_path / "nope"
    stores = (str(nowhere / "dir" / "r.sqlite"), f"sqlite:///{nowhere}/r.sqlite")
    for store in (*stores, str(tmp_path / "noise.sqlite"), "sqlite+none://", str(tmp_path)):
        assert serve(["--port", str(free_port()), "--reviews", store, "--data", str(tmp_path / "none.json")]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: the folder" if store in stores else "error: ")
        assert error.count("\n") == 1
        assert not nowhere.exists()
