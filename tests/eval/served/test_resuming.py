"""A recording that fails or is killed keeps its answers, and continues after them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
from tests.support.paths import ASSETS
from tests.support.servers.served import ModelServer, serve_chat, serve_video_chat

VIDEO = ASSETS / "demo" / "boat.mp4"
ANSWERS = ["SILENT", "Set down the hull.", "SILENT", "Hang the sail \N{SAILBOAT}.", "Done."]
NUM_GOOD = 4
Serve = Callable[[ModelServer], AbstractContextManager[ModelServer]]


@dataclass
class BreakingServer(ModelServer):
    """A server that loses the connection at one answer."""

    break_at: int | None = None
    num_answers: int = field(default=0, init=False)

    def next_answer(self) -> str:
        self.num_answers += 1
        if self.num_answers - 1 == self.break_at:
            raise ConnectionAbortedError
        return super().next_answer()


def command(server: ModelServer, out: Path, *more: str) -> list[str]:
    words = ["run", str(VIDEO), "--endpoint", server.url, "--model", "m", "--out", str(out), "--fps", "0.5"]
    return [*words, "--user", "3: What now?", "--retries", "0", "--pictures", "2", *more]


def outputs(folder: Path) -> list[FrameOutput]:
    run = RunFolder(folder)
    return [replace(one, latency_ms=0.0) for one in run.outputs(read_split(run.split_path()).samples[0])]


def answers_of(folder: Path) -> int:
    (path,) = folder.glob("*.answers")
    return path.read_bytes().count(b"\n") - 1


def texts(server: ModelServer) -> list[str]:
    return [one["text"] for one in server.requests if one.get("type") == "video.query"] or [
        one["messages"][0]["content"][-1]["text"] for one in server.requests
    ]


@pytest.fixture(params=[serve_chat, serve_video_chat])
def serve(request: pytest.FixtureRequest) -> Serve:
    serve: Serve = request.param
    return serve


def test_a_lost_connection_keeps_the_answers_and_resume_gives_the_undisturbed_run(
    tmp_path: Path, serve: Serve, capfd: pytest.CaptureFixture[str]
) -> None:
    with serve(ModelServer(answers=[*ANSWERS])) as server:
        assert main(command(server, tmp_path / "whole")) == 0
        wanted = texts(server)
    out = tmp_path / "run"
    with serve(BreakingServer(answers=[*ANSWERS], break_at=NUM_GOOD)) as server:
        capfd.readouterr()
        assert main(command(server, out)) == 2
        assert f"{out} keeps 4 answers; the same command with --resume" in capfd.readouterr().err
        asked = texts(server)
        url = server.url
        assert main(command(server, out)) == 2
        assert "keeps 4 answers of a recording; continue it with --resume" in capfd.readouterr().err
        assert main(command(server, out, "--resume", "--goal", "other")) == 2
        assert "another task" in capfd.readouterr().err
        assert answers_of(out) == NUM_GOOD
        (log,) = out.glob("*.answers")
        log.write_bytes(log.read_bytes() + b'{"frame_index": 4, "text": "\xf0\x9f')  # killed while it wrote
        server.requests.clear()
        assert main(command(server, out, "--resume", "--timeout-s", "50")) == 0, capfd.readouterr().err
        assert server.url == url
        assert texts(server) == wanted[NUM_GOOD:]
    assert asked[:NUM_GOOD] == wanted[:NUM_GOOD]
    assert outputs(out) == outputs(tmp_path / "whole")
    assert not list(out.glob("*.answers"))
    assert main(command(server, out, "--resume")) == 0
    assert "already" in capfd.readouterr().out
    assert main(command(server, out)) == 2
    assert f"{out} holds a recording of boat already; name a new --out" in capfd.readouterr().err
    assert outputs(out) == outputs(tmp_path / "whole")
