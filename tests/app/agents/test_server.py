"""Clients of the official SDK call the tools over stdio and HTTP, with the identity of the page."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.middleware import Middleware

from stepscope.app.agents.server import make_routes
from stepscope.app.agents.workspace import open_workspace
from stepscope.app.core.places import RecentSessions
from stepscope.app.review_store.store import open_store, read_review
from stepscope.app.server.guard import RequestGuard
from stepscope.app.server.hosts import HostRules
from stepscope.app.server.identity import current_visitor
from tests.support.paths import ROOT

ROBOT: dict[str, Any] = {"run": "bundled", "video": "robot-hard"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_runs", "arguments": {}}}
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


async def ask(client: Client, name: str, **arguments: Any) -> Any:
    reply = await client.call_tool(name, arguments)
    first = reply.content[0]
    assert isinstance(first, types.TextContent)
    assert not reply.is_error, first.text
    return {**json.loads(first.text), "kinds": [part.type for part in reply.content]}


async def work(client: Client) -> str:
    """Find, read, explain and judge in the bundled run; return the reviewer's name."""
    tools = (await client.list_tools()).tools
    assert {one.name for one in tools if not (one.annotations and one.annotations.read_only_hint)} == {
        "add_verdict", "propose_correction", "undo", "publish", "export",
    }  # fmt: skip
    runs = (await ask(client, "list_runs"))["runs"]
    mistakes = await ask(client, "list_mistakes", run=runs[-1]["run"], query="failure:missed")
    video, ((time_s, *_), *_) = next(iter(mistakes["mistakes"].items()))
    assert (await ask(client, "explain", run="bundled", video=video, max_cost=0))["failures"][0]["is_root"]
    moment = await ask(client, "read_moment", run="bundled", video=video, time_s=time_s)
    assert moment["kinds"] == ["text", "image"]
    event = next(one["event"] for one in moment["events"] if "failure" in one)
    done = await ask(client, "add_verdict", run="bundled", video=video, event=event, verdict="unclear", reason="dark")
    again = await ask(client, "read_moment", run="bundled", video=video, time_s=time_s)
    assert f"{done['reviewer']}: unclear" in next(one["verdicts"] for one in again["events"] if "verdicts" in one)
    assert (await ask(client, "undo", write=done["write"]))["undone"] == 2
    return str(done["reviewer"])


def test_a_client_works_over_stdio(tmp_path: Path) -> None:
    async def run() -> str:
        words = ["-m", "stepscope", "mcp", "--runs", str(tmp_path)]
        server = StdioServerParameters(command=sys.executable, args=words, cwd=str(ROOT))
        async with Client(server, client_info=types.Implementation(name="tester", version="1")) as client:
            return await work(client)

    assert asyncio.run(run()) == "agent:tester"


@asynccontextmanager
async def serve(
    folder: Path, *, users: bool = False, is_of_one_person: bool = True
) -> AsyncIterator[Callable[..., httpx2.AsyncClient]]:
    """Serve the tools of a folder as the page does; yield a function that returns an HTTP client with a cookie."""
    with open_workspace(folder) as workspace:
        if users:
            object.__setattr__(workspace.batches, "recent", RecentSessions(current_visitor.get))
        routes, lifespan = make_routes(workspace, is_of_one_person=is_of_one_person)
        rules = HostRules.from_options("127.0.0.1", [])
        app = Starlette(routes=routes, middleware=[Middleware(RequestGuard, rules=rules)])
        known = {"auth": object() if users else None, "tokens": {"a": "ann", "b": "bob"}, "cookie_id": "x"}
        for name, value in known.items():  # as Gradio's app has them
            setattr(app, name, value)

        def connect(token: str = "") -> httpx2.AsyncClient:
            cookies = {"access-token-x": token} if token else {}
            transport = httpx2.ASGITransport(app)
            return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860", cookies=cookies)

        async with lifespan(app):
            yield connect


def make_client(http: httpx2.AsyncClient, **options: Any) -> Client:
    return Client(streamable_http_client("http://127.0.0.1:7860/mcp", http_client=http), **options)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_works_over_http(tmp_path: Path, mode: str) -> None:
    async def run() -> str:
        info = types.Implementation(name="tester", version="1")
        async with (
            serve(tmp_path) as connect,
            connect() as http,
            make_client(http, mode=mode, client_info=info) as client,
        ):
            reviewer = await work(client)
            before = len(asyncio.all_tasks()), threading.active_count()
            for _ in range(200):
                await ask(client, "list_runs")
            assert (len(asyncio.all_tasks()), threading.active_count()) == before, "no call leaves a task or a thread"
            return reviewer

    assert asyncio.run(run()) == ("agent:tester" if mode == "auto" else "agent:agent")


def test_the_rules_of_the_page_hold(tmp_path: Path) -> None:
    async def run() -> None:
        async with serve(tmp_path, is_of_one_person=False) as connect, connect() as http:
            reply = await http.post("/mcp", json=CALL, headers=HEADERS)
            assert "bundled" in reply.text
            foreign = await http.post("/mcp", json=CALL, headers={**HEADERS, "Origin": "http://evil.example"})
            assert (foreign.status_code, "another page" in foreign.text) == (403, True)
            rebound = await http.post("/mcp", json=CALL, headers={**HEADERS, "Host": "evil.example"})
            assert rebound.status_code == 421
            plain = await http.post("/mcp", content=json.dumps(CALL), headers={**HEADERS, "Content-Type": "text/plain"})
            assert plain.status_code == 415
            assert (await http.get("/mcp")).status_code == 405
            assert "`list_mistakes`" in (await http.get("/llms.txt")).text
            async with make_client(http) as client:
                done = await client.call_tool("export", {"run": "bundled"})
                assert "sign in first" in str(done.content)

    asyncio.run(run())
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_runs_of_another_user_stay_unseen_and_writes_name_the_user(folder: Path) -> None:
    (folder / "split.owner").write_text("ann", encoding="utf-8")

    async def see(connect: Callable[..., httpx2.AsyncClient], token: str) -> tuple[list[str], bool, str]:
        async with connect(token) as http, make_client(http) as client:
            names = [one["run"] for one in (await ask(client, "list_runs"))["runs"]]
            hidden = [await client.call_tool(name, {"run": "demo"}) for name in ("read_run", "list_mistakes", "export")]
            hidden.append(await client.call_tool("search", {"query": "", "run": "demo"}))
            moment = await ask(client, "read_moment", **ROBOT, time_s=9.5)
            event = next(one["event"] for one in moment["events"] if "failure" in one)
            done = await ask(client, "add_verdict", **ROBOT, event=event, verdict="unclear")
            return names, all(one.is_error for one in hidden), done["reviewer"]

    async def run() -> None:
        async with serve(folder / "runs", users=True, is_of_one_person=False) as connect:
            assert await see(connect, "a") == (["demo", "bundled"], False, "agent:mcp (ann)")
            assert await see(connect, "b") == (["bundled"], True, "agent:mcp (bob)")
            async with connect() as http:
                assert (await http.post("/mcp", json=CALL, headers=HEADERS)).status_code == 401

    asyncio.run(run())
    with open_store(folder / "runs" / "reviews.sqlite") as store:
        assert {one.reviewer for one in read_review(store).events[0].opinions} == {"agent:mcp (ann)", "agent:mcp (bob)"}
