"""The recorder: any loop writes a run folder, which survives kills and can be scored."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from stepscope.engine.decisions.signals import SignalSpec
from stepscope.eval.cli.finished_runs import score
from stepscope.eval.cli.options import RescoreOptions
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Turn
from stepscope.eval.metrics.score import analyze_video, score_counts
from stepscope.eval.recorder import RunRecorder
from stepscope.eval.reports.scoring import make_report
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.output_folder import FolderRefusedError
from tests.support.data.batches import no_java
from tests.support.paths import ROOT
from tests.support.streams.fakes import count_letters

SIGNALS = (SignalSpec(name="p", label="informative", threshold=0.5, decides="speak"),)
TURNS = (Turn(time_s=0.5, role="user", text="What now?"), Turn(time_s=1.0, role="assistant", text="Hang the sail."))
open_run = partial(RunRecorder, model="org/toy", settings={"top_k": 3}, signals=SIGNALS)


def record(run: RunRecorder, video_id: str = "boat", **kwargs: Any) -> None:
    with run.video(video_id, fps=2, goal="build", turns=kwargs.pop("turns", TURNS), **kwargs) as video:
        for index in range(4):
            said = "Hang the sail." if index == 2 else None
            video.frame(index / 2, signals={"p": index / 4}, response=said, state="respond" if said else "silent")


def test_a_recorded_run_holds_frames_task_reference_and_settings(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        record(run, steps="S1: hang the sail")
    folder = RunFolder(tmp_path / "run")
    (sample,) = read_split(folder.split_path()).samples
    assert (sample.goal, sample.num_frames, sample.turns, [step.id for step in sample.steps]) == (
        "build",
        4,
        TURNS,
        ["S1"],
    )
    outputs = folder.outputs(sample)
    assert [output.signals for output in outputs] == [{"p": 0.0}, {"p": 0.25}, {"p": 0.5}, {"p": 0.75}]
    assert [output.state for output in outputs] == ["silent", "silent", "respond", "silent"]
    assert [output.response for output in outputs] == [None, None, "Hang the sail.", None]
    assert outputs[0].dst_state == {"S1": "not_started"}
    assert folder.signals() == SIGNALS
    settings = folder.settings() or {}
    assert settings["recorded"] == {"model": "org/toy", "settings": {"top_k": 3}}
    assert json.loads((folder.path / "run.json").read_text())["split"] == "split.json", "the folder can be moved"


def test_frames_that_are_left_out_are_silent_with_unknown_values(tmp_path: Path) -> None:
    with open_run(tmp_path) as run, run.video("a", fps=2) as video:
        video.frame(0.02, signals={"p": np.float32(0.5)})
        video.frame(1.49, signals={"p": torch.tensor(0.25)}, cache_tokens=7)
    outputs = RunFolder(tmp_path).outputs(read_split(tmp_path / "split.json").samples[0])
    assert [output.time_s for output in outputs] == [0.02, 0.5, 1.0, 1.49]
    assert [output.signals for output in outputs] == [{"p": 0.5}, {}, {}, {"p": 0.25}]
    assert outputs[-1].cache_tokens == 7


def test_updates_change_the_state_of_the_steps(tmp_path: Path) -> None:
    with (
        open_run(tmp_path, has_states=True) as run,
        run.video("a", fps=1, steps="S1: saw\nS2: glue", turns=()) as video,
    ):
        video.frame(0, updates=["S1->start"])
        video.frame(2, updates=["S2->complete", "nonsense"])
    folder = RunFolder(tmp_path)
    outputs = folder.outputs(read_split(folder.split_path()).samples[0])
    assert [output.dst_state["S1"] for output in outputs] == ["in_progress"] * 3
    assert outputs[2].legality == ("illegal", "malformed")
    assert folder.has_states()


def test_frames_that_are_left_out_before_an_update_keep_the_state_before_it(tmp_path: Path) -> None:
    turns = (Turn(time_s=5.0, role="update", text="S1->start"),)
    with open_run(tmp_path, has_states=True) as run, run.video("a", fps=2, steps="S1: saw", turns=turns) as video:
        video.frame(0.0)
        video.frame(5.0, updates=["S1->start"])
        video.frame(5.5)
    sample = read_split(tmp_path / "split.json").samples[0]
    outputs = RunFolder(tmp_path).outputs(sample)
    assert [output.dst_state["S1"] for output in outputs] == ["not_started"] * 10 + ["in_progress"] * 2
    scores = score_counts(analyze_video(sample, outputs, encode=count_letters).counts)
    assert (scores["dst_joint_goal_accuracy"], scores["dst_timeline_score"]) == (1.0, 1.0)
    assert scores["dst_start_delay_s"] == scores["dst_delay_s"] == 0.0
    assert scores["failures_wrong_state"] == 0


def test_unknown_numbers_may_be_nan(tmp_path: Path) -> None:
    with open_run(tmp_path) as run, run.video("a", fps=1) as video:
        video.frame(0, first_token_ms=math.nan, cache_tokens=math.nan, latency_ms=math.nan, signals={"p": math.nan})
    (output,) = RunFolder(tmp_path).outputs(read_split(tmp_path / "split.json").samples[0])
    assert (output.first_token_ms, output.cache_tokens) == (None, 0)
    assert math.isnan(output.latency_ms + output.signals["p"])


@pytest.mark.parametrize("text", ["", "\u200b\ufeff"])
def test_a_response_without_words_is_silence(tmp_path: Path, text: str) -> None:
    with open_run(tmp_path) as run, run.video("a", fps=1) as video:
        video.frame(0, response=text)
    (output,) = RunFolder(tmp_path).outputs(read_split(tmp_path / "split.json").samples[0])
    assert output.response is None


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ({"time_s": -1}, "time_s must be a time from 0 s"),
        ({"time_s": 0, "signals": {"q": 1}}, "signal 'q' is not described"),
        ({"time_s": 0, "speak_prob": 1.5}, "speak_prob must be from 0 to 1"),
        ({"time_s": 0, "updates": ["S1->start"]}, "has_states=True"),
        ({"time_s": "soon"}, "time_s must be a number; got 'soon'"),
        ({"time_s": None}, "time_s must be a number; got None"),
        ({"time_s": 0, "updates": None}, "updates must be a list of texts; got None"),
        ({"time_s": 0, "updates": "S1->start"}, "updates must be a list of texts; got 'S1->start'"),
        ({"time_s": 0, "updates": [1]}, r"updates must be a list of texts; got \[1\]"),
        ({"time_s": 0, "signals": [1.0]}, "signals must be a dict of values by name"),
        ({"time_s": 0, "signals": {"p": "high"}}, "p must be a number; got 'high'"),
        ({"time_s": 0, "signals": {"p": np.zeros(2)}}, "p must be a number; got array"),
        ({"time_s": 0, "speak_prob": None}, "speak_prob must be a number; got None"),
        ({"time_s": 0, "latency_ms": "1"}, "latency_ms must be a number; got '1'"),
        ({"time_s": 0, "cache_tokens": []}, r"cache_tokens must be a number; got \[\]"),
        ({"time_s": 0, "response": 1}, "response must be text"),
    ],
)
def test_an_impossible_frame_is_refused_with_one_sentence(tmp_path: Path, frame: dict[str, Any], problem: str) -> None:
    with open_run(tmp_path) as run:
        with pytest.raises(ValueError, match=problem), run.video("a", fps=2) as video:
            video.frame(**frame)
        found = RunFolder(tmp_path).record("a")
    assert found is not None
    assert problem.split()[0] in found.error, "the video has failed"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"settings": "text"}, "settings must be a dict; got 'text'"),
        ({"settings": [1]}, r"settings must be a dict; got \[1\]"),
        ({"settings": {"a": object()}}, "settings must be plain values of JSON: Object of type object"),
        ({"model": None}, "model must be a text; got None"),
        ({"signals": ["p"]}, r"signals must be a list of SignalSpec; got \['p'\]"),
        ({"signals": None}, "signals must be a list of SignalSpec; got None"),
        ({"split": 1}, "split must be a path; got 1"),
        ({"folder": None}, "folder must be a path; got None"),
    ],
)
def test_a_run_with_an_argument_of_a_wrong_kind_is_refused_with_one_sentence(
    tmp_path: Path, arguments: dict[str, Any], problem: str
) -> None:
    given: dict[str, Any] = {"folder": tmp_path, "model": "m", **arguments}
    with pytest.raises(ValueError, match=problem):
        RunRecorder(**given)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"video_id": 1}, "video_id must be a text; got 1"),
        ({"fps": "2"}, "fps must be a number; got '2'"),
        ({"goal": None}, "goal must be a text; got None"),
        ({"video_path": 1}, "video_path must be a path; got 1"),
        ({"steps": None}, "steps must be a text with a line for each step, or a list of Step; got None"),
        ({"steps": ["a"]}, r"steps must be .* a list of Step; got \['a'\]"),
        ({"turns": "Hello."}, "turns must be a list of Turn; got 'Hello.'"),
        ({"turns": [{"role": "user"}]}, "turns must be a list of Turn; got"),
    ],
)
def test_a_video_with_an_argument_of_a_wrong_kind_is_refused_with_one_sentence(
    tmp_path: Path, arguments: dict[str, Any], problem: str
) -> None:
    given: dict[str, Any] = {"video_id": "a", "fps": 2, **arguments}
    with open_run(tmp_path) as run, pytest.raises(ValueError, match=problem), run.video(**given):
        pytest.fail("it was opened")


def test_a_second_recording_keeps_finished_videos_and_repeats_failed_ones(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        record(run, "a")
        with pytest.raises(ZeroDivisionError), run.video("b", fps=2, turns=TURNS) as video:
            video.frame(1 / 0)
        with pytest.raises(ValueError, match=r"video d: turns\[0\].text must be text"):
            record(run, "d", turns=[replace(TURNS[0], text="")])
        for change, problem in (({"role": "model"}, "role must be one of"), ({"time_s": math.nan}, "time_s must be")):
            with pytest.raises(ValueError, match=rf"video d: turns\[0\]\.{problem}"):
                record(run, "d", turns=[replace(TURNS[0], **change)])
        record(run, "c")
        assert [run.is_finished(name) for name in "abcd"] == [True, False, True, False]
    assert score_folder(tmp_path) == 1
    assert (read_metrics(tmp_path)["scores"]["F1"], RunFolder(tmp_path).count_videos()) == (1, 3)
    RunFolder(tmp_path).delete_video("c")
    with open_run(tmp_path) as run:
        assert (run.is_finished("a"), run.is_finished("b"), run.is_finished("c")) == (True, False, False)
        record(run, "b")
    assert [sample.video_id for sample in read_split(tmp_path / "split.json").samples] == ["a", "b", "c"]


def test_another_model_or_other_signals_are_refused(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        record(run)
    with pytest.raises(FolderRefusedError, match="org/toy"), open_run(tmp_path, model="org/other"):
        pass
    with pytest.raises(FolderRefusedError, match="another signals"), open_run(tmp_path, signals=()):
        pass


KILLED = """
import os, signal
from stepscope.eval.recorder import RunRecorder
with RunRecorder({folder!r}, model="m") as run:
    for name in ("a", "b"):
        with run.video(name, fps=2) as video:
            for index in range(3000):
                video.frame(index / 2)
                if name == "b" and index == 2000:
                    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_a_kill_the_folder_holds_the_finished_videos_only(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED.format(folder=str(tmp_path))], cwd=ROOT, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    assert not list(tmp_path.glob("b.*"))
    with RunRecorder(tmp_path, model="m") as run:
        assert run.is_finished("a")
        assert not run.is_finished("b")
        with run.video("b", fps=2) as video:
            video.frame(0)
    assert not list(tmp_path.glob(".*.part"))
    assert RunFolder(tmp_path).count_videos() == 2


def score_folder(folder: Path, **options: Any) -> int:
    few = partial(make_report, num_resamples=2)
    encoder = type("E", (), {"encode": staticmethod(count_letters), "settings": lambda self: {"text_encoder": "l"}})()
    with (
        patch("stepscope.eval.reports.scoring.make_report", few),
        patch("stepscope.eval.cli.finished_runs.import_encoder", lambda name: encoder),
        patch("stepscope.eval.cli.finished_runs.TextScorer", no_java),
    ):
        return score(RescoreOptions(run=folder, **options))


def test_a_run_without_a_reference_is_scored_with_that_of_a_split(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        record(run, turns=None)
    with pytest.raises(ValueError, match="give --split with the references"):
        score_folder(tmp_path / "run")
    with open_run(tmp_path / "other") as run:
        record(run)
    assert score_folder(tmp_path / "run", split=tmp_path / "other" / "split.json") == 0
    assert read_metrics(tmp_path / "run")["scores"]["F1"] == 1


def test_a_split_gives_tasks_and_references(tmp_path: Path) -> None:
    with open_run(tmp_path / "first") as run:
        record(run, steps="S1: hang the sail")
    split = tmp_path / "first" / "split.json"
    with open_run(tmp_path / "second", split=split) as run:
        with run.video("boat") as video:
            video.frame(1.0, response="Hang the sail.")
        with pytest.raises(ValueError, match="2 frames/s in"), run.video("boat", fps=5):
            pass
        with pytest.raises(ValueError, match="has no video 'ship'"), run.video("ship"):
            pass
        with run.video("boat") as video:
            video.frame(1.0, response="Hang the sail.")
    assert score_folder(tmp_path / "second") == 0


def test_a_rate_that_differs_from_that_of_the_split_is_named(tmp_path: Path) -> None:
    for name, fps in (("run", 1), ("other", 2)):
        with open_run(tmp_path / name) as run, run.video("boat", fps=fps, turns=TURNS) as video:
            for index in range(4):
                video.frame(index / fps)
    assert score_folder(tmp_path / "run", split=tmp_path / "other" / "split.json") == 1
    assert "has 1 frames/s in the run, but 2 in the split" in (tmp_path / "run" / "videos.csv").read_text()
