import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.charts import draw_run
from app.clips import Clip
from app.runs import Moment, Run, Span, judge_updates, reference_moments, spans
from app.transcript import state_rows, transcript_rows
from app.words import clock, seconds, sentence
from engine.config import StreamConfig
from engine.control import Task
from engine.records import FrameOutput, Step, UserTurn
from eval.samples import Sample, Turn

STEPS = (Step(id="S1", name="attach the wheel"), Step(id="S2", name="put on <b>the roof</b>"))


def output(index: int, *, response: str | None = None, updates: tuple[str, ...] = (), **state: str) -> FrameOutput:
    return FrameOutput(
        frame_index=index,
        time_s=index / 2,
        speak_prob=0.25,
        update_prob=0.75,
        response=response,
        updates=updates,
        dst_state={"S1": "not_started", "S2": "not_started", **state},
        cache_tokens=10,
        refreshed=False,
        latency_ms=1.0,
    )


@pytest.fixture
def run() -> Run:
    """Four frames at 2 fps: S1 starts one frame late, a malformed text and an illegal update follow."""
    turns = (
        Turn(time_s=0.5, role="update", text="S1->start"),
        Turn(time_s=1.0, role="user", text="What is next?"),
        Turn(time_s=1.0, role="assistant", text="The roof."),
        Turn(time_s=9.0, role="update", text="S1->complete"),
    )
    sample = Sample(
        video_id="truck",
        video_path=Path("truck.mp4"),
        fps=2.0,
        num_frames=20,
        goal="build",
        steps=STEPS,
        turns=turns,
        initial_state={},
    )
    outputs = (
        output(0),
        output(1),
        output(2, updates=("S1->start",), response="The roof.", S1="in_progress"),
        output(3, updates=("S1 begins", "S2->complete"), S1="in_progress", S2="completed"),
    )
    return Run(
        clip=Clip(name="truck", path=Path("truck.mp4"), fps=2.0, num_frames=20, duration_s=10.0, sample=sample),
        task=Task(goal="build", steps=STEPS, user_turns=(UserTurn(time_s=1.0, text="What is next?"),)),
        config=StreamConfig(speak_threshold=0.2, update_threshold=0.63),
        outputs=outputs,
    )


def test_times_are_written_in_minutes_and_read_back() -> None:
    assert [clock(time_s) for time_s in (0, 59.4, 59.96, 600)] == ["0:00", "0:59", "1:00", "10:00"]
    assert [clock(time_s, digits=1) for time_s in (0.5, 59.96, 754.2)] == ["0:00.5", "1:00.0", "12:34.2"]
    assert seconds(clock(754.2, digits=1)) == pytest.approx(754.2)


def test_sentences_name_the_file_not_its_place() -> None:
    assert sentence("/tmp/gradio/x/a b.mp4: it is empty") == "a b.mp4: it is empty."
    assert sentence("step ids must differ: S1, S1.") == "step ids must differ: S1, S1."


def test_updates_are_judged_against_the_state_they_met(run: Run) -> None:
    assert judge_updates(run) == {2: ("legal",), 3: ("malformed", "illegal")}


def test_predictions_stand_beside_the_reference_of_their_frame(run: Run) -> None:
    assert transcript_rows(run) == [
        ["0:00.5", "◆ update", "—", "0.75", "S1->start"],
        ["0:01.0", "▹ user", "What is next?", "", "What is next?"],
        ["0:01.0", "◆ update", "S1->start", "0.75", ""],
        ["0:01.0", "● assistant", "The roof.", "0.25", "The roof."],
        ["0:01.5", "◆ update", "S1 begins  ⚠ malformed", "0.75", ""],
        ["0:01.5", "◆ update", "S2->complete  ⚠ illegal", "", ""],
    ]


def test_final_states_are_those_where_the_run_came(run: Run) -> None:
    # the reference completes S1 at 9 s, after the 1.5 s that were reached
    assert state_rows(run) == [
        ["S1", "attach the wheel", "◐ in progress", "◐ in progress"],
        ["S2", "put on <b>the roof</b>", "● completed", "○ not started"],
    ]
    alone = replace(run, clip=replace(run.clip, sample=None))
    assert [row[3] for row in state_rows(alone)] == ["", ""]
    assert reference_moments(alone) == []


def test_equal_states_join_into_spans() -> None:
    moments = [Moment(time_s=time_s, state={"S1": state}) for time_s, state in ((0, "a"), (1, "a"), (2, "b"), (3, "a"))]
    assert list(spans(moments, step_id="S1", end_s=4)) == [
        Span(step_id="S1", state="a", start_s=0, end_s=2),
        Span(step_id="S1", state="b", start_s=2, end_s=3),
        Span(step_id="S1", state="a", start_s=3, end_s=4),
    ]
    assert list(spans(moments, step_id="S9", end_s=4)) == []
    assert list(spans([], step_id="S1", end_s=4)) == []


def test_charts_show_traces_thresholds_triggers_and_bands(run: Run) -> None:
    figure = json.loads(draw_run(run).to_json())
    traces = {trace["name"]: trace for trace in figure["data"]}
    assert traces["speak probability"]["y"] == [0.25] * 4
    assert [shape["y0"] for shape in figure["layout"]["shapes"]] == [0.2, 0.63]
    assert {shape["line"]["dash"] for shape in figure["layout"]["shapes"]} == {"dash"}
    assert (traces["spoke"]["x"], traces["spoke"]["text"]) == ([1.0], ["The roof."])
    updated = traces["updated (x: illegal)"]
    assert updated["x"] == [1.0, 1.5]
    assert updated["marker"]["symbol"] == ["diamond", "x"]
    assert updated["text"][1] == "S1 begins (malformed)<br>S2-&gt;complete (illegal)"
    in_progress = traces["◐ in progress"]
    assert list(zip(in_progress["y"], in_progress["base"], in_progress["x"], strict=True)) == [
        (0, 0.5, 1.5),  # the reference, above: from 0.5 s to the end of the last frame at 2.0 s
        (1, 1.0, 1.0),
    ]
    assert "<b>" not in json.dumps(figure["layout"]["yaxis3"])


def test_charts_of_a_bare_video_have_no_bands(run: Run) -> None:
    bare = replace(run, task=Task(), clip=replace(run.clip, sample=None))
    assert "yaxis3" not in json.loads(draw_run(bare).to_json())["layout"]
