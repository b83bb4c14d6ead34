"""Increments of a streaming run: constant cost per update, and complete data."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from stepscope.app.core.run import Run
from stepscope.app.window.increments import ActiveStreams, StreamIncrements
from stepscope.app.window.payload import pack_run
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.long_run import make_long_run, with_signals

STEP = 20


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    video = tmp_path_factory.mktemp("long") / "long.mp4"
    write_h264(video, moving_square(4, shade=90), fps=2)
    return with_signals(make_long_run(video, num_frames=4000, num_turns=800), 2)


def begin(run: Run) -> Run:
    return replace(run, outputs=(), is_finished=False)


def stream(run: Run) -> Iterator[str]:
    increments = StreamIncrements(begin(run))
    for first in range(0, len(run.outputs), STEP):
        for output in run.outputs[first : first + STEP]:
            increments.add(output)
        yield increments.since(first)


def test_an_update_does_not_grow_with_the_run(run: Run) -> None:
    sizes = [len(update) for update in stream(run)]
    first, last = sizes[1:41], sizes[-40:]
    assert max(last) < 1.5 * max(first)
    assert sum(last) < 1.2 * sum(first)


def test_increments_together_hold_what_the_whole_pack_holds(run: Run) -> None:
    whole = json.loads(pack_run(replace(run, is_finished=False)))
    updates = [json.loads(update) for update in stream(run)]
    assert {name for name, value in updates[0]["head"].items() if value != whole[name]} <= {
        "times", "speak", "update", "cache", "latency", "refreshed", "forgotten", "decided", "expected",
        "turns", "bands", "named", "assistant_states",
    }  # fmt: skip
    assert [turn for update in updates for turn in update["turns"]] == whole["turns"]
    assert [frame for update in updates for frame in update["refreshed"]] == whole["refreshed"]
    for name in ("speak", "update"):
        assert [frame for update in updates for frame in update["decided"][name]] == whole["decided"][name]
        assert [frame for update in updates for frame in update["expected"][name]] == whole["expected"][name]
    assert [change for update in updates for change in update["assistant_states"]] == whole["assistant_states"]
    for number, signal in enumerate(whole["named"]):
        values = b"".join(base64.b64decode(update["named"][number]) for update in updates)
        assert base64.b64encode(values).decode() == signal["values"]
    bands = [list(band) for band in updates[0]["head"]["bands"]["model"]]
    for step, frame, state in (change for update in updates for change in update["changes"]):
        bands[step].append([frame, state])
    assert bands == whole["bands"]["model"]


def stream_and_ask(streams: ActiveStreams, run: Run) -> str:
    """Ask for the frames of a stream of its own; return its name."""
    increments = streams.begin(begin(run))
    for output in run.outputs[:50]:
        increments.add(output)
    assert len(base64.b64decode(json.loads(streams.since(increments.stream, 30) or "")["times"])) == 20 * 8
    assert json.loads(streams.since(increments.stream, 0) or "")["head"]["name"] == "long"
    assert json.loads(streams.since(increments.stream, 10**9) or "")["turns"] == []
    assert streams.since("another", 0) is None
    assert streams.since(["no", "name"], 0) is streams.since(increments.stream, "no number") is None
    return increments.stream


def test_frames_can_be_asked_for_as_long_as_the_run_streams(run: Run) -> None:
    streams = ActiveStreams()
    name = stream_and_ask(streams, run)  # the stream lives in a frame of its own: nothing of this one can hold it
    assert streams.since(name, 0) is None
