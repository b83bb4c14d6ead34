"""Every export format: its files, its place in the documents; dataset folders as ``datasets`` loads them."""

import html
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.app.exports.dataset import write_dataset
from stepscope.app.exports.folder import gather_videos
from stepscope.app.exports.formats import EXPORT_FORMATS, write_export
from stepscope.app.exports.rows import ROW_TYPES, build_tables
from stepscope.app.exports.spans import write_webvtt
from stepscope.app.review_store.actions import Action
from stepscope.app.review_store.review import fold_actions
from stepscope.app.review_store.store import open_store
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.data.samples import Turn
from stepscope.eval.data.writers import write_samples
from stepscope.eval.runs.folder import RunFolder, VideoRecord
from stepscope.eval.runs.imports.import_results import import_into
from tests.support.paths import ROOT
from tests.support.reviews.exported import read_json_tables
from tests.support.reviews.reviewed import EVIL, NAMES, SAMPLE, SAMPLES, output, reviewed_video


def test_an_export_into_a_run_folder_is_refused_since_a_video_may_have_the_name_of_its_files(run: RunFolder) -> None:
    videos = gather_videos([replace(SAMPLES[0], video_id="run")], review=fold_actions([]))
    files = {path: path.read_bytes() for path in run.path.iterdir()}
    for form in EXPORT_FORMATS:
        with pytest.raises(ValueError, match="holds a run, whose files an export may replace"):
            write_export(run.path, videos, file_format=form)
    assert {path: path.read_bytes() for path in run.path.iterdir()} == files


def test_every_form_of_a_run_lies_in_its_folder_whatever_the_videos_are_called(run: RunFolder, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[parquet]'")
    videos = gather_videos(SAMPLES, review=fold_actions([]), run=run)
    for form in EXPORT_FORMATS:
        write_export(tmp_path / form, videos, file_format=form)
    found = {form: sorted(path.name for path in (tmp_path / form).iterdir()) for form in EXPORT_FORMATS}
    tables = ["corrections.csv", "predictions.csv", "references.csv", "states.csv", "verdicts.csv"]
    expected = {
        "csv": tables,
        "json": ["review.json"],
        "webvtt": ["..%2Fcar %3D1.vtt", "boat.vtt"],
        "eaf": ["..%2Fcar %3D1.eaf", "boat.eaf"],
        "dataset": ["README.md", "predictions", "references", "states"],
    }
    assert {form: found[form] for form in expected} == expected
    for form, described in EXPORT_FORMATS.items():  # those that are added later, too
        assert found[form], form
        if described.ending:
            assert found[form] == [f"..%2Fcar %3D1{described.ending}", f"boat{described.ending}"]
    assert read_json_tables(tmp_path / "json" / "review.json") == build_tables(videos)
    assert {row.video_id for row in build_tables(videos).predictions} == {"boat"}


MOVED = Correction(reviewer="=cmd()", kind="boundary", turn=NAMES[3], time_s=3.5)


PLAIN_EVIL = EVIL.replace("\ud83d", "?")


def parse_webvtt(text: str) -> list[tuple[str, str, str]]:
    """Return times, voice and text of each cue, by the rules of the format: a blank line ends a cue."""
    header, *blocks = text.rstrip("\n").split("\n\n")
    assert header == "WEBVTT"
    cues = []
    for block in blocks:
        _, times, payload = block.split("\n")
        voice, _, words = payload.removeprefix("<v ").partition(">")
        assert "<" not in words
        assert "-->" not in payload
        cues.append((times, html.unescape(voice), html.unescape(words)))
    return cues


def test_captions_name_their_track_and_hold_hostile_texts_whole(tmp_path: Path) -> None:
    write_webvtt(tmp_path / "boat.vtt", build_tables([reviewed_video(MOVED)]))
    cues = parse_webvtt((tmp_path / "boat.vtt").read_text())
    assert ("00:00:01.500 --> 00:00:03.500", "model: assistant", PLAIN_EVIL.replace("\0", "\ufffd")) in cues
    assert ("00:00:03.500 --> 00:00:05.500", "corrected: update", "S2->start") in cues
    assert ("00:00:01.000 --> 00:00:06.000", "model state: S1", "in_progress") in cues
    assert ("00:00:01.500 --> 00:00:03.500", "verdicts: <script>", "unclear (generated)") in cues
    note = next(words for _, voice, words in cues if voice == "verdicts: =cmd()")
    assert note == f"unclear [+1, {PLAIN_EVIL}]: {PLAIN_EVIL} (generated)".replace("\0", "\ufffd")


ANSWERS = {3: "Attach the cabin.", 7: "Good: 1 < 2."}
COSTS_MS = {0: 20.0, 3: 480.0, 5: math.nan}


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    sample = replace(SAMPLE, turns=(Turn(time_s=1.5, role="user", text="What is next?"),))
    write_samples(tmp_path / "split.json", [sample], file_format="manifest")
    (sample,) = read_split(tmp_path / "split.json").samples
    run = RunFolder(tmp_path / "run")
    outputs = [
        replace(
            output(index), response=ANSWERS.get(index), updates=(), legality=(), latency_ms=COSTS_MS.get(index, 0.0)
        )
        for index in range(sample.num_frames)
    ]
    run.save_video(VideoRecord(video_id=sample.video_id, source="s", num_frames=len(outputs)), outputs)
    run.write_settings({"split": str(tmp_path / "split.json")})
    videos = gather_videos([sample], review=fold_actions([]), run=run)
    write_export(tmp_path / "out", videos, file_format="videollm-online")
    (path,) = (tmp_path / "out").iterdir()
    return path


def test_each_frame_has_its_cost_and_a_question_is_before_its_answer(exported: Path) -> None:
    content = json.loads(exported.read_text("utf-8"))
    assert content["frame_fps"] == 2.0
    steps = content["conversation"]
    assert steps[0] == {"time": 0.0, "fps": 50.0, "cost": 0.02}
    assert steps[1] == {"time": 0.5, "fps": 100.0, "cost": 0.0}
    assert steps[3:5] == [  # 4 frames in 0.02 + 0.48 s
        {"role": role, "content": f"(Video Time = 1.5s) {words}", "time": 1.5, "fps": 8.0, "cost": 0.48}
        for role, words in (("user", "User: What is next?"), ("assistant", "Assistant: Attach the cabin."))
    ]
    assert steps[6] == {"time": 2.5, "fps": 12.0, "cost": 0.0}, "an unknown cost"


def test_the_written_file_is_imported_with_the_same_texts(exported: Path, tmp_path: Path) -> None:
    split = read_split(tmp_path / "split.json")
    assert import_into(tmp_path / "again", [exported], split, {}) == {}
    outputs = RunFolder(tmp_path / "again").outputs(split.samples[0])
    assert {one.frame_index: one.response for one in outputs if one.response} == ANSWERS
    assert outputs[3].latency_ms == 480.0
    assert len(outputs) == split.samples[0].num_frames


def test_the_datasets_library_loads_every_table_with_its_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="the datasets library is not installed")
    like_a_time = replace(reviewed_video(MOVED), video_id="2026-01-02", review=fold_actions([]))
    tables = build_tables([reviewed_video(MOVED)])
    dated = build_tables([like_a_time])
    write_dataset(tmp_path / "folder", {"test": tables, "dated": dated})
    for name, row in ROW_TYPES.items():
        for split, wanted in (("test", tables), ("dated", dated)):
            if not getattr(wanted, name):
                continue
            loaded = datasets.load_dataset(
                str(tmp_path / "folder"), name, split=split, cache_dir=str(tmp_path / "cache")
            )
            records = [
                row(**{column: tuple(value) if isinstance(value, list) else value for column, value in record.items()})
                for record in loaded
            ]
            assert tuple(records) == getattr(wanted, name)
    assert str(loaded.features["time_s"].dtype) == "float64"


SOURCE = ROOT / "tests" / "data" / "imports" / "gold.json"


def test_the_command_writes_corrected_gold_answers_that_load_again(tmp_path: Path) -> None:
    (tmp_path / "gold.json").write_text(json.dumps(json.loads(SOURCE.read_text())[:1]))
    split = read_split(tmp_path / "gold.json")
    (sample,) = split.samples
    answer = name_turns(sample.turns)[1]
    changes = (
        Correction(reviewer="ann", kind="text", turn=answer, text="It boils."),
        Correction(reviewer="ann", kind="span", turn=answer, time_s=4.0, end_s=6.5),
    )
    actions = [Action(kind="correction", reviewer="ann", video_id="kettle", correction=change) for change in changes]
    with open_store(tmp_path / "reviews.sqlite") as store:
        store.append_all(actions)
    options = ["--format", "proactive-videoqa", "--reviews", str(tmp_path / "reviews.sqlite")]
    assert main(["export", "split", str(split.path), *options, "--out", str(tmp_path / "new.json")]) == 0
    (found,) = read_samples(tmp_path / "new.json")
    assert found == replace(sample, turns=(sample.turns[0], replace(sample.turns[1], text="It boils.", end_s=6.5)))
