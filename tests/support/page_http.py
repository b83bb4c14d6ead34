"""The page asked over HTTP without its script: what any program, or another page in the browser, could send."""

import json
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import uuid4

import httpx

TASK = {"goal": "build", "steps": "S1: attach the wheel", "user_turns": ""}
"""The values of the task boxes in a new window, by element id."""


@dataclass(kw_only=True)
class PageClient:
    """One window of a served page, with a session of its own."""

    address: str
    headers: dict[str, str] = field(default_factory=dict)
    session: str = field(default_factory=lambda: uuid4().hex[:12])

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.address, headers=self.headers, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def file(self, path: object, *, method: str = "GET", headers: dict[str, str] | None = None) -> httpx.Response:
        """Ask Gradio's file route for a path of the server."""
        return self.http.request(method, f"/gradio_api/file={path}", headers=headers)

    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.http.get("/config").raise_for_status().json()
        return config

    def events(self) -> list[dict[str, Any]]:
        """Return the events of the page, each with what triggers it and how many inputs it takes."""
        return list(self.config()["dependencies"])

    def find_event(self, name: str, trigger: str) -> dict[str, Any]:
        """Return the event of a component by its element id or its label."""
        config = self.config()
        props = {component["id"]: component.get("props", {}) for component in config["components"]}
        for event in config["dependencies"]:
            for target, what in event["targets"]:
                found = props.get(target, {})
                if what == trigger and name in (found.get("elem_id"), found.get("label")):
                    return dict(event)
        raise AssertionError(f"the page has no event {trigger} of {name}")

    def inputs(self, event: dict[str, Any], **named: Any) -> list[Any]:
        """Return the inputs of an event as a new window has them; ``named`` gives others by element id."""
        props = {component["id"]: component.get("props", {}) for component in self.config()["components"]}
        found = [props.get(target, {}) for target in event["inputs"]]
        return [named.get(prop.get("elem_id") or "", prop.get("value")) for prop in found]

    def join(self, fn_index: int, data: list[Any], *, event_data: Any = None) -> httpx.Response:
        """Put an event into the queue."""
        asked = {"fn_index": fn_index, "data": data, "session_hash": self.session, "event_data": event_data}
        return self.http.post("/gradio_api/queue/join", json=asked)

    def messages(self) -> list[dict[str, Any]]:
        """Return what the queue says to this session until it closes the stream."""
        said = []
        with self.http.stream("GET", "/gradio_api/queue/data", params={"session_hash": self.session}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    said.append(json.loads(line.removeprefix("data:")))
                    if said[-1]["msg"] == "close_stream":
                        break
        return said

    def run(self, fn_index: int, data: list[Any], *, event_data: Any = None) -> dict[str, Any]:
        """Run an event to its end; return its last message."""
        self.join(fn_index, data, event_data=event_data).raise_for_status()
        return next(said for said in reversed(self.messages()) if said["msg"] == "process_completed")
