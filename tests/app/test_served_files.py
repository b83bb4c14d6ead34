"""A launched page serves only the files that it displays."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.core.display_copies import DisplayCopies, serving_folder
from stepscope.eval.reports.tables import write_columns
from tests.support.data.batches import copies
from tests.support.pages.browser import serve
from tests.support.pages.page_http import PageClient
from tests.support.streams.odd import add_sound
from tests.support.streams.videos import write_plain

SECRET = "the password is tower"


@pytest.fixture(scope="module")
def world(demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a split with arbitrary local files as videos, and a run folder with unrelated files."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "secret.txt").write_text(SECRET)
    (folder / "link.mp4").symlink_to(folder / "secret.txt")
    videos = copies(demo_manifest, folder, 2)
    (folder / "v1.mp4").rename(folder / "v1.html")
    videos[1]["video_path"] = "v1.html"
    for number, path in enumerate(("/", str(folder), "/etc/passwd", "secret.txt", "link.mp4", "/dev/zero")):
        videos.append({**videos[0], "video_id": f"no video {number}", "video_path": path})
    (folder / "test.json").write_text(json.dumps({"videos": videos}))
    run = folder / "runs" / "a"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "page.html").write_text("<script>alert(1)</script>")
    sqlite3.connect(folder / "runs" / "reviews.sqlite").close()
    return folder


@pytest.fixture(scope="module")
def client(world: Path, tiny_folder: Path) -> Iterator[PageClient]:
    with serve(data=world / "test.json", checkpoint=tiny_folder, runs=world / "runs") as address:
        (world / "runs" / "a" / "store.mp4").hardlink_to(world / "runs" / "reviews.sqlite")
        (world / "runs" / "a" / "videos.csv").hardlink_to(world / "runs" / "reviews.sqlite")
        (world / "runs" / "a" / "metrics.json").symlink_to(world / "secret.txt")
        write_columns(world / "runs" / "a" / "columns.csv")
        with PageClient(address=address) as client:
            yield client


NOT_SERVED = (
    "/etc/passwd",
    "{world}",
    "{world}/secret.txt",
    "{world}/link.mp4",
    "{world}/runs/reviews.sqlite",
    "{world}/runs/a/store.mp4",
    "{world}/runs/a/videos.csv",
    "{world}/runs/a/metrics.json",
    "{world}/runs/a/page.html",
    "{world}/runs/a/../a/page.html",
    "{world}/runs/%2e%2e/secret.txt",
    "pyproject.toml",
)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", NOT_SERVED)
def test_no_file_is_served_because_a_split_or_a_run_folder_names_it(
    client: PageClient, world: Path, path: str, method: str
) -> None:
    assert client.file(path.format(world=world), method=method).status_code == 403


def shown_video(client: PageClient, name: str) -> Any:
    """Choose a bundled video; return the value of the video component."""
    return client.choose_video(name)["output"]["data"][0]


def test_a_video_is_served_as_a_video_whatever_its_file_is_called(client: PageClient) -> None:
    for name in ("v0", "v1"):
        path = shown_video(client, name)["path"]
        whole = client.file(path)
        part = client.file(path, headers={"Range": "bytes=0-99"})
        assert (whole.status_code, whole.headers["content-type"]) == (200, "video/mp4")
        assert (part.status_code, len(part.content)) == (206, 100)
        assert part.content == whole.content[:100]


@pytest.mark.parametrize("number", range(6))
def test_what_is_no_video_is_not_shown(client: PageClient, number: int) -> None:
    output = client.choose_video(f"no video {number}")["output"]
    assert SECRET not in json.dumps(output)
    assert "error" in output or output["data"][0] in (None, {"__type__": "update"})


def test_tables_are_handed_out_and_neither_the_store_nor_what_a_link_leads_to(client: PageClient, world: Path) -> None:
    entered = client.find_event("player", "enter_batch")
    client.run(entered["id"], client.inputs(entered), event_data={"run": "a"})
    event = client.find_event("export", "click")

    def ask(table: str) -> Any:
        inputs = client.inputs(event, export_files=[table])
        return client.run(event["id"], inputs)["output"]["data"]

    for table in ("videos.csv", "metrics.json"):
        assert ask(table) == [None]
    data = ask("columns.csv")
    (path,) = (value["path"] for value in _files(data))
    assert Path(path).name == "a-columns.csv"
    found = client.file(path)
    assert found.content.startswith((world / "runs" / "a" / "columns.csv").read_bytes())
    assert found.headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize("query", ["run=a&video=v0&time=1", "run=../a&video=v0&time=1", "run=a&video=v0&time=nan", ""])
def test_no_picture_is_sent_of_a_video_that_no_run_has(client: PageClient, query: str) -> None:
    assert client.http.get(f"/picture?{query}").status_code == 404


def _files(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.get("path"):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _files(part)


def test_a_video_that_is_a_link_is_copied_and_a_changed_one_again(demo_manifest: Path, tmp_path: Path) -> None:
    source, link = tmp_path / "source.mp4", tmp_path / "link.mp4"
    shutil.copy(demo_manifest.parent / "truck-1.mp4", source)
    link.symlink_to(source)
    cache = DisplayCopies(tmp_path / "cache")
    first = cache.find_or_convert(link)
    assert first.read_bytes() == source.read_bytes()
    assert not first.is_symlink()
    assert cache.find_or_convert(link) == first
    shutil.copy(demo_manifest.parent / "truck-2.mp4", source)
    assert cache.find_or_convert(link).read_bytes() == source.read_bytes()


HOLD = """
import sys, time
from stepscope.app.core.display_copies import serving_folder
with serving_folder() as folder:
    print(folder, flush=True)
    time.sleep(120)
"""


def test_the_folders_of_killed_servers_are_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    servers = [subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    folders = [Path(server.stdout.readline().strip()) for server in servers if server.stdout is not None]
    (folders[0] / "copy.mp4").write_bytes(bytes(1000))
    servers[0].kill()
    servers[0].wait()
    for name, age_s in (("stepscope-export-old", 90_000), ("stepscope-export-new", 0), ("stepscope-mine", 90_000)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    with serving_folder() as own:
        left = {folder.name for folder in tmp_path.iterdir()}
    assert left == {folders[1].name, own.name, "stepscope-export-new", "stepscope-mine"}
    servers[1].kill()
    for server in servers:
        server.communicate()


def test_only_a_served_video_is_listened_to(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "copies", tmp_path / "elsewhere"
    for path in (folder, elsewhere):
        path.mkdir()
    silent = write_plain(elsewhere / "silent.mkv", width=96, height=64, num_pictures=8)
    copies = DisplayCopies(folder, served=tmp_path)
    found = copies.find_or_convert(add_sound(elsewhere / "loud.mkv", silent, length_s=4, loud_s=(1, 2)))
    heard = copies.measure_sound(str(found))
    assert heard is not None
    assert max(heard[1]) > 100
    shutil.copyfile(found, elsewhere / "loud.mp4")  # as an upload that was not checked
    (folder / "link.mp4").symlink_to(elsewhere / "loud.mp4")
    (folder / "text.mp4").write_text("no video")
    names: list[Any] = [elsewhere / "loud.mp4", folder / "link.mp4", folder / "../elsewhere/loud.mp4"]
    for name in [*names, folder / "text.mp4", folder / "gone.mp4", "\0.mp4", None, 3, []]:
        assert copies.measure_sound(str(name) if isinstance(name, Path) else name) is None
    assert copies.find_or_convert(elsewhere / "loud.mp4") == elsewhere / "loud.mp4"
    assert copies.measure_sound(str(elsewhere / "loud.mp4")) == heard
