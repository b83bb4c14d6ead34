"""The check of dialogues finds planted foresight, and nothing in dialogues without it."""

import json
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.records import Step
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.dialogues.check import check_dialogue
from tests.support.data.records import make_sample
from tests.support.paths import ASSETS, SHARED

STEPS = tuple(Step(id=f"S{i}", name=n) for i, n in enumerate(["Stir the milk for 5:30", "stir", "fold it"], start=1))


def dialogue(time_s: float, text: str, *, question: str = "") -> Sample:
    updates = [(2.0, "S1->start", None), (4.0, "S1->complete", "wrong spoon"), (6.0, "S2->start", None)]
    turns = [Turn(time_s=at, role="update", text=update, cause=cause) for at, update, cause in updates]
    turns += [Turn(time_s=time_s, role="user", text=question)] if question else []
    turns.append(Turn(time_s=time_s, role="assistant", text=text))
    return make_sample(steps=STEPS, turns=tuple(sorted(turns, key=lambda turn: turn.time_s)), goal="stir and fold it")


@pytest.mark.parametrize(
    ("time_s", "text", "problem"),
    [
        (0.0, "First, stir the milk for 5:30, to stir and fold it.", ""),
        (0.0, "Stir it first.", "names S2 too early"),
        (0.5, "Then STIR.", "names S2 too early"),
        (4.0, "Then stir.", ""),
        (4.0, "Then stir, then fold_it.", "names S3 too early"),
        (2.0, "Not the wrong spoon!", "names wrong spoon too early"),
        (4.0, "Wrong spoon.", ""),
        (1.0, "Go on until 0:08.", "names the later time 8 s"),
        (1.0, "You finish at 7.5 seconds.", "names the later time 7.5 s"),
        (8.0, "You began at 0:02; wait 20 minutes.", ""),
        (8.0, "Not 1:75:10, 0:99, 9999:00 or ٣:٠٩.", ""),
        (8.0, "Step 3 is next, not step 4.", "names step 4 of 3"),
    ],
)
def test_texts_that_know_the_future_or_steps_that_do_not_exist_are_found(
    time_s: float, text: str, problem: str
) -> None:
    found = list(check_dialogue(dialogue(time_s, text)))
    assert found == ([f"a at 0:0{time_s}: {problem}: {text!r}"] if problem else [])


@pytest.mark.parametrize(("answer", "is_right"), [("Two steps are left.", True), ("3 steps.", False), ("Some.", True)])
def test_a_wrong_number_of_steps_left_is_found(answer: str, is_right: bool) -> None:
    sample = dialogue(5.0, answer, question="How many steps are left?")
    problem = "answers with another number than the 2 steps that are left"
    assert list(check_dialogue(sample)) == ([] if is_right else [f"a at 0:05.0: {problem}: {answer!r}"])


def test_the_command_checks_published_formats_and_names_what_it_cannot_know(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    clip = {
        "video_uid": "v",
        "fps": 2,
        "start_frame_idx": 100,
        "end_frame_idx": 140,
        "inferred_goal": "make tea",
        "dst": [{"type": "step", "id": "S1", "name": "boil water"}, {"type": "step", "id": "S2", "name": "add tea"}],
        "conversation": [
            {"role": "assistant", "content": "First boil water, then add tea.", "time": 51.0},
            {"role": "DST_UPDATE", "content": [{"id": "S1", "transition": "start"}], "time": 52.0},
            {"role": "assistant", "content": "The water boils at 1:05.", "time": 53.0},
        ],
    }
    path = tmp_path / "clips.json"
    path.write_text(json.dumps([clip, {"video_uid": "broken"}]))
    assert main(["dialogues", str(path), "--check"]) == 1
    shown = capfd.readouterr().out
    assert "v at 0:01.0: names S2 too early: 'First boil" in shown
    assert "v at 0:03.0: names the later time 65 s" in shown
    assert "cannot be read: " in shown
    assert "3 findings in 2 videos\n" in shown
    untracked = {"video_uid": "v", "fps": 2, "start_frame_idx": 0, "end_frame_idx": 9, "metadata": {}}
    untracked["metadata"] = {"task_goal": "make tea", "knowledge": "1. boil water\n2. add tea"}
    said = {"role": "assistant", "content": "Then add tea, step 3."}
    untracked["conversation"] = [{"role": "frames", "start": 0, "end": 4}, said]
    path.write_text(json.dumps(untracked))
    assert main(["dialogues", str(path), "--check"]) == 1
    shown = capfd.readouterr().out
    assert "names step 3 of 2" in shown
    assert "1 finding in 1 video; without updates, steps are not checked in 1 of them" in shown


def test_the_bundled_splits_have_no_foresight(capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("test", "val"):
        assert main(["dialogues", str(ASSETS / "demo" / f"{name}.json"), "--check"]) == 0, capfd.readouterr().out


@pytest.mark.skipif(not (SHARED / "data" / "dst_clip.json").exists(), reason="needs the real clip")
def test_a_real_clip_is_checked(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["dialogues", str(SHARED / "data" / "dst_clip.json"), "--check"]) == 0
    assert "0 findings in 1 video\n" in capfd.readouterr().out
