"""Replies after the end of a video: up to a poll they count at its last frame, in every form of result files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.eval.runs.imports.recognition import FORMS
from stepscope.eval.runs.imports.system_output import ResultForm
from tests.eval.runs.imports.test_written_forms import EM_GARDE, KETTLE, ROUNDS, imported, messages, read, stream_of


@pytest.mark.parametrize(
    ("times", "frames"),
    [([4, 11], [8, 20]), ([1, 4, 10.5], [2, 8, 20]), ([10.4], [20]), ([2, 10, 12], [4, 20, 20]), ([12], [20])],
)
def test_a_reply_after_the_end_by_less_than_a_poll_is_at_the_last_frame(
    tmp_path: Path, times: list[float], frames: list[int]
) -> None:
    replies = [{"role": "assistant", "content": f"{number}", "time": time} for number, time in enumerate(times)]
    user = {"role": "user", "content": "What happens?", "time": 1}
    content = {"question_id": "kettle", "model_response_list": [user, *replies], "drop_ratio_list": []}
    outputs = read(tmp_path, content, replace(KETTLE, fps=2.0, num_frames=21))
    assert len(outputs) == 21
    assert sorted(messages(outputs)) == sorted(set(frames))


def test_a_reply_that_is_far_after_the_end_and_one_that_is_silent_are_no_replies_of_the_video(tmp_path: Path) -> None:
    late = [{"role": "assistant", "content": "It boils.", "time": time} for time in (1, 2, 12)]
    with pytest.raises(
        ValueError, match=r"\[2\]\.time is at 12 s, but the video ends by 10 s; give the results of this"
    ):
        read(tmp_path, {"question_id": "kettle", "model_response_list": late})
    silent = [{"role": "assistant", "content": text, "time": 3} for text in ("NO REPLY", "No reply.", "", "\u200b")]
    assert messages(read(tmp_path, {"question_id": "kettle", "model_response_list": silent})) == {}


def reply_at(form: str, time_s: float, fps: float = 2.0) -> object:
    """Return a result of a form with a reply at 1 s and one at a time, from which a form of whole seconds takes off."""
    second, both = int(time_s), ((1.0, "Go."), (time_s, "It boils."))
    spoken = [{"time": time, "role": "assistant", "content": text} for time, text in both]
    times, texts = [time for time, _ in both], [text for _, text in both]
    frames = [{"gen": text, "frame_idx_in_stream": int(fps * time)} for time, text in both]
    return {
        "ProAssist": {"metadata": {"video_uid": "kettle", "fps": fps}, "predictions": frames},
        "VideoLLM-online": {
            "video_path": "kettle.mp4",
            "frame_fps": fps,
            "conversation": [{**one, "cost": 0.1} for one in spoken],
        },
        "MMDuet": {
            "question_id": "kettle",
            "model_response_list": spoken,
            "debug_data": [{"time": time, "informative_score": 0.5} for time in times],
        },
        "ProactiveVideoQA": {"question_id": "kettle", "model_response_list": spoken},
        "MiniCPM-o-Demo": [
            {"index": int(time), "result": {"mode": "SPEAK", "text": text, "end_of_turn": True}} for time, text in both
        ],
        "MiniCPM-o-Demo stream": stream_of(
            [
                [{"kind": "text", "text": "It boils."}] if at == second else [{"kind": "listen"}]
                for at in range(second + 1)
            ]
        ),
        "Streamo": {
            "video_path": "kettle.mp4",
            "output": {f"Round {int(time)}": f"</Response> {text}" for time, text in both},
        },
        "Streamo or JoyAI-VL": {
            "videos": ["kettle.mp4"],
            "messages": [
                message
                for time, text in both
                for message in (
                    {"role": "user", "content": f"<{int(time)}s-{int(time) + 1}s>"},
                    {"role": "assistant", "content": f"</Response> {text}"},
                )
            ],
        },
        "Qualcomm Interactive Cooking": {"video_id": "kettle", "pred_texts": texts, "pred_timestamps": times},
        "QEVD": {"mini_episode_id": "kettle", "pred_feedbacks": texts, "pred_feedback_timestamps": times},
        "SPOT-Bench": {"kettle": [{"time": time, "type": "response", "value": text} for time, text in both]},
        "StreamingVLM": [{"type": "segment", "start": time, "end": time + 1, "text": text} for time, text in both],
        "EgoProactive": {
            "video_path": "kettle.mp4",
            "video_intervals": [[time, time + 1] for time in times],
            "answers": [f"$interrupt${text}" for text in texts],
        },
        "Em-Garde": {
            **EM_GARDE,
            "similarities": [{"curr_time": time, "similarities": [0.5], "processing_time": 0.1} for time in times],
            "detections": times,
            "checked_detections": [{"time": time, "response": text} for time, text in both],
        },
        "Omni-DuplexEval": [{"text": text, "start": time} for time, text in both],
        "OmniPro": {"id": "kettle", "predictions": [{"t_sec": time, "raw": text} for time, text in both]},
    }[form]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize(("time_s", "fps"), [(10.0, 1.0), (10.0, 2.0), (10.4, 2.0), (11.0, 2.0)])
def test_a_reply_of_each_form_up_to_a_second_after_the_end_is_at_the_last_frame(
    tmp_path: Path, form: ResultForm, time_s: float, fps: float
) -> None:
    sample = replace(KETTLE, fps=fps, num_frames=int(10 * fps))
    path = tmp_path / "kettle.json"
    path.write_text(json.dumps(reply_at(form.name, time_s, fps)), encoding="utf-8")
    run = imported(tmp_path, path, sample)
    outputs, record = run.outputs(sample), run.record("kettle")
    assert record is not None
    assert record.warning == "1 reply at or after the end counts at the last frame"
    assert len(outputs) == sample.num_frames
    assert outputs[-1].response == "It boils."
    assert outputs[-1].state in (None, "response", "speak", "interrupt", "detected")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_later_reply_of_each_form_is_refused_with_its_place_and_time(tmp_path: Path, form: ResultForm) -> None:
    sample = replace(KETTLE, fps=2.0, num_frames=20)
    with pytest.raises(ValueError, match=r"\S+ is at 12 s, but the video ends by 10 s; give the results of this video"):
        read(tmp_path, reply_at(form.name, 12.0), sample, "kettle.json")


def test_a_silent_round_after_the_end_changes_nothing(tmp_path: Path) -> None:
    output = {"Round 9": "</Response> It boils.", "Round 10": "</Silence>"}
    found = read(tmp_path, {**ROUNDS, "output": output}, replace(KETTLE, fps=2.0, num_frames=20))
    assert messages(found) == {18: "It boils."}
    assert [one.state for one in found[-2:]] == ["response", "response"]
