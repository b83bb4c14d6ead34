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

from stepscope.app.server.hosts import ENDPOINTS
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.data.batches import copies, write_scores, write_split
from tests.support.data.records import make_output
from tests.support.data.saved_runs import save_run
from tests.support.pages.browser import serve
from tests.support.servers.programs import STARTED

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.slow,
]
API = "/gradio_api"
SILENT = json.loads(make_output(0).to_json())


@pytest.fixture(scope="module")
def folder(demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two videos and a saved run of both; the page runs ``slow`` in 90 s at least."""
    folder = tmp_path_factory.mktemp("page")
    (truck,) = copies(demo_manifest, folder, 1)
    shutil.copy(folder / "v0.mp4", folder / "slower.mp4")
    slow = {**truck, "video_id": "slow", "video_path": "slower.mp4", "fps": 50.0, "num_frames": 300}
    split = write_split(folder, truck, slow).rename(folder / "test.json")
    save_run(folder / "runs" / "demo", split)
    write_scores(split, folder / "runs" / "demo")
    return folder


@pytest.fixture(scope="module")
def address(folder: Path, tiny_folder: Path) -> Iterator[str]:
    more = ["--max-minutes", "0.2"]
    data, runs = folder / "test.json", folder / "runs"
    with serve(data=data, checkpoint=tiny_folder, runs=runs, more=more) as address:
        yield address


@pytest.fixture(scope="module")
def client(address: str, tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(address, verbose=False, download_files=tmp_path_factory.mktemp("downloads"))


@pytest.fixture(scope="module")
def truck(client: Client) -> Any:
    """Return the result of a run of the bundled video."""
    return client.predict(video="v0", api_name="/run")


def test_only_the_named_endpoints_are_public_and_they_are_described(client: Client) -> None:
    found: Any = client.view_api(return_format="dict", print_info=False)
    assert list(found["named_endpoints"]) == [f"/{name}" for name in ENDPOINTS]
    assert found["unnamed_endpoints"] == {}
    text = found["named_endpoints"]["/run"]["description"]
    assert "speak_threshold: The assistant speaks at a greater probability" in text


def test_a_bundled_video_runs_with_its_own_task_and_scores(truck: Any) -> None:
    assert (truck["video"], truck["is_finished"], truck["warnings"]) == ("v0", True, [])
    assert [output["frame_index"] for output in truck["outputs"]] == list(range(12))
    assert list(truck["outputs"][0]["dst_state"]) == ["S1", "S2", "S3"]
    assert re.fullmatch(r"\?video=v0&run=[0-9a-f]{12}&speak=0.5&update=0.5&context=refresh", truck["link"])
    assert truck["scores"]["num_failures"] > 0


def test_a_video_file_runs_with_the_given_task(client: Client, folder: Path) -> None:
    done: Any = client.predict(
        video=handle_file(folder / "v0.mp4"), goal="build", steps="S1: attach the wheel", api_name="/run"
    )
    assert len(done["outputs"]) == 12
    assert list(done["outputs"][0]["dst_state"]) == ["S1"]
    assert done["scores"] is None
    assert done["link"].startswith("?upload=v0")


def test_outputs_are_scored_against_a_bundled_and_an_uploaded_reference(
    client: Client, truck: Any, folder: Path
) -> None:
    bundled: Any = client.predict(outputs=truck["outputs"], video="v0", api_name="/score")
    assert bundled["scores"] == truck["scores"]
    assert len(bundled["failures"]) == truck["scores"]["num_failures"]
    assert {"kind", "time_s", "text", "reference", "steps"} == set(bundled["failures"][0])
    reference = handle_file(folder / "test.json")
    assert client.predict(outputs=truck["outputs"], video="v0", reference=reference, api_name="/score") == bundled


def test_a_saved_run_is_scored_and_opened(client: Client, folder: Path) -> None:
    scored: Any = client.predict(run="demo", api_name="/score")
    metrics = json.loads((folder / "runs" / "demo" / "metrics.json").read_text(encoding="utf-8"))
    assert (scored["num_videos"], scored["scores"]) == (2, metrics["scores"])
    opened: Any = client.predict(run="demo", video="v0", time_s=2.5, api_name="/open")
    assert opened["link"] == "?video=v0&saved=demo&t=2.5"
    assert (opened["goal"], opened["num_frames"]) == ("build the toy truck", 12)
    assert str(folder) not in json.dumps([scored, opened])


def test_an_export_holds_the_asked_video_alone(client: Client) -> None:
    path: Any = client.predict(run="demo", video="v0", file_format="eaf", api_name="/export")
    assert zipfile.ZipFile(path).namelist() == ["test-eaf/", "test-eaf/v0.eaf"]
    both: Any = client.predict(run="demo", api_name="/export")
    assert "slow" in zipfile.ZipFile(both).read("test-json/review.json").decode()


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("run", {"video": "nope"}, "there is no bundled video 'nope'"),
        ("run", {"video": "v0", "speak_threshold": "high"}, "the argument 'speak_threshold' is not valid"),
        ("run", {"video": {"path": "/etc/passwd"}}, "the file was not uploaded to this page"),
        ("score", {"run": "../demo"}, "there is no run '../demo'"),
        ("score", {"outputs": [{"frame_index": 0}], "video": "v0"}, "outputs[0] is not the output of a frame"),
        ("score", {"outputs": [{**SILENT, "updates": ["x"] * 20_001}], "video": "v0"}, "20001 messages and updates"),
        ("open", {"run": "demo", "video": "../v0"}, "there is no video ../v0 in test.json"),
        ("export", {"run": "demo", "file_format": "exe"}, "there is no format 'exe'"),
    ],
)
def test_a_wrong_argument_is_answered_with_a_sentence(
    client: Client, name: str, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(AppError) as raised:
        client.predict(**arguments, api_name=f"/{name}")
    assert words in str(raised.value)
    assert "Traceback" not in STARTED[-1].output()


def test_an_upload_has_the_limits_of_the_page(client: Client, tmp_path: Path) -> None:
    write_h264(tmp_path / "long.mp4", moving_square(200, shade=50), fps=10)
    with pytest.raises(AppError, match="longer than the limit of 0:12"):
        client.predict(video=handle_file(tmp_path / "long.mp4"), api_name="/run")


def test_a_cancelled_run_frees_the_model(client: Client) -> None:
    job = client.submit(video="slow", api_name="/run")
    first: Any = next(iter(job))
    assert (first["is_finished"], first["of_frames"]) == (False, 300)
    assert job.cancel()
    done: Any = client.submit(video="v0", api_name="/run").result(timeout=60)  # the rest of the run needs 90 s
    assert done["is_finished"]


def call(address: str, route: str, content: object, **headers: str) -> httpx.Response:
    kind = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return httpx.post(f"{address}{API}/{route}", content=json.dumps(content), headers=kind, timeout=60)


def events(address: str, name: str, reply: httpx.Response) -> str:
    return httpx.get(f"{address}{API}/call/{name}/{reply.json()['event_id']}", timeout=60).text


def test_a_program_without_a_client_calls_through_the_queue(address: str) -> None:
    reply = call(address, "call/v2/open", {"run": "demo", "video": "v0"})
    assert '"link": "?video=v0&saved=demo&t=0' in events(address, "open", reply)


@pytest.mark.parametrize("path", ["/etc/passwd", "http://127.0.0.1/a"])
def test_no_other_file_is_read_and_no_host_is_asked(address: str, path: str) -> None:
    file = {"path": path, "meta": {"_type": "gradio.FileData"}}
    found = events(address, "run", call(address, "call/v2/run", {"video": file}))
    assert found.startswith("event: error")
    if path.startswith("http"):
        assert "This page fetches no files from other hosts" in found


def test_a_foreign_page_calls_nothing(address: str) -> None:
    content = {"run": "demo", "video": "v0"}
    refused = call(address, "call/v2/open", content, origin="http://evil.example")
    assert (refused.status_code, refused.json()["detail"][:27]) == (403, "A request from another page")
    assert call(address, "call/v2/open", content, content_type="text/plain").status_code == 415
