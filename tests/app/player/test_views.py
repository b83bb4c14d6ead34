import base64
import io
import json
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from stepscope.app.core.run import Run
from stepscope.app.core.videos import Clip
from stepscope.app.formatting import as_sentence, format_clock
from stepscope.app.player.views import status_line
from stepscope.app.server.routes import ANSWER_URL, SPEECH_URL, speech_routes, to_wav
from stepscope.app.templates import render_note
from stepscope.app.window.payload import pack_run
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import fill_legality, initial_state
from stepscope.engine.records import FrameOutput, Step, UserTurn
from stepscope.engine.speech.espeak import SAMPLE_RATE
from stepscope.eval.data.samples import Turn
from stepscope.eval.metrics.score import analyze_video
from tests.support.data.records import make_output, make_sample
from tests.support.streams.fakes import count_letters

STEPS = (Step(id="S1", name="attach the wheel"), Step(id="S2", name="put on <b>the roof</b>"))


def output(
    index: int, *, speak_prob: float = 0.25, response: str | None = None, updates: tuple[str, ...] = (), **state: str
) -> FrameOutput:
    return make_output(
        index,
        speak_prob=speak_prob,
        update_prob=0.75,
        response=response,
        updates=updates,
        dst_state={"S1": "not_started", "S2": "not_started", **state},
    )


@pytest.fixture
def run() -> Run:
    """Return four frames at 2 fps: S1 starts one frame late, followed by a malformed and an illegal update."""
    turns = (
        Turn(time_s=0.5, role="update", text="S1->start"),
        Turn(time_s=1.0, role="user", text="What is next?"),
        Turn(time_s=1.0, role="assistant", text="The roof."),
        Turn(time_s=9.0, role="update", text="S1->complete"),
    )
    sample = make_sample(video_id="truck", video_path=Path("truck.mp4"), steps=STEPS, turns=turns)
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
        outputs=fill_legality(outputs, initial_state(STEPS)),
    )


def test_times_are_in_hours_and_minutes_and_sentences_name_the_file_not_its_place() -> None:
    whole = ((0, "0:00"), (59.4, "0:59"), (59.96, "1:00"), (600, "10:00"), (10_800, "3:00:00"))
    assert [format_clock(time_s) for time_s, _ in whole] == [text for _, text in whole]
    tenths = ((0.5, "0:00.5"), (59.96, "1:00.0"), (754.2, "12:34.2"), (3661.5, "1:01:01.5"))
    assert [format_clock(time_s, digits=1) for time_s, _ in tenths] == [text for _, text in tenths]
    assert as_sentence("there is no run " + "x" * 9000).startswith("there is no run xxx")
    assert len(as_sentence("there is no run " + "x" * 9000)) < 620
    assert as_sentence("/tmp/gradio/x/a b.mp4: it is empty") == "a b.mp4: it is empty."
    assert as_sentence("step ids must differ: S1, S1.") == "step ids must differ: S1, S1."


@pytest.fixture
def packed(run: Run, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(Clip, "video_fps", 10.0)
    assert run.clip.sample is not None
    pack: dict[str, Any] = json.loads(
        pack_run(run, analyze_video(run.clip.sample, run.outputs, encode=count_letters).judged)
    )
    return pack


def test_series_reach_the_browser_to_the_last_bit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clip, "video_fps", 10.0)
    exact = replace(run, outputs=(output(0, speak_prob=1 / 3), output(1, speak_prob=0.1 + 0.2)))
    series = json.loads(pack_run(exact))["speak"]
    assert np.frombuffer(base64.b64decode(series), "<f8").tolist() == [1 / 3, 0.1 + 0.2]


def test_turns_bands_and_failures_are_packed_as_they_were_judged(
    packed: dict[str, Any],
) -> None:
    turns = [(turn["frame"], turn["text"], turn["verdict"], turn["legality"], turn["link"]) for turn in packed["turns"]]
    assert turns == [
        (2, "S1->start", "matched", "legal", 0),
        (2, "The roof.", "matched", "legal", 2),
        (3, "S1 begins", "redundant", "malformed", None),
        (3, "S2->complete", "redundant", "illegal", None),
    ]
    assert packed["turns"][0]["delay"] == 0.5
    assert packed["turns"][1]["score"] == pytest.approx(1)
    assert packed["bands"]["model"] == [[[-1, 0], [2, 1]], [[-1, 0], [3, 2]]]
    assert packed["bands"]["reference"] == [[[-1, 0], [1, 1], [18, 2]], [[-1, 0]]]
    assert [(failure["kind"], failure["frame"], failure["words"]) for failure in packed["failures"]] == [
        ("wrong state", 1, "of S1"),
        ("wrong update", 3, "S1 begins, with no reference near"),
        ("wrong update", 3, "S2->complete, with no reference near"),
        ("wrong state", 3, "of S2"),
    ]


def test_a_run_without_reference_has_no_verdicts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clip, "video_fps", 10.0)
    pack = json.loads(pack_run(replace(run, clip=replace(run.clip, sample=None))))
    assert {turn["verdict"] for turn in pack["turns"]} == {None}
    assert (pack["has_reference"], pack["expected"], pack["failures"]) == (False, None, [])
    assert [turn["text"] for turn in pack["references"]] == ["What is next?"], "the user's turn is shown all the same"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["What is next?"], [("What is next?", 1.0, True)]),
        ([], [("What is next?", 1.0, False)]),
        (["And now?"], [("What is next?", 1.0, False), ("And now?", 1.0, True)]),
    ],
    ids=["kept", "deleted", "changed"],
)
def test_user_turns_are_marked_as_given_to_the_run_or_not(
    run: Run, given: list[str], expected: list[tuple[str, float, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Clip, "video_fps", 10.0)
    assert run.clip.sample is not None
    asked = Turn(time_s=1.0, role="user", text="What is next?")
    sample = replace(run.clip.sample, turns=(asked, *(turn for turn in run.clip.sample.turns if turn.role != "user")))
    task = replace(run.task, user_turns=tuple(UserTurn(time_s=1.0, text=text) for text in given))
    pack = json.loads(pack_run(replace(run, clip=replace(run.clip, sample=sample), task=task)))
    users = [turn for turn in pack["references"] if turn["role"] == "user"]
    assert [(turn["text"], turn["time"], turn["is_given"]) for turn in users] == expected


def test_a_runs_digest_tells_its_settings_apart_and_nothing_else(run: Run) -> None:
    as_fast = replace(run.config, lookahead=64, draft_tokens=0)
    assert run.digest == replace(run, outputs=(), is_finished=True, config=as_fast).digest
    others = [
        replace(run, config=StreamConfig(speak_threshold=0.21, update_threshold=0.63)),
        replace(run, task=replace(run.task, goal="build it")),
        replace(run, model_digest="0"),
    ]
    assert len({run.digest, *(other.digest for other in others)}) == 4


def test_a_name_turns_nothing_beside_it() -> None:
    name = "rtl\u202egnp\u2066 مرحبا"
    assert status_line(f"{name}: done").value == "rtl\\u202egnp\\u2066 مرحبا: done"
    assert "rtl\\u202egnp" in render_note(name)


def make_client(*, auth: Any = None, answer: Path | None = None) -> TestClient:
    app = Starlette(routes=speech_routes(lambda *asked: answer if asked == ("first", "kettle", 2) else None))
    for name, value in {
        "auth": auth,
        "tokens": {"secret": "ann"},
        "cookie_id": "x",
    }.items():  # as Gradio's app has them
        setattr(app, name, value)
    return TestClient(app)


def test_a_text_is_served_as_wav() -> None:
    response = make_client().get(f"/{SPEECH_URL}", params={"text": "Good. Now mount the block."})
    assert response.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(response.content)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, SAMPLE_RATE)
        assert 1 < file.getnframes() / SAMPLE_RATE < 3


def test_a_recorded_answer_is_served_as_wav_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "2.wav").write_bytes(to_wav(bytes(20)))
    client, asked = make_client(answer=tmp_path / "2.wav"), {"run": "first", "video": "kettle", "number": "2"}
    response = client.get(f"/{ANSWER_URL}", params=asked)
    assert (response.headers["content-type"], response.content) == ("audio/wav", to_wav(bytes(20)))
    for wrong in (
        {"number": "3"},
        {"number": "-1"},
        {"number": "\u00b2"},
        {"number": "9" * 9},
        {"run": ""},
        {"video": "x"},
    ):
        assert client.get(f"/{ANSWER_URL}", params=asked | wrong).status_code == 404
    assert make_client(auth=[("ann", "secret")]).get(f"/{ANSWER_URL}", params=asked).status_code == 401


def test_a_client_without_login_is_refused() -> None:
    client = make_client(auth=[("ann", "secret")])
    assert client.get(f"/{SPEECH_URL}", params={"text": "Hello"}).status_code == 401
    client.cookies.set("access-token-x", "secret")
    assert client.get(f"/{SPEECH_URL}", params={"text": "Hello"}).status_code == 200


def test_a_step_names_those_that_the_recipe_puts_before_it(run: Run) -> None:
    assert run.clip.sample is not None
    first, second, *_ = (step.id for step in run.task.steps)
    sample = replace(run.clip.sample, after={second: (first,)})
    steps = json.loads(pack_run(replace(run, clip=replace(run.clip, sample=sample))))["steps"]
    assert [step.get("after") for step in steps[:2]] == [None, [first]]
