"""Result files as the published programs write them: rounded times, polls after the end, event streams, other names."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.server.routes import to_wav
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.imports.import_results import import_into, read_result
from stepscope.eval.runs.imports.recorded_sound import find_answer, list_answers
from tests.support.data.strategies import BOAT
from tests.support.paths import ROOT

KETTLE = replace(BOAT, video_id="kettle", video_path=Path("kettle.mp4"), fps=1.0, num_frames=10, turns=())
STATES = ["</Silence>", "</Silence>", "</Standby>", "</Standby>", "</Response> The kettle boils."]
ROUNDS: dict[str, Any] = {"video_path": "./demo/kettle.mp4", "target_fps": 1.0, "output": {}} | {
    "output": {f"Round {number}": answer for number, answer in enumerate([*STATES, *["</Silence>"] * 5])}
}


INTERVALS = {"video_path": "kettle.mp4", "video_intervals": [[0, 4], [4.0, 10.0]]} | {
    "answers": ["$silent$", "$interrupt$It boils."]
}
EM_GARDE = {
    "id": 7,
    "video_path": "videos/kettle.mp4",
    "similarities": [
        {"curr_time": float(second), "similarities": [[0.1, second / 10]], "processing_time": 0.25}
        for second in range(1, 11)
    ],
    "detections": [4.0, 6],
    "checked_detections": [{"time": 4.0, "response": "It boils."}],
}


def read(tmp_path: Path, content: object, sample: Sample = KETTLE, name: str = "a.json") -> tuple[FrameOutput, ...]:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_result(path, sample).outputs


def messages(outputs: tuple[FrameOutput, ...]) -> dict[int, str]:
    return {output.frame_index: output.response for output in outputs if output.response is not None}


def to_lines(values: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize("reverse", [False, True])
def test_streamo_writes_an_answer_per_round_which_is_its_second(tmp_path: Path, reverse: bool) -> None:
    output = dict(sorted(ROUNDS["output"].items(), reverse=reverse))
    outputs = read(tmp_path, {"output": output, "video_path": ROUNDS["video_path"]})
    assert messages(outputs) == {4: "The kettle boils."}
    assert [one.state for one in outputs][:5] == ["silence", "silence", "standby", "standby", "response"]
    assert len(outputs) == 10
    at_two = read(tmp_path, ROUNDS, replace(KETTLE, fps=2.0, num_frames=20))
    assert messages(at_two) == {8: "The kettle boils."}
    assert len(at_two) == 20


@pytest.mark.parametrize("fps", [1.0, 7.0, 29.97])
def test_times_that_are_rounded_to_three_digits_are_in_their_frames(tmp_path: Path, fps: float) -> None:
    num_frames, reply = round(10 * fps), round(4 * fps)
    scores = [
        {"time": round(frame / fps, 3), "informative_score": frame / 1000, "relevance_score": 0.5}
        for frame in range(num_frames)
    ]
    content = {
        "question_id": "kettle",
        "model_response_list": [{"time": round(reply / fps, 3), "content": "It boils.", "role": "assistant"}],
        "debug_data": scores,
    }
    outputs = read(tmp_path, content, replace(KETTLE, fps=fps, num_frames=num_frames))
    assert [output.signals["informative_score"] for output in outputs] == [frame / 1000 for frame in range(num_frames)]
    assert messages(outputs) == {reply: "It boils."}


def stream_of(answers: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the lines of a recording with these answers in each second."""
    frames: list[tuple[str, dict[str, Any]]] = [("up", {"type": "session.init", "payload": {"mode": "full_duplex"}})]
    for of_second in answers:
        frames.append(("up", {"type": "input.append", "input": {"audio": "@blob/0.wav", "video_frames": ["@b.jpg"]}}))
        frames += [("down", {"type": "response.output.delta", **answer}) for answer in of_second]
    frames.append(("down", {"type": "session.closed", "reason": "done"}))
    return [{"seq": seq, "ts": 10.0 + seq, "dir": way, "frame": frame} for seq, (way, frame) in enumerate(frames)]


def test_the_stream_of_a_newer_recorder_has_a_second_per_push(tmp_path: Path) -> None:
    listen = {"kind": "listen", "metrics": {"kv_cache_length": 100, "n_tokens": 1, "wall_clock_ms": 250.0}}
    text = {"kind": "text", "text": "The kettle", "response_id": "r1"}
    rest: list[dict[str, Any]] = [
        {"kind": "text", "text": " boils."},
        {"kind": "audio", "audio": "@blob/3.wav", "metrics": {"n_tokens": 4}},
    ]
    lines = stream_of([[listen], [listen], [text], rest, [listen], []])
    for content in (to_lines(lines), to_lines(lines[::-1]), "\ufeff" + to_lines(lines), lines):
        outputs = read(tmp_path, content, name="stream.jsonl")
        assert messages(outputs) == {2: "The kettle boils."}
        assert [output.state for output in outputs] == ["listen", "listen", "speak", "speak", "listen"]
        assert outputs[0].latency_ms == 250.0
        assert outputs[0].cache_tokens == 100
        assert outputs[3].signals == {"n_tokens": 4}


WAV = to_wav(bytes(200))


@pytest.mark.parametrize(
    ("path", "content", "is_kept"),
    [
        ("blob/3.wav", WAV, True),
        ("blob/3.wav", b"RIFF....AVI " + bytes(99), False),
        ("../secret.wav", WAV, False),
        ("/etc/passwd", None, False),
    ],
)
def test_the_sound_of_an_answer_is_copied_from_the_folder_of_the_session(
    tmp_path: Path, path: str, content: bytes | None, is_kept: bool
) -> None:
    (tmp_path / "kettle" / "blob").mkdir(parents=True)
    if content is not None:
        (tmp_path / "kettle" / path).write_bytes(content)
    spoken = {"kind": "audio", "audio": f"@{path}", "metrics": {"n_tokens": 4}}
    stream = tmp_path / "kettle" / "stream.jsonl"
    stream.write_text(to_lines(stream_of([[{"kind": "listen"}], [{"kind": "text", "text": "Now."}, spoken]])))
    import_into(tmp_path / "run", [stream], read_split(ROOT / "tests" / "data" / "imports" / "gold.json"), {})
    run = RunFolder(tmp_path / "run")
    assert list_answers(run.settings() or {}, "kettle") == ([(1.0, 2)] if is_kept else [])
    found = find_answer(run, "kettle", 2)
    assert (found and found.read_bytes()) == (WAV if is_kept else None)
    assert find_answer(run, "kettle", 1) is None, "the sound of the user"
    if found is not None:
        found.unlink()
        found.symlink_to(tmp_path / "kettle" / path)
        assert find_answer(run, "kettle", 2) is None, "a link that leads out of the run"
        found.unlink()
        found.symlink_to(found.name)
        assert find_answer(run, "kettle", 2) is None, "a link to itself"
        (run.path / "other.wav").write_bytes(WAV)
        settings = (run.path / "run.json").read_text().replace("audio/kettle", "audio/../other.wav?kettle")
        (run.path / "run.json").write_text(settings.replace("?kettle.2.wav", ""))
        assert list_answers(run.settings() or {}, "kettle") == [(1.0, 2)]
        assert find_answer(run, "kettle", 2) is None, "a file of the run that is no sound of an answer"


@pytest.mark.parametrize(
    ("of_text", "of_time", "time"),
    [("sentence", "start", 4.0), ("text", "current_time", "4.0"), ("content", "time", 4)],
)
def test_a_segment_has_any_of_the_names_that_the_benchmark_reads(
    tmp_path: Path, of_text: str, of_time: str, time: object
) -> None:
    segment = {of_text: "It boils.", of_time: time, "end": 5.0}
    for content in ([segment], {"sentences": [segment]}, {"chunks": [segment], "id": "kettle"}):
        assert messages(read(tmp_path, content)) == {4: "It boils."}


def imported(tmp_path: Path, file: Path, *samples: Sample) -> RunFolder:
    split = Split(path=tmp_path / "split.json", entries=samples)
    import_into(tmp_path / "run", [file], split, {})
    return RunFolder(tmp_path / "run")


def test_a_file_that_names_no_video_belongs_to_its_name_or_to_the_only_video(tmp_path: Path) -> None:
    file = tmp_path / "omni-duplex.json"
    file.write_text(json.dumps([{"content": "It boils.", "time": 4.0}]), encoding="utf-8")
    assert messages(imported(tmp_path, file, KETTLE).outputs(KETTLE)) == {4: "It boils."}
    other = replace(KETTLE, video_id="toast", video_path=Path("toast.mp4"))
    with pytest.raises(ValueError, match=r"is of the video omni-duplex\.json, which fits 0 videos"):
        imported(tmp_path / "two", file, KETTLE, other)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_loses_no_video(tmp_path: Path, encoding: str) -> None:
    toast = replace(KETTLE, video_id="toast", video_path=Path("toast.mp4"))
    file = tmp_path / "a.jsonl"
    lines = [{**ROUNDS, "video_path": f"{name}.mp4"} for name in ("kettle", "toast")]
    file.write_text(to_lines(lines), encoding=encoding)
    run = imported(tmp_path, file, KETTLE, toast)
    for sample in (KETTLE, toast):
        assert messages(run.outputs(sample)) == {4: "The kettle boils."}


def named(name: str) -> list[tuple[str, object]]:
    """Return a result of a video in each form whose records name it."""
    reply = [{"role": "assistant", "content": "It boils.", "time": 4}]
    return [
        ("video", {"question_id": "q7", "video": f"{name}.mp4", "model_response_list": reply}),
        ("video_path", {**ROUNDS, "video_path": f"videos/{name}.mp4"}),
    ]


@pytest.mark.parametrize("place", range(2))
def test_the_only_result_of_a_file_is_refused_if_it_names_another_video(tmp_path: Path, place: int) -> None:
    upload = replace(KETTLE, video_id="8a2f", video_path=Path("kettle.mp4"))
    of_kettle, of_toast = named("kettle")[place][1], named("toast")[place][1]
    assert read(tmp_path, of_kettle, upload)
    sentence = (
        r"is of the video .*toast.*, not of kettle\.mp4; give the results of this video, or name the video's file"
    )
    with pytest.raises(ValueError, match=sentence):
        read(tmp_path, of_toast, upload)


@pytest.mark.parametrize(("fps", "num_frames"), [(1.0, 10), (2.0, 20), (29.97, 299)])
def test_a_decision_per_interval_holds_for_its_frames(tmp_path: Path, fps: float, num_frames: int) -> None:
    outputs = read(tmp_path, INTERVALS, replace(KETTLE, fps=fps, num_frames=num_frames))
    assert list(messages(outputs).values()) == ["It boils."]
    assert len(outputs) == num_frames
    states = [output.state for output in outputs]
    assert states.index("interrupt") == next(iter(messages(outputs)))
    assert set(states) == {"silent", "interrupt"}


def test_the_signal_of_em_garde_is_the_largest_similarity(tmp_path: Path) -> None:
    outputs = read(tmp_path, EM_GARDE)
    assert [output.signals.get("similarity") for output in outputs][1:5] == [0.1, 0.2, 0.3, 0.4]
    assert [output.frame_index for output in outputs if output.state == "detected"] == [4, 6]
    assert messages(outputs) == {4: "It boils."}
    assert outputs[3].latency_ms == 250.0
    assert len(outputs) == 10
    assert outputs[9].signals == {"similarity": 0.9}, "the last step is at the end of the video, and silent"


def test_detections_of_em_garde_without_replies_are_replies_without_a_text_and_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content in ({**EM_GARDE, "checked_detections": []}, {k: EM_GARDE[k] for k in EM_GARDE if k[0] != "c"}):
        path.write_text(json.dumps(content))
        found = read_result(path, KETTLE)
        assert messages(found.outputs) == {4: "[text not recorded]", 6: "[text not recorded]"}
        assert "--should-respond" in found.warning
    assert read(tmp_path, {**EM_GARDE, "detections": [], "checked_detections": []})


def test_sound_of_minicpm_without_the_text_of_its_words_is_a_reply_with_a_warning(tmp_path: Path) -> None:
    chunks = [
        {"index": 0, "result": {"mode": "LISTEN"}},
        {"index": 1, "result": {"mode": "SPEAK", "end_of_turn": True}},
        {"index": 2, "result": {"mode": "SPEAK", "text": ""}},
    ]
    path = tmp_path / "recording.json"
    path.write_text(json.dumps({"chunks": chunks}))
    found = read_result(path, KETTLE)
    assert messages(found.outputs) == {1: "[text not recorded]"}
    assert "without the text" in found.warning


def test_segments_without_a_text_are_refused_and_without_a_time_named(tmp_path: Path) -> None:
    path = tmp_path / "kettle.json"
    path.write_text(json.dumps({"id": "kettle", "sentences": [{"text": "It boils."}]}))
    found = read_result(path, KETTLE)
    assert messages(found.outputs) == {0: "It boils."}
    assert found.warning == "1 segment without a time counted at 0 s"
    path.write_text(json.dumps({"id": "kettle", "sentences": [{"start": 1.0, "speech": "It boils."}]}))
    with pytest.raises(ValueError, match=r"sentences\[0\]\.sentence is missing; it must be text"):
        read_result(path, KETTLE)


def test_captions_of_streaming_vlm_have_the_latency_and_no_marks(tmp_path: Path) -> None:
    captions = (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n Infer Time: 0.213s\n  ...\n\n"
        "00:00:01.000 --> 00:00:02.000\n Infer Time: 0.187s\n Water is poured. ...\n\n"
        "00:00:02.000 --> 00:00:03.000\n infer time: 1s\n ... It boils ... \n\n"
        "00:00:03.000 --> 00:00:04.000\nWait... the lid.\n"
    )
    for text in (captions, captions.replace("...", "…")):
        outputs = read(tmp_path, text, name="kettle.vtt")
        wait = "Wait… the lid." if "…" in text else "Wait... the lid."
        assert messages(outputs) == {1: "Water is poured.", 2: "It boils", 3: wait}
        assert [output.latency_ms for output in outputs[:3]] == [213.0, 187.0, 1000.0]
    segment = {"type": "segment", "start": 1.0, "end": 2.0, "text": "Water is poured. ..."}
    assert messages(read(tmp_path, to_lines([segment]), name="kettle.jsonl")) == {1: "Water is poured."}


def test_a_file_of_spot_has_the_events_of_many_videos(tmp_path: Path) -> None:
    events = [
        {"time": 0.0, "type": "question", "value": "When does it boil?", "turn_id": "T1"},
        {"time": 3.0, "type": "response", "value": "No.", "turn_id": "T1"},
        {"time": 4.0, "type": "response", "value": "Now!", "latency": 0.5},
    ]
    content = {"other.mp4": [], "kettle": events}
    outputs = read(tmp_path, content)
    assert messages(outputs) == {4: "Now!"}
    assert outputs[4].signals == {"latency_s": 0.5}
    with pytest.raises(ValueError, match=r"is of the video other\.mp4, not of kettle\.mp4"):
        read(tmp_path, {"other.mp4": events}, KETTLE)


def test_a_file_of_captions_is_read_as_segments(tmp_path: Path) -> None:
    captions = (
        "WEBVTT\n\nNOTE by StreamingVLM\n\n1\n00:00:00.000 --> 00:00:01.000\n...\n\n"
        "00:01.000 --> 00:02.000 align:start\nWater is\npoured.\n\n00:00:04.500 --> 00:00:05.000\nIt boils.\n"
    )
    for text in (captions, captions.replace("\n", "\r\n"), f"\ufeff{captions}", captions.replace("01.000", "01,000")):
        outputs = read(tmp_path, text, name="kettle.vtt")
        assert messages(outputs) == {1: "Water is poured.", 4: "It boils."}
        assert len(outputs) == 5
    numbered = "1\n00:00:01,000 --> 00:00:02,000\nWater is\npoured.\n\n2\n00:00:04,500 --> 00:00:05,000\nIt boils.\n"
    assert messages(read(tmp_path, numbered, name="kettle.srt")) == {1: "Water is poured.", 4: "It boils."}
    lines = [
        {"type": "segment", "start": float(at), "end": at + 1.0, "text": " ..." if at else "Go"} for at in range(3)
    ]
    assert messages(read(tmp_path, to_lines(lines), name="kettle.jsonl")) == {0: "Go"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"video_id": "kettle", "pred_texts": ["a"], "pred_timestamps": []}, "a time for each of pred_texts"),
        (
            {**EM_GARDE, "similarities": [{"curr_time": 1.0, "similarities": ["a"]}]},
            r"similarities\[0\].similarities\[0\] must be a number",
        ),
    ],
)
def test_a_wrong_value_of_a_form_is_named(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content)


def test_results_that_extend_over_lines_are_read_one_after_the_other(tmp_path: Path) -> None:
    records = [{"question_id": name, "model_response_list": [{"time": 2, "content": name}]} for name in ("a", "kettle")]
    joined = "\n".join(json.dumps(record, indent=2) for record in records)
    assert messages(read(tmp_path, joined, name="pred.jsonl")) == {2: "kettle"}
    with pytest.raises(ValueError, match="an object has the key 'content' twice"):
        read(tmp_path, joined.replace('"content"', '"content": "x", "content"'), name="pred.jsonl")


def test_marks_and_entities_of_subtitles_are_no_part_of_a_message(tmp_path: Path) -> None:
    cues = (
        "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n<v Anna>Fill &amp; close</v><00:00:01.500><c> the kettle.</c>\n\n"
        "00:00:03.000 --> 00:00:04.000\n{\\an8}<i>Is 1 < 2?</i>\n"
    )
    outputs = read(tmp_path, cues, name="kettle.vtt")
    assert [output.response for output in outputs if output.response] == ["Fill & close the kettle.", "Is 1 < 2?"]


def test_an_export_of_a_review_is_not_taken_for_the_words_of_a_model(tmp_path: Path) -> None:
    cues = "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n<v corrected state: S1>not_started\n"
    with pytest.raises(ValueError, match="has the reference, too; import the outputs of its run instead"):
        read(tmp_path, cues, name="kettle.vtt")
