import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.loading import load_model
from stepscope.eval.data.loading import read_split
from stepscope.eval.metrics.failures import failure_score
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.reports.compare_runs import compare_runs
from stepscope.eval.reports.scoring import score_run
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from tests.eval.runs.test_folder import outputs as silent_outputs
from tests.support.data.batches import SCORING, copies, make_worker_config, no_java, write_split
from tests.support.streams.batches import run_sample
from tests.support.streams.fakes import count_letters


@pytest.fixture(scope="module")
def folder(demo_manifest: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of three videos: one that speaks and one that stays silent."""
    folder = tmp_path_factory.mktemp("compared")
    checkpoint = load_model(tiny_folder, device="cpu")
    split = write_split(folder, *copies(demo_manifest, folder, 3))
    for name, threshold in (("talks", 0.0), ("silent", 1.0)):
        work = make_worker_config(tiny_folder)
        work = replace(work, config=replace(work.config, speak_threshold=threshold))
        with RunFolder.open(folder / name, {}) as run:
            for sample in read_split(split).samples:
                result = run_sample(checkpoint, work, sample)
                run.save_video(result.record, result.outputs)
    return folder


def test_a_silent_run_misses_what_the_other_says(folder: Path) -> None:
    split = read_split(folder / "split.json")
    found = compare_runs(folder / "talks", folder / "silent", split, SCORING, encode=count_letters)
    assert [video.video_id for video in found.videos] == ["v0", "v1", "v2"]
    assert found.left_out == {}
    missed = found.differences["missing_rate"]
    assert (missed.b, missed.difference) == (1.0, 1.0 - missed.a)
    assert 0 < missed.p_value <= 1
    for video, sample in zip(found.videos, split.samples, strict=True):
        spoken = [turn for turn in video.turns if sample.turns[turn.reference].role == "assistant"]
        assert {turn.wrong_in for turn in spoken} <= {"both", "only B"}
        assert sum(video.count(who) for who in ("both", "only A", "only B", "neither")) == len(video.turns)
        assert len(video.turns) == sum(turn.role != "user" for turn in sample.turns)
    assert not any(math.isnan(value.a) or math.isnan(value.b) for value in found.differences.values())


def test_the_failures_of_two_runs_are_compared_first_in_all_and_of_each_kind(folder: Path) -> None:
    split = read_split(folder / "split.json")
    found = compare_runs(folder / "talks", folder / "silent", split, SCORING, encode=count_letters, num_resamples=20)
    in_all, *of_kinds = list(found.differences.items())[: 1 + len(FAILURE_KINDS)]
    assert [name for name, _ in (in_all, *of_kinds)] == ["num_failures", *map(failure_score, FAILURE_KINDS)]
    for run, total in enumerate((in_all[1].a, in_all[1].b)):
        assert total == sum(video.scores[run]["num_failures"] for video in found.videos) > 0
    assert in_all[1].difference == sum(of_kind.difference for _, of_kind in of_kinds) != 0
    assert found.differences["failures_redundant"].b == 0, "who is silent says nothing redundant"


def test_beside_a_run_without_states_only_messages_are_compared(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "silent", tmp_path / "by-token")
    RunFolder(tmp_path / "by-token").write_settings({"config": {"decision_policy": "streaming-eos"}})
    split = read_split(folder / "split.json")
    found = compare_runs(folder / "talks", tmp_path / "by-token", split, SCORING, encode=count_letters)
    for video, sample in zip(found.videos, split.samples, strict=True):
        assert {sample.turns[turn.reference].role for turn in video.turns} == {"assistant"}
    assert found.differences["failures_missed"].b > 0
    for name in ("failures_wrong_update", "failures_missed_update", "failures_wrong_state"):
        assert (found.differences[name].a, found.differences[name].b) == (0, 0)


def test_a_run_held_against_itself_has_no_difference(folder: Path) -> None:
    split = read_split(folder / "split.json")
    found = compare_runs(folder / "talks", folder / "talks", split, SCORING, encode=count_letters, num_resamples=20)
    assert {value.difference for value in found.differences.values()} == {0.0}
    assert all(video.count("only A") == video.count("only B") == 0 for video in found.videos)


@pytest.mark.parametrize(
    ("settings", "reused", "words"),
    [
        ({}, False, ""),
        ({}, None, ""),  # it kept no embeddings
        ({}, True, "again reused kept embeddings in 3 of 3 videos"),
        ({"kept_features": True}, None, "again may have reused kept embeddings; its version did not record it"),
        ({"devices": ["cuda:0"]}, False, "the devices differ: not known in A, cuda:0 in B"),
    ],
)
def test_times_are_compared_only_where_nothing_but_the_model_made_them(
    folder: Path, tmp_path: Path, settings: dict[str, Any], reused: bool | None, words: str
) -> None:
    split = read_split(folder / "split.json")
    with RunFolder.open(tmp_path / "again", settings) as again:
        for sample in split.samples:
            record = RunFolder(folder / "talks").record(sample.video_id)
            assert record is not None
            slower = [replace(o, latency_ms=9 * o.latency_ms) for o in RunFolder(folder / "talks").outputs(sample)]
            again.save_video(replace(record, reused_features=reused), slower)
    found = compare_runs(folder / "talks", again.path, split, SCORING, encode=count_letters, num_resamples=20)
    latency = found.differences["latency_p50_ms"]
    assert latency.b == pytest.approx(9 * latency.a)
    assert found.times_problem == words
    assert math.isnan(latency.p_value) == math.isnan(latency.difference) == bool(words)
    assert not math.isnan(found.differences["missing_rate"].p_value)


def test_illegal_updates_are_counted_as_the_run_took_them(tmp_path: Path) -> None:
    steps = [{"id": "S1", "name": "hang the sail"}]
    record = {"video_id": "boat", "fps": 2.0, "num_frames": 3, "goal": "build", "steps": steps, "turns": []}
    split = read_split(write_split(tmp_path, record))
    (sample,) = split.samples
    states = {"apply": ("completed", "in_progress"), "refuse": ("not_started", "in_progress")}
    for illegal, (first, second) in states.items():
        silent = [replace(output, legality=None) for output in silent_outputs(3)]  # as other programs may write them
        outputs = [
            replace(silent[0], updates=("S1->complete",), dst_state={"S1": first}),
            replace(silent[1], updates=("S1->start",), dst_state={"S1": second}),
            replace(silent[2], dst_state={"S1": second}),
        ]
        with RunFolder.open(tmp_path / illegal, {"config": {"illegal_updates": illegal}}) as run:
            run.save_video(VideoRecord(video_id="boat", source=digest_sample(sample), num_frames=3), outputs)
    (video,) = compare_runs(tmp_path / "apply", tmp_path / "refuse", split, SCORING, encode=count_letters).videos
    assert [scores["dst_illegal"] for scores in video.scores] == [2, 1]  # the skip; then the step back, if it counted
    with no_java() as scorer:
        refused = score_run(tmp_path / "refuse", split, SCORING, encode=count_letters, scorer=scorer)
    assert refused.rows[0]["dst_illegal"] == 1


def test_unfinished_videos_are_left_out_by_name(folder: Path, tmp_path: Path) -> None:
    split = read_split(folder / "split.json")
    with pytest.raises(ValueError, match="no finished video in common"):
        compare_runs(folder / "talks", tmp_path, split, SCORING, encode=count_letters)
    RunFolder(folder / "silent").delete_video("v1")
    found = compare_runs(folder / "talks", folder / "silent", split, SCORING, encode=count_letters, num_resamples=20)
    assert found.left_out == {"v1": "not finished in silent"}
    assert [video.video_id for video in found.videos] == ["v0", "v2"]
