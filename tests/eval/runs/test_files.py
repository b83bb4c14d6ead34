"""Readers of run folders: types are checked, invalid files are named, and the rest is still read."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.eval.reports.table_files import read_results
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample, explain_missing, explain_rerun
from tests.support.data.damage import change, copy_of, damage, few, refusal_of
from tests.support.data.run_folders import SAMPLES, score, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a finished run of two videos with its tables."""
    return write_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("a.jsonl", {"speak_prob": 1.5}, "line 1: speak_prob: .*less than or equal to 1; got 1.5"),
        ("a.jsonl", {"dst_state": {"S1": "completed"}}, "line 1: dst_state must have the steps of the split, S1, S2"),
        ("a.record.json", {"peak_memory_mb": "9"}, r"a\.record\.json cannot be read: peak_memory_mb: .*; continue the"),
    ],
)
def test_a_wrong_value_fails_its_video_alone_and_a_resumed_run_makes_it_again(
    run: Path, name: str, changes: dict[str, object], reason: str
) -> None:
    change(run / name, **changes)
    scored = score(run)
    assert list(scored.errors) == ["a"]
    assert re.search(reason, scored.errors["a"])
    assert scored.report.num_videos == 1
    folder = RunFolder(run)
    assert folder.find_finished(SAMPLES[0]) is None
    assert folder.find_finished(SAMPLES[1]) is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"config": {"speak_threshold": "0.5"}}, "config.speak_threshold must be a number; got '0.5'"),
        ({"zero_cost": "lose"}, "zero_cost: .*'keep' or 'drop'"),
    ],
)
def test_a_wrong_setting_refuses_the_run_by_name(run: Path, changes: dict[str, object], reason: str) -> None:
    change(run / "run.json", **changes)
    with pytest.raises(ValueError, match=rf"run\.json cannot be read: {reason}.*; restore the file, or run into a new"):
        score(run)


def test_settings_of_other_versions_are_read(run: Path) -> None:
    content = {"split": "/val.json", "config": {"of_tomorrow": {"deep": 1}}, "tokenizer_digest": "x", "seen": None}
    (run / "run.json").write_text(json.dumps(content))
    assert RunFolder(run).settings() == content


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("charts.json", {"leads_s": {"speak": [{"lead_s": "1", "num_events": 1}]}}, r"leads_s\.speak\[0\]\.lead_s"),
        ("metrics.json", {"scores": {"F1": "high"}}, r"metrics.json cannot be read: scores\.F1"),
    ],
)
def test_a_bad_table_is_named_and_the_others_are_shown(
    run: Path, name: str, content: dict[str, Any], reason: str
) -> None:
    change(run / name, **content)
    results = read_results(run)
    assert len(results.rows) == 2
    (problem,) = results.problems
    assert re.search(reason, problem)


@pytest.mark.parametrize("name", ["a.jsonl", "run.json", "metrics.json"])
def test_a_pipe_or_a_device_in_place_of_a_file_is_not_read(run: Path, name: str) -> None:
    (run / name).unlink()
    (run / name).symlink_to("/dev/null")  # /dev/zero and a pipe have no end, should they be read
    said = [
        *read_results(run).problems,
        refusal_of(lambda: RunFolder(run).settings()),
        refusal_of(lambda: RunFolder(run).outputs(SAMPLES[0])),
    ]
    (problem,) = filter(None, said)
    assert f"{name} cannot be read: it is a pipe or a device, not a file" in problem


FILES = ("run.json", "a.jsonl", "a.record.json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that is not changed."""
    return write_run(tmp_path_factory.mktemp("runs") / "whole")


@settings(few, max_examples=12)
@given(data=st.data())
def test_any_damage_is_a_result_or_a_sentence(whole: Path, data: st.DataObject) -> None:
    run, folder = copy_of(whole, "damaged"), RunFolder(whole.parent / "damaged")
    for name in data.draw(st.lists(st.sampled_from(FILES), min_size=1, max_size=2, unique=True)):
        damage(run / name, data.draw)
    if refusal := refusal_of(lambda: score(run)):
        assert "run.json cannot be read" in refusal
        return
    scored = score(run)
    assert "b" not in scored.errors
    assert all(reason and "\n" not in reason for reason in scored.errors.values())
    for sample in SAMPLES:  # a video is kept only if it has scores
        if folder.find_finished(sample) is not None:
            assert sample.video_id not in scored.errors
            assert not explain_missing(sample, folder.record(sample.video_id))


def test_another_video_of_the_same_name_and_size_is_not_that_of_the_run(tmp_path: Path) -> None:
    video = tmp_path / "a.mp4"
    video.write_bytes(b"head" + bytes(3 * 2**20) + b"tail")
    folder = write_run(tmp_path / "run")
    sample = replace(SAMPLES[0], video_path=video)
    outputs = RunFolder(folder).outputs(SAMPLES[0])
    record = VideoRecord(video_id="a", source=digest_sample(sample), num_frames=len(outputs))
    RunFolder(folder).save_video(record, outputs)
    assert RunFolder(folder).find_finished(sample) == record
    for content in (b"HEAD" + bytes(3 * 2**20) + b"tail", b"head" + bytes(3 * 2**20) + b"TAIL"):
        video.write_bytes(content)
        assert RunFolder(folder).find_finished(sample) is None
        assert "its video file, changed since the earlier run" in explain_rerun(record, sample)
    of_earlier_version = replace(record, source=record.source.partition("-")[0])
    RunFolder(folder).save_video(of_earlier_version, outputs)
    assert RunFolder(folder).find_finished(sample) == of_earlier_version, "it kept no digest of the file"
