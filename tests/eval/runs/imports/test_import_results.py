"""Result files of ProAssist and VideoLLM-online as run folders."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.__main__ import main
from stepscope.eval.data.loading import read_split
from stepscope.eval.metrics.score import analyze_video, score_counts
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.imports.import_results import NO_RESULT_FILE, import_into
from tests.support.data.batches import no_java, write_split
from tests.support.data.records import make_sample
from tests.support.streams.fakes import count_letters

BOAT = make_sample(video_id="boat", goal="build the boat", steps=(Step(id="S1", name="hang the sail"),))
TURN = {"time_s": 1.0, "role": "assistant", "text": "Now the sail."}


def video(video_id: str, **changes: Any) -> dict[str, Any]:
    """Return a record of 10 s at 2 frames per second."""
    return {
        "video_id": video_id,
        "video_path": f"{video_id}.mp4",
        "fps": 2.0,
        "num_frames": 20,
        "goal": "build the boat",
        "steps": [{"id": "S1", "name": "hang the sail"}],
        "initial_state": {"S1": "in_progress"},
        "turns": [TURN],
        **changes,
    }


def proassist(responses: dict[int, str], *, uid: str = "boat", first: int = 40, number: int = 20) -> dict[str, Any]:
    """Return a file as its stream runner writes it."""
    return {
        "metadata": {"dataset": "wtag", "sample_idx": 1, "video_uid": uid, "fps": 2, "use_gt_context": False},
        "predictions": [
            {
                "gen": responses.get(frame, ""),
                "ref": "",
                "text_inputs": [],
                "frame_idx_in_stream": frame,
                "frame_idx_in_original_video": first + frame,
                "timestamp_in_stream": (frame + 1) / 2,
            }
            for frame in range(number)
        ],
        "match_result": {},
    }


def videollm(*, path: str = "demo/assets/boat.mp4") -> dict[str, Any]:
    """Return a file as its command line writes it: 4 frames, a question and its answer at 0.5 s, an answer at 1.5 s."""
    times = {"fps": 9.0, "cost": 0.25}
    return {
        "video_path": path,
        "frame_fps": 2,
        "conversation": [
            {"time": 0.0, **times},
            {"role": "user", "content": "(Video Time = 0.5s) User: Hello?", "time": 0.5, **times},
            {"role": "assistant", "content": "(Video Time = 0.5s) Assistant: Hello.", "time": 0.5, **times},
            {"time": 1.0, **times},
            {"role": "assistant", "content": "(Video Time = 1.5s) Assistant:You cut (it).", "time": 1.5, **times},
        ],
    }


def imported(folder: Path, content: object, *videos: dict[str, Any]) -> tuple[RunFolder, Mapping[str, str]]:
    (folder / "0.json").write_text(json.dumps(content), encoding="utf-8")
    split = read_split(write_split(folder, *(videos or [video("boat")])))
    run = RunFolder(folder / "run")
    return run, import_into(run.path, [folder / "0.json"], split, {})


def responses(outputs: tuple[FrameOutput, ...]) -> dict[int, str]:
    return {output.frame_index: output.response for output in outputs if output.response is not None}


def test_a_proassist_result_has_its_texts_at_their_frames(tmp_path: Path) -> None:
    run, problems = imported(tmp_path, proassist({2: "Now the sail.", 5: " . ", 7: "Good."}))
    outputs = run.outputs(BOAT)
    assert problems == {}
    assert responses(outputs) == {2: "Now the sail.", 7: "Good."}
    assert [output.time_s for output in outputs] == [index / 2 for index in range(20)]
    assert {output.dst_state["S1"] for output in outputs} == {"in_progress"}
    assert all(math.isnan(output.speak_prob) and math.isnan(output.latency_ms) for output in outputs)
    assert "NaN" not in (tmp_path / "run" / "boat.jsonl").read_text()


@pytest.mark.parametrize(
    ("has_stream", "has_original", "frame"), [(True, True, 11), (True, False, 11), (False, True, 2)]
)
def test_a_file_whose_first_frames_are_left_out_is_at_its_index_in_the_stream(
    tmp_path: Path, has_stream: bool, has_original: bool, frame: int
) -> None:
    content = proassist({11: "Good."})
    content["predictions"] = content["predictions"][9:15:2]
    kept = {"gen": True, "frame_idx_in_stream": has_stream, "frame_idx_in_original_video": has_original}
    content["predictions"] = [
        {name: value for name, value in one.items() if kept.get(name)} for one in content["predictions"]
    ]
    run, _ = imported(tmp_path, content)
    assert responses(run.outputs(BOAT)) == {frame: "Good."}


def test_of_several_clips_of_one_video_the_place_in_the_split_decides(tmp_path: Path) -> None:
    run, problems = imported(tmp_path, proassist({}), video("boat_clip0"), video("boat_clip1"), video("boats"))
    assert problems == {}
    errors = {name: record.error for name in ("boat_clip0", "boat_clip1", "boats") if (record := run.record(name))}
    assert errors == {"boat_clip0": NO_RESULT_FILE, "boat_clip1": "", "boats": NO_RESULT_FILE}


def test_a_videollm_result_has_its_texts_without_their_prefix_and_its_times(tmp_path: Path) -> None:
    run, problems = imported(tmp_path, videollm())
    outputs = run.outputs(BOAT)
    assert problems == {}
    assert responses(outputs) == {1: "Hello.", 3: "You cut (it)."}
    assert [output.latency_ms for output in outputs] == [250.0] * 4
    record = run.record("boat")
    assert record is not None
    assert (record.wall_s, record.warning) == (1.0, "ends after 4 of 20 frames")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({**videollm(), "frame_fps": 10}, "frame_fps must be the rate of the split, 2; got 10"),
        (
            proassist({}, number=24),
            r"predictions\[23\]\.frame_idx_in_original_video is at 11\.5 s, but the video ends by 10 s",
        ),
        ({**proassist({}), "predictions": [{"gen": None}]}, r"predictions\[0\]\.gen is missing; it must be text"),
    ],
)
def test_a_result_that_does_not_fit_its_video_is_the_error_of_its_row(
    tmp_path: Path, content: dict[str, Any], reason: str
) -> None:
    run, _ = imported(tmp_path, content)
    record = run.record("boat")
    assert record is not None
    with pytest.raises(ValueError, match=rf"0\.json: {reason}"):
        raise ValueError(record.error)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "is of no known form; give a result of ProAssist"),
        (proassist({}, uid="car"), "is of the video car, which fits 0 videos"),
    ],
)
def test_files_of_which_none_fits_are_refused(tmp_path: Path, content: object, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"0\.json {reason}"):
        imported(tmp_path, content)
    assert not (tmp_path / "run").exists()


def test_an_imported_run_scores_what_it_tells_and_no_probabilities(tmp_path: Path) -> None:
    run, _ = imported(tmp_path, proassist({2: "Now the sail."}))
    (sample,) = read_split(tmp_path / "split.json").samples
    scores = score_counts(analyze_video(sample, run.outputs(BOAT), encode=count_letters).counts)
    assert (scores["F1"], scores["speaking_f1"]) == (1.0, 1.0)
    for name in ("speaking_auroc", "speaking_brier", "speaking_ece", "latency_p50_ms", "in_time_share", "frames_per_s"):
        assert math.isnan(scores[name]), name


def test_the_command_line_imports_scores_and_names_what_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.eval.cli.finished_runs.TextScorer", no_java)
    split = write_split(tmp_path, *map(video, ("boat", "car", "van", "bus", "cab")))
    for name, content in (("a", videollm()), ("b", videollm()), ("c", 7)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    files = [str(tmp_path / f"{name}.json") for name in "abc"]
    assert main(["import", *files, "--split", str(split), "--out", str(tmp_path / "run")]) == 1
    shown, complaints = capfd.readouterr()
    assert "1 of 5 videos" in shown
    assert "imported from 3 files" in shown
    absent = "failed: car, van, bus and 1 more: no result file"
    for line in (absent, "b.json is a second result for boat", "c.json is of no known form"):
        assert line in complaints
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["imported"] == files
    assert main(["import", *files, "--split", str(split), "--out", str(tmp_path / "run")]) == 2
    assert capfd.readouterr().err == f"error: {tmp_path / 'run'} holds a run already; name a new folder\n"
