"""Addresses of the Hub as arguments of commands, against a local stand-in of the Hub."""

import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlparse

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.app.core.videos import find_split_clip
from stepscope.engine.errors import CheckpointError, VideoError
from stepscope.engine.io.hub_cache import parse_address
from stepscope.engine.io.hub_files import fetch, fetch_missing
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.files.hub import _download_once, download
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.runs.folder import digest_sample
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from tests.support.paths import ROOT
from tests.support.streams.fakes import count_letters

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DEMO = ROOT / "assets" / "demo"
LETTERS = TextEncoder(name="letters", encode=count_letters)


class Hub(BaseHTTPRequestHandler):
    """Serves the files of a folder as the repositories ``datasets/own/demo`` and ``own/demo``."""

    folder: Path
    requests: list[str]

    def do_HEAD(self) -> None:
        self.answer(has_body=False)

    def do_GET(self) -> None:
        self.answer(has_body=True)

    def answer(self, *, has_body: bool) -> None:
        path = unquote(urlparse(self.path).path)
        self.requests.append(f"{self.command} {path}")
        _, resolve, name = path.partition("/resolve/")
        file = self.folder / name.partition("/")[2]
        if "/own/demo" in path and path.startswith("/api/"):
            names = [str(one.relative_to(self.folder)) for one in sorted(self.folder.rglob("*")) if one.is_file()]
            if "/tree/" in path:
                entries = [
                    {"type": "file", "path": one, "size": (self.folder / one).stat().st_size, "oid": digest(one)}
                    for one in names
                ]
                self.send(200, json.dumps(entries).encode(), has_body)
            else:
                found = {"id": "own/demo", "sha": COMMIT, "siblings": [{"rfilename": one} for one in names]}
                self.send(200, json.dumps(found).encode(), has_body)
        elif resolve and "/own/demo/" in path and file.is_file():
            self.send(200, file.read_bytes(), has_body, digest(str(file)))
        else:
            self.send(404, b"{}", has_body, error="EntryNotFound" if "/own/demo/" in path else "RepoNotFound")

    def send(self, code: int, body: bytes, has_body: bool, etag: str = "", error: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", COMMIT)
        for name, value in (("ETag", f'"{etag}"' if etag else ""), ("X-Error-Code", error)):
            if value:
                self.send_header(name, value)
        self.end_headers()
        if has_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def digest(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    """Serve a split, and a run folder that names it, until the test ends."""

    class Served(Hub):
        folder = tmp_path / "repository"
        requests: list[str] = []  # noqa: RUF012

    (Served.folder / "run").mkdir(parents=True)
    (Served.folder / "split.json").write_bytes((DEMO / "test.json").read_bytes())
    for path in (DEMO / "run").iterdir():
        (Served.folder / "run" / path.name).write_bytes(path.read_bytes())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Served)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    template = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    yield Served
    server.shutdown()
    server.server_close()


def test_a_file_is_downloaded_once_and_found_offline(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    path = fetch("hf://datasets/own/demo/split.json")
    assert path.read_bytes() == (DEMO / "test.json").read_bytes()
    wanted = ["GET /datasets/own/demo/resolve/main/split.json"]
    assert [one for one in hub.requests if one.startswith("GET /datasets")] == wanted
    assert fetch("hf://datasets/own/demo/split.json") == path
    assert [one for one in hub.requests if one.startswith("GET /datasets")] == wanted
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert fetch("hf://datasets/own/demo/split.json") == path
    with pytest.raises(
        ValueError, match=r"hf://datasets/own/demo/other\.json is not in the cache, and the Hub cannot be"
    ):
        fetch("hf://datasets/own/demo/other.json")


def test_a_folder_and_a_whole_repository_are_downloaded(hub: type[Hub]) -> None:
    folder = fetch("hf://datasets/own/demo/run")
    assert {path.name for path in folder.iterdir()} == {path.name for path in (DEMO / "run").iterdir()}
    assert not (folder.parent / "split.json").exists()
    assert (fetch("hf://own/demo") / "split.json").exists()
    assert hub.requests


def test_the_video_of_a_split_is_downloaded_when_it_is_opened(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    split = read_split(fetch("hf://datasets/own/demo/split.json"))
    first, second, *_ = split.samples
    assert first.video_path is not None
    (hub.folder / first.video_path.name).write_bytes((DEMO / first.video_path.name).read_bytes())
    digest = digest_sample(first)
    assert not [one for one in hub.requests if one.endswith(".mp4")], "reading a split downloads no video"
    clip = find_split_clip({"split": split}, "split", first.video_id)
    assert clip.path.read_bytes() == (DEMO / first.video_path.name).read_bytes()
    assert digest_sample(first) == digest, "a run stays that of its video"
    num_requests = len(hub.requests)
    assert find_split_clip({"split": split}, "split", first.video_id) == clip
    assert len(hub.requests) == num_requests
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert second.video_path is not None
    message = f"hf://datasets/own/demo/{second.video_path.name} is not in the cache, and the Hub cannot be reached"
    with pytest.raises(ValueError, match=message):
        find_split_clip({"split": split}, "split", second.video_id)
    with pytest.raises(VideoError, match=message):
        SampleFeatures(checkpoint=cast(Checkpoint, None)).find(second)


def test_a_split_has_no_file_of_any_size_downloaded(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    size = (hub.folder / "split.json").stat().st_size
    monkeypatch.setattr("stepscope.engine.io.hub_files.MAX_FILE_BYTES", size - 1)
    path = parse_address("hf://datasets/own/demo/split.json").path
    with pytest.raises(
        ValueError, match=r"^hf://datasets/own/demo/split\.json has 0\.0 GiB; a file that a split names"
    ):
        fetch_missing(path)
    assert not [one for one in hub.requests if one.startswith("GET /datasets")]
    monkeypatch.setattr("stepscope.engine.io.hub_files.MAX_FILE_BYTES", size)
    fetch_missing(path)
    assert path.stat().st_size == size


def test_a_path_that_looks_like_a_cache_downloads_nothing(hub: type[Hub], tmp_path: Path) -> None:
    fetch_missing(tmp_path / "mine" / "datasets--own--demo" / "snapshots" / COMMIT / "split.json")
    assert not (tmp_path / "mine").exists()
    assert not hub.requests


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hf://datasets/own", "is no address; write hf://datasets/OWNER/NAME/FILE"),
        ("hf://own/demo/../x", "is no address"),
        ("hf://datasets/own/demo/none.json", "is not in the repository; it has no such file or folder"),
    ],
)
def test_a_wrong_address_is_one_sentence(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        fetch(address)
    assert str(caught.value).startswith(address)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("hub")
def test_commands_take_runs_and_splits_of_the_hub(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stepscope.eval.cli.run_tables.import_encoder", lambda _: LETTERS)
    command = ["protocols", "hf://datasets/own/demo/run", "--split=hf://datasets/own/demo/split.json"]
    assert main([*command, "--protocol", "qevd-tf"]) == 0
    shown = capfd.readouterr().out
    assert "| qevd-tf: max_distance_s 1.5 | precision | recall | f1 |" in shown
    assert " 0.975 [" in shown
    assert main(["protocols", "hf://own/none/run"]) == 2
    assert capfd.readouterr().err.startswith("error: hf://own/none/run cannot be downloaded from the Hub: ")


@pytest.fixture
def silent_hub(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Accept connections, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr("stepscope.engine.io.hub_files._ANSWER_S", 0.05)
        yield


@pytest.mark.usefixtures("silent_hub")
@pytest.mark.parametrize("load", [download, load_encoder, lambda name: fetch(f"hf://{name}")])
def test_a_hub_that_never_answers_is_an_error_and_not_a_wait(load: Callable[[str], object]) -> None:
    with pytest.raises((CheckpointError, ValueError), match=r"cannot be (reached|loaded)"):
        load("own/absent")


def test_a_cached_checkpoint_is_found_while_the_hub_is_silent(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    (hub.folder / "config.json").write_text("{}")
    first = download("own/demo")
    _download_once.cache_clear()
    monkeypatch.setattr("stepscope.engine.model.files.hub.is_reachable", lambda: False)
    assert download("own/demo") == first
