"""Requests from foreign web pages, foreign host names and unbounded clients are refused."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from stepscope.app.cli.serve import trust_proxies
from stepscope.app.review_store.store import open_store
from stepscope.app.server.gradio_patches import MAX_EVENTS
from stepscope.app.server.guard import MAX_FAILURES, RequestGuard
from stepscope.app.server.hosts import PROXY_HEADERS, HostRules, find_refusal
from stepscope.app.server.identity import claim_session, current_user, share_upload
from stepscope.app.server.limits import MAX_BODY_BYTES, MAX_JSON_SIGNS
from tests.support.data.batches import copies, write_split
from tests.support.pages.browser import serve
from tests.support.pages.page_http import TASK, PageClient

JSON = "application/json"
LOCAL = HostRules.from_options("127.0.0.1", [])
SHARED = HostRules.from_options("0.0.0.0", [])
PROXIED = HostRules.from_options("0.0.0.0", ["lab.example", ".corp.example"])


def status(rules: HostRules, host: str, *, method: str = "POST", path: str = "/run", **headers: str) -> int | None:
    named = {"host": host, "content-length": "2"} | {name.replace("_", "-"): value for name, value in headers.items()}
    found = find_refusal(rules, method=method, path=path, headers=Headers(named))
    return found[0] if found else None


@pytest.mark.parametrize(
    ("rules", "host", "expected"),
    [
        (LOCAL, "127.0.0.1:7860", None),
        (LOCAL, "localhost:7860", None),
        (LOCAL, "[::1]:7860", None),
        (LOCAL, "192.168.1.7:7860", 421),
        (SHARED, "192.168.1.7:7860", None),
        (LOCAL, "evil.example:7860", 421),
        (LOCAL, "localhost.evil.example", 421),
        (LOCAL, "[", 421),
        (PROXIED, "lab.example", None),
        (PROXIED, "a.corp.example", None),
        (PROXIED, "corp.example.evil", 421),
    ],
)
def test_the_page_answers_under_its_own_names_alone(rules: HostRules, host: str, expected: int | None) -> None:
    assert status(rules, host, method="GET") == expected


@pytest.mark.parametrize(
    ("rules", "headers", "expected"),
    [
        (LOCAL, {}, None),
        (LOCAL, {"origin": "http://127.0.0.1:7860"}, None),
        (LOCAL, {"origin": "http://127.0.0.1:9999"}, 403),
        (LOCAL, {"origin": "http://evil.example"}, 403),
        (LOCAL, {"origin": "null"}, 403),
        (LOCAL, {"sec_fetch_site": "same-site"}, 403),
        (SHARED, {"origin": "https://lab.example", "sec_fetch_site": "same-origin"}, None),
        (SHARED, {"origin": "https://lab.example"}, 403),
        (LOCAL, {"origin": "https://lab.example", "sec_fetch_site": "same-origin"}, 403),
        (PROXIED, {"origin": "https://lab.example"}, None),
        (LOCAL, {"content_type": "text/plain"}, 415),
    ],
)
def test_only_the_page_itself_and_programs_change_anything(
    rules: HostRules, headers: dict[str, str], expected: int | None
) -> None:
    assert status(rules, "127.0.0.1:7860", **{"content_type": JSON, **headers}) == expected
    assert status(rules, "127.0.0.1:7860", method="GET", **headers) is None
    logout = {"method": "GET", "path": "/logout", "content_type": JSON}  # a cross-site link would end all sessions
    assert status(rules, "127.0.0.1:7860", **{**logout, **headers}) == expected


@pytest.mark.parametrize("header", PROXY_HEADERS)
def test_a_page_for_this_machine_refuses_what_a_proxy_sends(header: str) -> None:
    for method in ("GET", "POST"):
        headers = {header: "203.0.113.7", "content_type": JSON}
        assert status(LOCAL, "127.0.0.1:7860", method=method, **headers) == 403
        assert status(PROXIED, "127.0.0.1:7860", method=method, **headers) is None


@pytest.mark.parametrize(
    ("rules", "is_local"),
    [
        (LOCAL, True),
        (SHARED, False),
        (HostRules.from_options("127.0.0.1", [], is_proxied=True), False),
    ],
)
def test_a_page_behind_a_proxy_is_not_for_this_machine_only(rules: HostRules, is_local: bool) -> None:
    assert rules.is_local == is_local


def test_on_a_space_its_own_address_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert status(HostRules.from_options("0.0.0.0", []), "lab-stepscope.hf.space", method="GET") == 421
    monkeypatch.setenv("SPACE_ID", "lab/stepscope")
    assert status(HostRules.from_options("0.0.0.0", []), "lab-stepscope.hf.space", method="GET") is None


def test_the_page_fetches_nothing_from_other_hosts() -> None:
    for path in ("/gradio_api/file=http://example.org/a", "/gradio_api/proxy=https://example.org/a"):
        assert status(LOCAL, "127.0.0.1", method="GET", path=path) == 403


@pytest.mark.parametrize(
    "called",
    ["run/predict", "call/v2/fn/x", "call/runs", "deep_link"],
)
def test_what_no_window_asks_of_gradio_is_not_answered(called: str) -> None:
    for method in ("GET", "POST"):
        assert status(LOCAL, "127.0.0.1", method=method, path=f"/gradio_api/{called}", content_type=JSON) == 404
    page = ("queue/join", "queue/data", "heartbeat/x", "file=/tmp/a.mp4", "component_server", "cancel")
    for used in (*page, "call/run", "call/v2/open", "call/export/0a"):
        assert status(LOCAL, "127.0.0.1", path=f"/gradio_api/{used}", content_type=JSON) is None


def post(app: RequestGuard, path: str, content: bytes, kind: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post(path, content=content, headers={"content-type": kind})

    return asyncio.run(ask())


def test_without_a_login_no_body_is_read_and_a_request_has_its_user() -> None:
    def app(path: str, cookie: str) -> tuple[int, str]:
        page = SimpleNamespace(auth={"ann": "tower"}, cookie_id="x", tokens={"token": "ann"})
        sent: list[Message] = []

        async def receive() -> Message:
            assert cookie == "token" or path == "/login", "the body is read"
            return {"type": "http.request", "body": b"right"}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = {"host": "127.0.0.1", "content-type": JSON if path == "/run" else "multipart/form-data"}
        headers["cookie"] = f"access-token-x={cookie}"
        scope = {"type": "http", "method": "POST", "path": path, "app": page, "client": ("127.0.0.1", 5000)}
        scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
        asyncio.run(guarded()(scope, receive, send))
        return sent[0]["status"], sent[1]["body"].decode().partition(" ")[2]

    assert [app("/run", "other")[0], app("/run", "token"), app("/login", "")] == [401, (200, "ann"), (200, "")]


def test_the_events_of_a_session_and_an_upload_are_read_by_their_users_alone() -> None:
    assert claim_session("of-ann", "ann")
    assert claim_session("of-ann", "ann")
    assert not claim_session("of-ann", "bob")
    page = SimpleNamespace(auth={"ann": "tower"}, cookie_id="x", tokens={"a": "ann", "b": "bob"})

    def read(session: str, cookie: str, path: str = "/gradio_api/queue/data") -> int:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"host", b"127.0.0.1"), (b"cookie", f"access-token-x={cookie}".encode())]
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "app": page}
        scope |= {"query_string": f"session_hash={session}".encode(), "client": ("127.0.0.1", 5000)}
        asyncio.run(guarded()(scope, receive, send))
        status: int = sent[0]["status"]
        return status

    found = [read("of-ann", cookie) for cookie in ("a", "b", "none")]
    assert found == [200, 403, 403]
    assert read("of-nobody", "b") == 200
    share_upload("ad0c", "ann")
    upload = "/gradio_api/file=/tmp/gradio/ad0c/boat.mp4"
    assert [read("", cookie, upload) for cookie in ("a", "b", "none")] == [200, 403, 403]
    share_upload("ad0c", "bob")  # who has opened a link to it
    assert read("", "b", upload) == 200


def guarded(rules: HostRules = LOCAL) -> RequestGuard:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body, is_more = b"", True
        while is_more:
            message = await receive()
            body, is_more = body + message.get("body", b""), message.get("more_body", False)
        await asyncio.sleep(0)  # others come meanwhile
        is_wrong = scope["path"] == "/login" and body != b"right"
        status, user = 400 if is_wrong else 200, current_user.get()
        await PlainTextResponse(f"{len(body)} {user}", status)(scope, receive, send)

    return RequestGuard(app, rules=rules)


def test_passwords_cannot_be_tried_without_end() -> None:
    app, kind = guarded(), "application/x-www-form-urlencoded"
    tried = [post(app, "/login", b"wrong", kind).status_code for _ in range(MAX_FAILURES)]
    assert tried == [400] * MAX_FAILURES
    refused = post(app, "/login", b"right", kind)
    assert refused.status_code == 429
    assert "Too many wrong passwords; try again in" in refused.json()["detail"]
    other = guarded()
    for body in [b"wrong", b"right"] * MAX_FAILURES:
        assert post(other, "/login", body, kind).status_code in (200, 400)


@pytest.mark.parametrize("trusted", [("127.0.0.9/8",), ("10.0.0.1",)])
def test_only_a_trusted_proxy_names_the_client_whose_passwords_are_counted(
    trusted: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # restored at the end
    trust_proxies(trusted)
    config = uvicorn.Config(guarded(SHARED))  # as Gradio makes it
    config.load()

    async def try_all() -> list[int]:
        transport = httpx.ASGITransport(app=config.loaded_app, client=("127.0.0.1", 5000))
        kind = {"content-type": "application/x-www-form-urlencoded"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=kind) as client:
            sent = [{"x-forwarded-for": f"203.0.113.{number}"} for number in range(MAX_FAILURES + 1)]
            return [(await client.post("/login", content=b"wrong", headers=more)).status_code for more in sent]

    is_trusted = trusted == ("127.0.0.9/8",)
    assert asyncio.run(try_all()) == [*[400] * MAX_FAILURES, 400 if is_trusted else 429]


async def log_in_at_once(app: RequestGuard, password: bytes, number: int) -> list[int]:
    transport, kind = httpx.ASGITransport(app=app), {"content-type": "application/x-www-form-urlencoded"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=kind) as client:
        replies = await asyncio.gather(*(client.post("/login", content=password) for _ in range(number)))
    return [reply.status_code for reply in replies]


def test_passwords_that_are_tried_at_once_are_all_counted() -> None:
    found = Counter(asyncio.run(log_in_at_once(guarded(), b"wrong", 5 * MAX_FAILURES)))
    assert found == {400: MAX_FAILURES, 429: 4 * MAX_FAILURES}


def test_a_body_that_is_no_upload_has_an_end() -> None:
    assert post(guarded(), "/run", b"x" * 100, JSON).text == "100 127.0.0.1"
    for body in (b"x" * (MAX_BODY_BYTES + 1), b"[],{}" * (MAX_JSON_SIGNS // 3 + 1)):
        assert post(guarded(), "/run", body, JSON).status_code == 413


def test_a_session_with_a_long_name_is_refused(client: PageClient) -> None:
    event = client.find_event("player", "open_focus", into="video")
    asked = {"fn_index": event["id"], "data": [None], "session_hash": "x" * 1000}
    reply = client.http.post("/gradio_api/queue/join", json=asked)
    assert (reply.status_code, reply.json()["detail"][:21]) == (400, "The name of a session")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def client(demo_manifest: Path, tiny_folder: Path, runs: Path) -> Iterator[PageClient]:
    """Serve a video that takes 12 s to run (see ``tests.support.servers.app_page``)."""
    (video,) = copies(demo_manifest, runs, 1)
    (runs / "v0.mp4").rename(runs / "slow.mp4")
    slow = {**video, "video_id": "slow", "video_path": "slow.mp4", "fps": 20.0, "num_frames": 120}
    data = write_split(runs, slow).rename(runs / "test.json")
    more = ["--max-upload-mb", "1"]
    with (
        serve(data=data, checkpoint=tiny_folder, runs=runs, more=more) as address,
        PageClient(address=address) as client,
    ):
        yield client


def verdict(client: PageClient, action_id: str) -> dict[str, Any]:
    components = client.config()["components"]
    player = next(found["id"] for found in components if found["props"].get("elem_id") == "player")
    event = {"kind": "generated", "role": "assistant", "time_s": 1.0, "text": "Go."}
    action = {"action_id": action_id, "kind": "verdict", "verdict": "correct", "event": event}
    asked = {"video_id": "truck-1", "reviewer": "eve", "is_blind": False, "has_layer": None, "actions": [action]}
    return {"data": asked, "component_id": player, "fn_name": "ask", "session_hash": "window"}


def test_a_foreign_page_writes_no_review(client: PageClient, runs: Path) -> None:
    own = client.address
    for number, (headers, expected) in enumerate(
        [
            ({"content-type": JSON, "origin": own}, 200),
            ({"content-type": JSON}, 200),
            ({"content-type": "text/plain", "origin": "http://evil.example"}, 403),
            ({"content-type": "text/plain"}, 415),
            ({"content-type": JSON, "host": "evil.example", "origin": "http://evil.example"}, 421),
        ]
    ):
        body = json.dumps(verdict(client, str(number)))
        reply = client.http.post("/gradio_api/component_server", content=body, headers=headers)
        assert reply.status_code == expected
    with open_store(runs / "reviews.sqlite") as store:
        assert [action.action_id for action in store.read()] == ["0", "1"]


def test_an_upload_that_is_too_large_is_refused(client: PageClient) -> None:
    for size, expected in ((1000, 200), (3 * 2**20, 413)):
        reply = client.http.post("/gradio_api/upload", files={"files": ("a.mp4", b"x" * size)})
        assert reply.status_code == expected


def test_a_queue_that_is_full_refuses_with_a_sentence(client: PageClient) -> None:
    begun = client.find_event("run", "click")
    client.choose_video("slow")
    client.run(begun["id"], client.inputs(begun, **TASK))
    streams = client.find_following(begun)
    inputs = client.inputs(streams, **TASK)
    replies = [client.join(streams["id"], inputs) for _ in range(MAX_EVENTS + 20)]
    full = [reply for reply in replies if reply.status_code != 200]
    assert len(full) >= 10
    assert {(reply.status_code, reply.json()["detail"]) for reply in full} == {
        (503, f"{MAX_EVENTS} actions of yours, or 32 MiB, wait or run; try again later.")
    }
