"""Programs call the named endpoints with ``gradio_client``; arguments are untrusted, and errors are sentences."""

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from stepscope.app.security.hosts import ENDPOINTS
from tests.conftest import Uploads
from tests.support.data.batches import make_worker_config, run_to_end, write_scores, write_split
from tests.support.data.records import make_output
from tests.support.pages.browser import serve
from tests.support.paths import ROOT
from tests.support.servers.programs import STARTED

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.slow,
]
API = "/gradio_api"
SILENT = json.loads(make_output(0).to_json())


@pytest.fixture(scope="module")
def folder(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two videos and a saved run of both; the page runs ``slow`` in two minutes at least."""
    folder = tmp_path_factory.mktemp("page")
    samples = json.loads((ROOT / "assets/demo/test.json").read_text(encoding="utf-8"))["videos"]
    boat = next(sample for sample in samples if sample["video_id"] == "boat")
    for name in ("boat", "slower"):
        shutil.copy(ROOT / "assets/demo/boat.mp4", folder / f"{name}.mp4")
    slow = {**boat, "video_id": "slow", "video_path": "slower.mp4", "fps": 10.0, "num_frames": 430}
    split = write_split(folder, boat, slow).rename(folder / "test.json")
    run_to_end(split, make_worker_config(tiny_folder), folder / "runs" / "demo")
    write_scores(split, folder / "runs" / "demo")
    return folder


@pytest.fixture(scope="module")
def address(folder: Path, tiny_folder: Path) -> Iterator[str]:
    more = ["--max-minutes", "2"]
    data, runs = folder / "test.json", folder / "runs"
    with serve(data=data, checkpoint=tiny_folder, runs=runs, more=more) as address:
        yield address


@pytest.fixture(scope="module")
def client(address: str, tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(address, verbose=False, download_files=tmp_path_factory.mktemp("downloads"))


@pytest.fixture(scope="module")
def boat(client: Client) -> Any:
    """Return the result of a run of the bundled video."""
    return client.predict(video="boat", api_name="/run")


def test_only_the_named_endpoints_are_public_and_they_are_described(client: Client) -> None:
    found: Any = client.view_api(return_format="dict", print_info=False)
    assert list(found["named_endpoints"]) == [f"/{name}" for name in ENDPOINTS]
    assert found["unnamed_endpoints"] == {}
    text = found["named_endpoints"]["/run"]["description"]
    assert "speak_threshold: The assistant speaks at a greater probability" in text


def test_a_bundled_video_runs_with_its_own_task_and_scores(boat: Any) -> None:
    assert (boat["video"], boat["is_finished"], boat["warnings"]) == ("boat", True, [])
    assert [output["frame_index"] for output in boat["outputs"]] == list(range(86))
    assert list(boat["outputs"][0]["dst_state"]) == ["S1", "S2", "S3", "S4"]
    assert re.fullmatch(r"\?video=boat&run=[0-9a-f]{12}&speak=0.5&update=0.5&context=refresh", boat["link"])
    assert boat["scores"]["num_failures"] > 0


def test_thresholds_are_used(client: Client) -> None:
    done: Any = client.predict(video="boat", speak_threshold=1, update_threshold=1.0, api_name="/run")
    assert [output["response"] for output in done["outputs"]] == [None] * 86


def test_a_video_file_runs_with_the_given_task(client: Client, uploads: Uploads) -> None:
    done: Any = client.predict(
        video=handle_file(uploads.good), goal="build", steps="S1: attach the wheel", api_name="/run"
    )
    assert len(done["outputs"]) == 80
    assert list(done["outputs"][0]["dst_state"]) == ["S1"]
    assert done["scores"] is None
    assert done["link"].startswith("?upload=Lok")


def test_outputs_are_scored_against_a_bundled_and_an_uploaded_reference(
    client: Client, boat: Any, folder: Path
) -> None:
    bundled: Any = client.predict(outputs=boat["outputs"], video="boat", api_name="/score")
    assert bundled["scores"] == boat["scores"]
    assert len(bundled["failures"]) == boat["scores"]["num_failures"]
    assert {"kind", "time_s", "text", "reference", "steps"} == set(bundled["failures"][0])
    reference = handle_file(folder / "test.json")
    assert client.predict(outputs=boat["outputs"], video="boat", reference=reference, api_name="/score") == bundled


def test_a_saved_run_is_scored_and_opened(client: Client, folder: Path) -> None:
    scored: Any = client.predict(run="demo", api_name="/score")
    metrics = json.loads((folder / "runs" / "demo" / "metrics.json").read_text(encoding="utf-8"))
    assert (scored["num_videos"], scored["scores"]) == (2, metrics["scores"])
    opened: Any = client.predict(run="demo", video="boat", time_s=12.5, api_name="/open")
    assert opened["link"] == "?video=boat&saved=demo&t=12.5"
    assert (opened["goal"], opened["num_frames"]) == ("build the boat", 86)
    assert str(folder) not in json.dumps([scored, opened])


def test_an_export_holds_the_asked_video_alone(client: Client) -> None:
    path: Any = client.predict(run="demo", video="boat", file_format="eaf", api_name="/export")
    assert zipfile.ZipFile(path).namelist() == ["test-eaf/", "test-eaf/boat.eaf"]
    both: Any = client.predict(run="demo", api_name="/export")
    assert "slow" in zipfile.ZipFile(both).read("test-json/review.json").decode()


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("run", {"video": "nope"}, "there is no bundled video 'nope'"),
        ("run", {"video": "../test.json"}, "there is no bundled video"),
        ("run", {"video": "boat", "steps": "S1: a\nS1: b"}, "step ids must differ"),
        ("run", {"video": "boat", "speak_threshold": 2}, "the speak threshold must be a number from 0 to 1"),
        ("run", {"video": "boat", "speak_threshold": "high"}, "the argument 'speak_threshold' is not valid"),
        ("run", {"video": {"path": "/etc/passwd"}}, "the file was not uploaded to this page"),
        ("score", {}, "give either run, or outputs"),
        ("score", {"run": "../demo"}, "there is no run '../demo'"),
        ("score", {"outputs": [], "video": "boat"}, "there are no outputs to score"),
        ("score", {"outputs": [{"frame_index": 0}], "video": "boat"}, "outputs[0] is not the output of a frame"),
        ("score", {"outputs": [{**SILENT, "updates": ["x"] * 20_001}], "video": "boat"}, "20001 messages and updates"),
        ("score", {"outputs": "none", "video": "boat"}, "the argument 'outputs' is not valid"),
        ("open", {"run": "demo", "video": "../boat"}, "../boat has no video in test.json"),
        ("open", {"run": "demo", "video": "boat", "time_s": -1}, "time_s must be between 0 and 43"),
        ("export", {"run": "demo", "file_format": "exe"}, "there is no format 'exe'"),
        ("export", {"run": "demo", "video": "nope"}, "there is no video 'nope' in the run demo"),
    ],
)
def test_a_wrong_argument_is_answered_with_a_sentence(
    client: Client, name: str, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(AppError) as raised:
        client.predict(**arguments, api_name=f"/{name}")
    assert words in str(raised.value)
    assert "Traceback" not in STARTED[-1].output()


def test_an_upload_has_the_limits_of_the_page(client: Client, uploads: Uploads) -> None:
    for file, words in ((uploads.long, "longer than the limit of 2:00"), (uploads.noise, "not a video container")):
        with pytest.raises(AppError, match=words):
            client.predict(video=handle_file(file), api_name="/run")


def test_a_frame_of_another_step_is_refused(client: Client, boat: Any) -> None:
    wrong = [{**boat["outputs"][0], "dst_state": {"S9": "completed"}}]
    with pytest.raises(AppError, match="dst_state must have the steps of the split"):
        client.predict(outputs=wrong, video="boat", api_name="/score")


def test_a_cancelled_run_frees_the_model(client: Client) -> None:
    job = client.submit(video="slow", api_name="/run")
    first: Any = next(iter(job))
    assert (first["is_finished"], first["of_frames"]) == (False, 430)
    assert job.cancel()
    done: Any = client.submit(video="boat", api_name="/run").result(timeout=100)  # the rest of the run needs 120 s
    assert done["is_finished"]


def call(address: str, route: str, content: object, **headers: str) -> httpx.Response:
    kind = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return httpx.post(f"{address}{API}/{route}", content=json.dumps(content), headers=kind, timeout=60)


def events(address: str, name: str, reply: httpx.Response) -> str:
    return httpx.get(f"{address}{API}/call/{name}/{reply.json()['event_id']}", timeout=60).text


@pytest.mark.parametrize(
    ("route", "content"),
    [("call/v2/open", {"run": "demo", "video": "boat"}), ("call/open", {"data": ["demo", "boat", 0]})],
)
def test_a_program_without_a_client_calls_through_the_queue(address: str, route: str, content: object) -> None:
    assert '"link": "?video=boat&saved=demo&t=0' in events(address, "open", call(address, route, content))


@pytest.mark.parametrize(
    "path", ["/etc/passwd", str(ROOT / "assets/demo/boat.mp4"), "http://example.org/a.mp4", "http://127.0.0.1/a"]
)
def test_no_other_file_is_read_and_no_host_is_asked(address: str, path: str) -> None:
    file = {"path": path, "meta": {"_type": "gradio.FileData"}}
    found = events(address, "run", call(address, "call/v2/run", {"video": file}))
    assert found.startswith("event: error")
    if path.startswith("http"):
        assert "This page fetches no files from other hosts" in found


def test_a_foreign_page_calls_nothing(address: str) -> None:
    content = {"run": "demo", "video": "boat"}
    refused = call(address, "call/v2/open", content, origin="http://evil.example")
    assert (refused.status_code, refused.json()["detail"][:27]) == (403, "A request from another page")
    assert call(address, "call/v2/open", content, content_type="text/plain").status_code == 415


def test_the_examples_of_the_documents_run(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    examples = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "gradio_client" in block]
    assert len(examples) == 2
    for example in examples:
        exec(example.replace("http://127.0.0.1:7860", address), {})
    printed = capsys.readouterr().out
    assert "?video=boat&run=" in printed
    assert "?video=boat&saved=demo&t=12.5" in printed
