"""A branch file names changes of a run by time; an error names the change and the key."""

from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.branch_files import read_branch
from stepscope.engine.control.intervention import ForcedTurn, Intervention
from stepscope.engine.control.task import Task
from stepscope.engine.records import Step, UserTurn, read_outputs

TASK = Task(goal="build the boat", steps=(Step(id="S1", name="hull"), Step(id="S2", name="mast")))
CONFIG = StreamConfig(fps=2.0)


def read(folder: Path, text: str) -> Intervention:
    (path := folder / "changes.yaml").write_text(text)
    return read_branch(path, task=TASK, config=CONFIG, num_frames=40)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("- {time: 3, state: {S2: completed}}", Intervention(states={6: {"S2": "completed"}})),
        ("- {time: 3, refresh: true}", Intervention(refreshes=frozenset({6}))),
        ("- {time: 3, message: Good.}", Intervention(turns={6: ForcedTurn(response="Good.", has_own_updates=True)})),
        ("- {time: 3, message: null}", Intervention(turns={6: ForcedTurn(has_own_updates=True)})),
        ("- {time: 3, updates: []}", Intervention(turns={6: ForcedTurn(has_own_response=True)})),
        (
            "- {time: 3, updates: [S2->start]}\n- {time: 3, message: Good.}",
            Intervention(turns={6: ForcedTurn(updates=("S2->start",), response="Good.")}),
        ),
        ("- {time: 3, ask: What now}", Intervention(questions=(UserTurn(time_s=3.0, text="What now"),))),
        ("- {time: 3, freeze: 4.5}", Intervention(pictures={7: 6, 8: 6})),
        ("- {time: 3, freeze: 20}", Intervention(pictures=dict.fromkeys(range(7, 40), 6))),
        ("- {time: 3, swap: 5}", Intervention(pictures={6: 10, 10: 6})),
        (
            "- {time: 3, steps: [sail]}",
            Intervention(task=Task(goal="build the boat", steps=(Step(id="S1", name="sail"),)), task_from=6),
        ),
        ("- goal: sink it", Intervention(task=Task(goal="sink it", steps=TASK.steps))),
        (
            "- settings: {speak_threshold: 0.4}\n- settings: {system_prompt: Be brief.}",
            Intervention(config=StreamConfig(fps=2.0, speak_threshold=0.4, system_prompt="Be brief.")),
        ),
    ],
)
def test_changes_become_an_intervention(tmp_path: Path, text: str, change: Intervention) -> None:
    assert read(tmp_path, text) == change


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("time: 3", "must be a list of changes"),
        ("- time: 3", "change 1: must map one of state, refresh"),
        ("- {ask: x}\n- {frezze: 3, ask: y}", "change 2: frezze is not one of time, state"),
        ("- {time: -1, ask: x}", "time must be a time in seconds from 0; got -1"),
        ("- {time: 20, ask: x}", "time must be a time before the end of the video, 20 s; got 20"),
        ("- {time: 3, state: {S9: completed}}", "state must map steps of the task"),
        ("- {time: 3, state: {S1: done}}", "got S1: done"),
        ("- {message: A}\n- {message: B}", "change 2: message is changed at this frame already"),
        ("- {updates: [S2->finish]}", "change 1: updates must name a step of the task"),
        ("- {updates: [S9->start]}", "got 'S9->start'"),
        ("- {refresh: 3}", "refresh must be true or false; got 3"),
        ("- {message: 3}", "message must be text, or null to delete it; got 3"),
        ("- {updates: S1->start}", "updates must be a list of updates"),
        ("- {time: 3, freeze: 3}", "freeze must be a time after the next frame; got 3"),
        ("- {goal: a}\n- {goal: b}", "change 2: goal and steps may be changed once"),
        (
            "- settings: {speak_threshold: 0.4}\n- {time: 3, settings: {update_threshold: 0.4}}",
            "change 2: all settings hold from one time on; give them in one change",
        ),
        ("- settings: {fps: 4}", "settings.fps is not a setting of a stream that a branch can change"),
        ("- settings: {speak_threshold: 2}", "speak_threshold must be within"),
    ],
)
def test_a_wrong_change_is_named(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read(tmp_path, text)


def test_the_command_writes_the_branch_and_prints_what_differs(
    demo_manifest: Path, tiny_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    video = demo_manifest.parent / "truck-1.mp4"
    (path := tmp_path / "changes.yaml").write_text("- {time: 2, message: Now look here.}\n- {time: 4, message: null}")
    out, plain = tmp_path / "out.jsonl", tmp_path / "plain.jsonl"
    command = ["run", str(video), "--checkpoint", str(tiny_folder), "--device", "cpu", "--max-new-tokens", "4"]
    assert main([*command, "--out", str(plain)]) == 0
    capfd.readouterr()
    assert main([*command, "--out", str(out), "--branch", str(path)]) == 0
    outputs, before = read_outputs(out), read_outputs(plain)
    differing = [a.frame_index for a, b in zip(outputs, before, strict=True) if a.response != b.response]
    assert f"{len(differing)} of 12 frames differ from the plain run in a text" in capfd.readouterr().out
    assert outputs[4].response == "Now look here."
    assert outputs[8].response is None
    assert min(differing) == 4
    for time_s, first in ((0, 0), (3, 6)):
        path.write_text(f"- {{time: {time_s}, settings: {{speak_threshold: 0}}}}")
        assert main([*command, "--out", str(out), "--branch", str(path)]) == 0
        outputs = read_outputs(out)
        assert [a.response for a in outputs[:first]] == [b.response for b in before[:first]]
        assert all(output.response is not None for output in outputs[first:])
    assert any(output.response is None for output in before[:6]), "the settings would have changed an earlier frame"
    path.write_text("- {gaol: x, time: 1}")
    assert main([*command, "--out", str(out), "--branch", str(path)]) == 2
    assert "change 1: must map one of" in capfd.readouterr().err
