"""Videos streamed to served models, and recorded as runs."""

import base64
import json
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.control.task import Task
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.video.reader import Frame
from stepscope.eval.cli.finished_runs import score
from stepscope.eval.cli.options import RescoreOptions
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.grading import Reply
from stepscope.eval.recorder import RunRecorder, Turn
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.served.answer_log import open_answers
from stepscope.eval.served.chat import ChatClient, Endpoint, ServedModelError
from stepscope.eval.served.judge import EndpointJudge
from stepscope.eval.served.prompts import FramePrompt
from stepscope.eval.served.stream import Served, stream_video
from stepscope.eval.served.video_chat import open_video_chat
from tests.support.data.batches import no_java
from tests.support.paths import ASSETS
from tests.support.servers.served import ModelServer, serve_chat, serve_video_chat

SECRET = "sk-a-secret-key"
PICTURE = np.zeros((48, 64, 3), np.uint8)
TASK = Task(goal="build the boat", steps=(), user_turns=(UserTurn(time_s=0.6, text="What now?"),))
Serve = Callable[[ModelServer], AbstractContextManager[ModelServer]]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_API_KEY", SECRET)


def frames(number: int) -> list[Frame]:
    return [Frame(index=index, time_s=index / 2, image=PICTURE) for index in range(number)]


def recorded(
    folder: Path, server: ModelServer, *, number: int = 5, **served: Any
) -> tuple[tuple[FrameOutput, ...], int]:
    """Stream frames at 2 per second, and return the recorded outputs and the number of late frames."""
    endpoint = Endpoint(url=server.url, model="m", **served.pop("endpoint", {}))
    clocks = {name: served.pop(name) for name in ("clock", "sleep") if name in served}
    model = Served(endpoint=endpoint, **served)
    with (
        RunRecorder(folder, model="m") as run,
        open_answers(folder, "v", {}, resume=False) as answers,
        run.video("v", fps=2) as video,
    ):
        late = stream_video(model, frames(number), TASK, video, fps=2, answers=answers, **clocks)
    sample = read_split(RunFolder(folder).split_path()).samples[0]
    return RunFolder(folder).outputs(sample), late


@pytest.mark.parametrize("serve", [serve_chat, serve_video_chat])
def test_answers_are_recorded_at_their_frames(tmp_path: Path, serve: Serve) -> None:
    with serve(ModelServer(answers=["SILENT", "Hang the sail.", "silent.", "\u200b", "Done."])) as server:
        outputs, late = recorded(tmp_path / "run", server)
    assert [output.response for output in outputs] == [None, "Hang the sail.", None, None, "Done."]
    assert [output.state for output in outputs] == ["silent", "respond", "silent", "silent", "respond"]
    assert all(output.latency_ms > 0 for output in outputs)
    assert late == 0
    assert set(server.keys) == {f"Bearer {SECRET}"}
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file() and SECRET in path.read_text()]


@pytest.mark.parametrize("serve", [serve_chat, serve_video_chat])
def test_a_server_that_repeats_the_key_puts_it_into_no_file_and_no_log(
    tmp_path: Path, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serve(ModelServer(answers=[f"Your key is {SECRET}."])) as server:
        outputs, _ = recorded(tmp_path / "run", server, number=1)
    assert outputs[0].response == "Your key is ***."
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file() and SECRET in path.read_text()]
    logged = [record.getMessage() for record in caplog.records if record.name != "websockets.server"]  # the test's own
    assert logged
    assert not [line for line in logged if SECRET in line]


def test_a_stream_is_opened_again_after_a_passing_refusal_and_keeps_its_rate() -> None:
    now, waits = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    with serve_video_chat(ModelServer(answers=["a", "b", "c"], failures=[(503, {}), (429, {})])) as server:
        endpoint = Endpoint(url=server.url, model="m", requests_per_minute=30)
        with open_video_chat(endpoint, sleep=sleep, clock=lambda: now[0]) as chat:
            assert [chat.ask("?").text for _ in range(3)] == ["a", "b", "c"]
    assert waits == [1.0, 2.0, 2.0, 2.0]  # two refusals; then 2 s between two queries


def test_a_polled_model_gets_the_latest_pictures_the_users_words_and_what_it_said(tmp_path: Path) -> None:
    with serve_chat(ModelServer(answers=["Begin.", "SILENT", "Hang it."])) as server:
        recorded(tmp_path / "run", server, number=4, prompt=FramePrompt(num_pictures=2))
    contents = [request["messages"][0]["content"] for request in server.requests]
    assert [len(content) for content in contents] == [2, 3, 3, 3]  # one or two pictures, and the text
    picture = contents[0][0]["image_url"]["url"].removeprefix("data:image/jpeg;base64,")
    assert base64.b64decode(picture).startswith(b"\xff\xd8")
    texts = [content[-1]["text"] for content in contents]
    assert ["What now?" in text.split("last picture")[1] for text in texts] == [False, False, True, False]  # 0.6 s
    assert "0 s: Begin." in texts[1]
    assert texts[3].index("0 s: Begin.") < texts[3].index("user: What now?") < texts[3].index("1 s: Hang it.")
    assert server.requests[0]["path"] == "/v1/chat/completions"


def test_a_stream_is_configured_and_gets_each_frame_before_its_query(tmp_path: Path) -> None:
    with serve_video_chat(ModelServer(answers=[])) as server:
        recorded(tmp_path / "run", server, number=2)
    kinds = [request["type"] for request in server.requests]
    assert kinds == ["session.config", *["video.frame", "video.query"] * 2, "video.done"]
    assert server.requests[0]["model"] == "m"
    assert server.requests[0]["path"] == "/v1/video/chat/stream"


def test_passing_failures_are_retried_after_the_time_that_the_server_wants() -> None:
    waits: list[float] = []
    dates = [f"Mon, 01 Jan 2020 00:00:00 +{'9' * 20}", f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT"]
    failures = [(429, {"Retry-After": "7"}), *((503, {"Retry-After": wait}) for wait in ("²", *dates))]
    with (
        serve_chat(ModelServer(answers=["Yes."], failures=failures)) as server,
        ChatClient(Endpoint(url=server.url, model="m", num_retries=4), sleep=waits.append) as client,
    ):
        assert client.complete([], max_tokens=5).text == "Yes."
    assert waits == [7.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    ("failures", "raw", "num_requests", "reason"),
    [
        ([(401, {})], None, 1, "status 401"),
        ([(500, {})] * 9, None, 3, "status 500"),
        ([], '{"choices": [{"message": {"content": 7}}]}', 1, "no text"),
        ([(400, {})], f"bad key {SECRET}", 1, r"bad key \*\*\*"),
    ],
)
def test_a_request_that_fails_names_the_reason_and_never_the_key(
    failures: list[tuple[int, dict[str, str]]], raw: str | None, num_requests: int, reason: str
) -> None:
    with serve_chat(ModelServer(answers=[], failures=failures, raw=raw)) as server:
        client = ChatClient(Endpoint(url=server.url, model="m", num_retries=2), sleep=lambda _: None)
        with client, pytest.raises(ServedModelError, match=reason) as error:
            client.complete([], max_tokens=5)
    assert SECRET not in str(error.value)
    assert len(server.requests) == num_requests


def test_an_endpoint_that_does_not_answer_is_an_error_and_the_video_failed(tmp_path: Path) -> None:
    with (
        serve_video_chat(ModelServer(answers=[]), is_silent=True) as server,
        pytest.raises(ServedModelError, match="no answer in time"),
    ):
        recorded(tmp_path / "run", server, endpoint={"timeout_s": 0.2})
    record = RunFolder(tmp_path / "run").record("v")
    assert record is not None
    assert "no answer in time" in record.error


def test_in_real_time_frames_wait_for_their_times_and_late_ones_are_left_out(tmp_path: Path) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    class Slow(ModelServer):
        def next_answer(self) -> str:
            now[0] += 1.2  # more than two frames of 0.5 s
            return super().next_answer()

    with serve_chat(Slow(answers=["a", "b"])) as server:
        outputs, late = recorded(
            tmp_path / "run", server, number=6, is_real_time=True, clock=lambda: now[0], sleep=sleep
        )
    # Frame 0 takes until 1.2 s: frame 1 (0.5 s) is late, frame 2 (1.0 s) is 0.2 s late and sent, until 2.4 s.
    assert [output.response for output in outputs][:4] == ["a", None, "b", None]
    assert late == 3  # frames 1 and 3, and 5: frame 4 (2.0 s) is 0.4 s late, sent, and takes until 3.6 s


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://", "must be an address such as"),
        ("http://me:secret@host/v1", "no key or password"),
        (f"http://host/{SECRET}/v1", "no key or password"),
    ],
)
def test_an_address_that_is_none_or_holds_a_key_is_refused(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Endpoint(url=url, model="m")


@pytest.mark.parametrize("template", ["{picture}", "{goal.__class__}", "{goal!r:>9999999999}", " \u200b"])
def test_a_prompt_that_is_empty_or_has_an_unknown_field_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"may have the fields|the prompt is empty"):
        FramePrompt(template=template)


def test_the_command_records_a_bundled_video_against_its_split(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    video = ASSETS / "demo" / "boat.mp4"
    content = json.loads((ASSETS / "demo" / "test.json").read_text())
    (sample,) = (one for one in content["videos"] if one["video_id"] == "boat")
    (tmp_path / "split.json").write_text(
        json.dumps({"videos": [{**sample, "video_path": str(video), "start_s": 1.0, "num_frames": 6, "turns": []}]})
    )
    with serve_chat(ModelServer(answers=["SILENT", "Set down the hull."])) as server:
        words = ["run", str(video), "--endpoint", server.url, "--model", "org/m", "--pictures", "1"]
        code = main([*words, "--split", str(tmp_path / "split.json"), "--out", str(tmp_path / "run")])
    assert code == 0, capfd.readouterr().err
    run = RunFolder(tmp_path / "run")
    outputs = run.outputs(read_split(tmp_path / "split.json").samples[0])
    assert [output.response for output in outputs] == [None, "Set down the hull.", None, None, None, None]
    assert main(["run", str(video), "--endpoint", server.url, "--out", str(tmp_path / "x")]) == 2
    assert "--model is missing" in capfd.readouterr().err


REPLIES = [Reply(question="When?", gold="Now.", text=text) for text in ("Now.", "Soon.", "Never.", "Now.")]


def test_answers_are_grades_and_none_is_asked_twice(tmp_path: Path) -> None:
    cache = tmp_path / "judgements.json"
    with serve_chat(ModelServer(answers=["3 / 3", "On a scale of 1 to 3: 2", "1 out of 3"])) as server:
        endpoint = Endpoint(url=server.url, model="m")
        with ChatClient(endpoint) as client:
            assert EndpointJudge(client, cache)(REPLIES) == [2, 1, 0, 2]
        with ChatClient(endpoint) as client:
            assert EndpointJudge(client, cache)(REPLIES) == [2, 1, 0, 2]  # from the disk
    assert len(server.requests) == 3
    assert "Reference: Now." in server.requests[0]["messages"][1]["content"]


def test_an_answer_without_one_grade_and_a_damaged_cache_are_errors(tmp_path: Path) -> None:
    answers = ["I give 10", "2. It lacks 1 point.", "2.5", "2/5", "2 out of 10", "-1", "0, not even 1"]
    with (
        serve_chat(ModelServer(answers=[*answers])) as server,
        ChatClient(Endpoint(url=server.url, model="m")) as client,
    ):
        for answer in answers:
            with pytest.raises(ServedModelError, match=f"without one grade from 1 to 3: '{answer}'"):
                EndpointJudge(client, tmp_path / "a.json")(REPLIES)
        (tmp_path / "b.json").write_text('{"x": 7}')
        with pytest.raises(ValueError, match="must hold grades from 0 to 2"):
            EndpointJudge(client, tmp_path / "b.json")


def test_the_command_scores_with_the_judge_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.eval.cli.finished_runs.TextScorer", no_java)
    span = Turn(time_s=1.0, role="assistant", text="Now.", end_s=3.0)
    with RunRecorder(tmp_path / "run", model="m") as run, run.video("v", fps=2, turns=[span]) as video:
        for index in range(8):
            video.frame(index / 2, response="Now." if index == 4 else None)
    with serve_chat(ModelServer(answers=["1"])) as server:
        assert score(RescoreOptions(run=tmp_path / "run", judge=server.url, judge_model="m")) == 0
    content = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert content["judge"] == f"m at {server.url}"
    assert content["scores"]["PAUC_w1"] == 0.0  # wrong; by cosine it is right
    assert RunFolder(tmp_path / "run").count_videos() == 1
