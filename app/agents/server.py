"""The MCP server of the tools: over stdio, and as a route of the page. It needs the package ``mcp``.

The route keeps no sessions: each call has its own request, with the identity, guard and limits of the page.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any, Final

import anyio
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from stepscope.app.agents.documents import INSTRUCTIONS, write_guide
from stepscope.app.agents.table import call_tool, list_tools
from stepscope.app.agents.tools import Tools
from stepscope.app.agents.workspace import Caller, Workspace
from stepscope.app.server.identity import current_visitor, signed_in
from stepscope.eval.served.prompts import to_base64

PATH: Final = "/mcp"
MAX_CALLS: Final = 8
"""Maximum number of calls at a time; others wait."""
_Context = ServerRequestContext[Any, Any]


def make_server(find_tools: Callable[[_Context], Tools]) -> Server[Any]:
    """Return the server; ``find_tools`` returns the tools of the client that calls."""
    limiter = anyio.CapacityLimiter(MAX_CALLS)

    async def on_list_tools(_: _Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[
            types.Tool(
                name=one.name,
                description=one.description,
                input_schema=one.arguments.model_json_schema(),
                annotations=types.ToolAnnotations(
                    read_only_hint=not one.writes, destructive_hint=False, open_world_hint=False
                ),
            )
            for one in list_tools(Tools).values()
        ])  # fmt: skip

    async def on_call_tool(context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tools, arguments = find_tools(context), params.arguments or {}
        reply = await anyio.to_thread.run_sync(call_tool, tools, params.name, arguments, limiter=limiter)
        content: list[types.ContentBlock] = [types.TextContent(text=reply.text)]
        content += [types.ImageContent(data=to_base64(one), mime_type="image/jpeg") for one in reply.pictures]
        return types.CallToolResult(content=content, is_error=reply.is_error)

    given: dict[str, Any] = {"version": version("stepscope"), "instructions": INSTRUCTIONS}
    server: Server[Any] = Server("stepscope", **given, on_list_tools=on_list_tools, on_call_tool=on_call_tool)
    return server


def _name_client(context: _Context) -> str:
    params = context.session.client_params
    return params.client_info.name if params is not None else ""


def serve_stdio(workspace: Workspace, address: str) -> None:
    """Serve the person at this machine until stdin ends; ``address`` is that of the page, for links."""

    async def run() -> None:
        server = make_server(lambda context: Tools(workspace, Caller(agent=_name_client(context), address=address)))
        async with stdio_server() as (received, sent):
            await server.run(received, sent, server.create_initialization_options())

    anyio.run(run)


def make_routes(
    workspace: Workspace, *, is_of_one_person: bool
) -> tuple[list[BaseRoute], Callable[[Any], AbstractAsyncContextManager[None]]]:
    """Return the routes of a page, and the lifespan of its server."""

    def find_tools(context: _Context) -> Tools:
        request: Any = context.request
        user, address = signed_in(request) or "", str(request.base_url)
        current_visitor.set(user or current_visitor.get())
        may_write = is_of_one_person or bool(user)
        caller = Caller(agent=_name_client(context), user=user, may_write=may_write, address=address)
        return Tools(workspace, caller)

    manager = StreamableHTTPSessionManager(make_server(find_tools), json_response=True, stateless=True)

    async def describe(request: Request) -> Response:
        return PlainTextResponse(write_guide(str(request.base_url)))

    endpoint = Route(PATH, StreamableHTTPASGIApp(manager), methods=["POST"])
    return [endpoint, Route("/llms.txt", describe)], lambda _: manager.run()
