"""Result files of other systems, opened by upload with their video."""

import json
import shutil
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from stepscope.app.core.videos import Clip
from stepscope.app.player import uploads as results
from stepscope.app.player.uploads import CheckedFile
from stepscope.app.player.views import PlayerView
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.benches import open_upload
from tests.support.paths import ROOT

DATA = ROOT / "tests" / "data" / "imports"
FORMS = {
    "mmduet.jsonl": "MMDuet files hold no thresholds",
    "streamo.json": "Streamo or JoyAI-VL files hold no probabilities",
    "sessions/kettle/recording.json": "MiniCPM-o-Demo files hold no probabilities",
}
"""Small files of other systems, made by hand, and the values that they are said to lack."""


@pytest.fixture(scope="module")
def kettle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of 10 s, of which the result files are."""
    path = tmp_path_factory.mktemp("video") / "kettle.mp4"
    write_h264(path, moving_square(100, shade=90), fps=10)
    return path


@pytest.fixture
def clip(context: AppContext, kettle: Path) -> Clip:
    found = open_upload(context, kettle).clip
    assert isinstance(found, Clip)
    return found


def show(context: AppContext, clip: Clip, name: str) -> tuple[PlayerView, dict[str, Any]]:
    """Return the view of a result file, and the data of the player."""
    check = results.check_result(Window(clip=clip), str(DATA / name))
    assert isinstance(check.checked, CheckedFile)
    view = results.show_result(context, Window(clip=clip), check.checked)
    return view, json.loads(view.player)


@pytest.mark.parametrize("name", FORMS)
def test_a_file_opens_with_its_video_and_names_what_it_lacks(context: AppContext, clip: Clip, name: str) -> None:
    view, data = show(context, clip, name)
    assert FORMS[name] in view.status.value
    assert view.status.value.endswith("Add a reference to score it.")
    assert any("kettle boils" in turn["text"] for turn in data["turns"])
    assert data["is_finished"]
    assert not data["has_reference"]
    assert not data["has_states"], "no form holds the states of the steps"
    assert data["origin"]["rows"][1][1].split(" file ")[1].startswith(Path(name).name)
    assert not any("threshold" in label for label, _ in data["origin"]["rows"])


def test_a_reference_that_is_added_later_scores_the_results(context: AppContext, clip: Clip) -> None:
    _, data = show(context, clip, "mmduet.jsonl")
    checked = CheckedFile(path=DATA / "mmduet.jsonl")
    reference = CheckedFile(path=DATA / "gold.json")
    view = results.show_reference(context, Window(clip=clip, live=LiveRun()), reference, checked)
    scored = json.loads(view.player)
    assert [turn["verdict"] for turn in scored["turns"]] == ["matched"]
    assert [signal["title"] for signal in scored["named"]] == ["informative_score", "relevance_score"]
    assert isinstance(view.live, LiveRun)
    assert scored["run"] != data["run"], "the user turns of the reference are part of the task"
    assert isinstance(view.clip, Clip)
    assert context.recent.find_run(scored["run"], view.clip) is view.live.run, "a link leads to it"


def test_removing_the_file_shows_the_video_alone(context: AppContext, clip: Clip) -> None:
    check = results.check_result(Window(clip=clip), None)
    view = results.show_result(context, Window(clip=clip), check.checked)
    assert view.status.value == "kettle.mp4, 0:10, without results. Press Run."
    assert results.show_result(context, Window(clip=clip), None) == PlayerView(), "another video was opened"


def test_a_refused_file_changes_nothing_and_shows_no_folder(context: AppContext, clip: Clip, tmp_path: Path) -> None:
    def problem(path: Path, of: Clip | None = clip) -> str:
        check = results.check_result(Window(clip=of), str(path))
        assert not isinstance(check.checked, CheckedFile)
        return str(check.problem.value)

    assert problem(DATA / "gold.json").startswith(
        "⚠ gold.json, entry 0 is of no known form; give a result of ProAssist"
    )
    assert "upload its video first" in problem(DATA / "mmduet.jsonl", context.bundled_videos.clips[0])
    others = tmp_path / "others.jsonl"
    line = (DATA / "proactive_videoqa.jsonl").read_text().splitlines()[0]
    others.write_text(line.replace("kettle", "cake", 1) + "\n" + line.replace("kettle", "bread", 1))
    words = "⚠ others.jsonl: has 2 results, and none of them for kettle.mp4"
    assert problem(others).startswith(words)
    noise = tmp_path / "noise.json"
    noise.write_bytes(b"\xff\xfe{")
    assert problem(noise).startswith("⚠ noise.json cannot be read as JSON")


def test_of_several_results_that_of_the_upload_is_shown(context: AppContext, clip: Clip, tmp_path: Path) -> None:
    path = Path(shutil.copy(DATA / "proactive_videoqa.jsonl", tmp_path))
    assert len(path.read_text().splitlines()) == 2
    check = results.check_result(Window(clip=clip), str(path))
    view = results.show_result(context, Window(clip=clip), check.checked)
    assert [turn["time"] if "time" in turn else turn["frame"] for turn in json.loads(view.player)["turns"]] == [10]


def test_a_rule_gives_a_signal_the_threshold_that_the_file_lacks(context: AppContext, clip: Clip) -> None:
    path = str(DATA / "mmduet.jsonl")
    plain = results.check_result(Window(clip=clip), path)
    assert plain.rule_panel.visible
    assert (plain.signal.value, len(plain.signal.choices)) == ("informative_score", 2)
    check = results.check_result(Window(clip=clip), path, "relevance_score", "running-sum", "2,0")
    view = results.show_result(context, Window(clip=clip), check.checked)
    shown = [(one["title"], one["decides"], one["threshold"]) for one in json.loads(view.player)["named"]]
    assert shown == [("informative_score", None, None), ("relevance_score", "speak", 2.0)]
    assert json.loads(view.player)["named"][1]["policy"]["level"] == "sum"
    rule = "speak by relevance_score, running-sum, threshold 2.00, given at the import"
    assert rule in json.loads(view.player)["origin"]["summary"]
    assert f"hold no updates and states of the steps, latencies, cache lengths. The rule: {rule}." in view.status.value
    wrong = results.check_result(Window(clip=clip), path, "mood", "above", "0.5")
    assert "mmduet.jsonl: the results hold no signal 'mood'; choose one of informative" in wrong.problem.value
    wrong = results.check_result(Window(clip=clip), path, "relevance_score", "above", "high")
    assert wrong.problem.value == "⚠ the threshold must be a number; got high."
    plain = results.check_result(Window(clip=clip), str(DATA / "streamo.json"))
    assert not plain.rule_panel.visible, "it has no signals"


def test_damaged_lines_of_other_videos_do_no_harm_and_are_named(
    context: AppContext, clip: Clip, tmp_path: Path
) -> None:
    record = (DATA / "mmduet.jsonl").read_text().strip()
    path = tmp_path / "damaged.jsonl"
    path.write_text("\n".join([record, "{", '{"question_id": "toast"', record.replace("kettle", "toast")]))
    view, data = show(context, clip, str(path))
    assert data["turns"][0]["text"] == "The kettle boils now."
    assert "damaged.jsonl, line 2 cannot be read as JSON" in view.status.value
    assert "1 more line of the file cannot be read." in view.status.value
    path.write_text("\n".join([record.replace("kettle", "toast"), "{"]))
    problem = results.check_result(Window(clip=clip), str(path)).problem.value
    assert "line 2 cannot be read" in problem, "it may be this video's"


def test_a_result_file_keeps_the_typed_task(context: AppContext, clip: Clip) -> None:
    check = results.check_result(Window(clip=clip), str(DATA / "mmduet.jsonl"))
    boxes = ("Make tea", "S1: boil the water", "0:01 When does it boil?")
    view = results.show_result(context, Window(clip=clip), check.checked, *boxes)
    assert [view.goal, view.steps, view.user_turns] == [gr.skip()] * 3
    task = view.live.run.task
    assert (task.goal, [step.name for step in task.steps]) == ("Make tea", ["boil the water"])
    reference = CheckedFile(path=DATA / "gold.json")
    for first in (clip, view.clip):
        view = results.show_reference(context, Window(clip=first), reference, check.checked, *boxes)
        assert [view.goal, view.steps] == [gr.skip()] * 2, "the reference has none"
    view = results.show_result(context, Window(clip=view.clip), check.checked, *boxes)
    assert [view.goal, view.steps] == [gr.skip()] * 2
