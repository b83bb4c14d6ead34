"""An HTTP client of the page without its scripts: it sends requests as any program or foreign page could."""

import json
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import uuid4

import httpx

TASK = {"goal": "build", "steps": "S1: attach the wheel", "user_turns": ""}
"""The values of the task boxes in a new window, by element id."""


@dataclass(kw_only=True)
class PageClient:
    """One window of a served page, with its own session."""

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
        """Request a path of the server from Gradio's file route."""
        return self.http.request(method, f"/gradio_api/file={path}", headers=headers)

    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.http.get("/config").raise_for_status().json()
        return config

    def events(self) -> list[dict[str, Any]]:
        """Return the event descriptions of the page, with triggers and inputs."""
        return list(self.config()["dependencies"])

    def find_event(self, name: str, trigger: str, *, into: str = "") -> dict[str, Any]:
        """Return the event of a component that a handler answers, by its element id or its label.

        ``into`` is the element id of one of its outputs, where a component has several such events.
        """
        config = self.config()
        props = {component["id"]: component.get("props", {}) for component in config["components"]}
        for event in config["dependencies"]:
            if into and into not in (props.get(output, {}).get("elem_id") for output in event["outputs"]):
                continue
            for target, what in event["targets"]:
                found = props.get(target, {})
                if event["backend_fn"] and what == trigger and name in (found.get("elem_id"), found.get("label")):
                    return dict(event)
        raise AssertionError(f"the page has no event {trigger} of {name}")

    def find_following(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the event that a ticket of another starts: the change of one of its outputs."""
        changes = [[output, "change"] for output in event["outputs"]]
        return next(found for found in self.events() if any(target in changes for target in found["targets"]))

    def inputs(self, event: dict[str, Any], **named: Any) -> list[Any]:
        """Return the inputs of an event in a new window; ``named`` overrides values by element id."""
        props = {component["id"]: component.get("props", {}) for component in self.config()["components"]}
        found = [props.get(target, {}) for target in event["inputs"]]
        return [named.get(prop.get("elem_id") or "", prop.get("value")) for prop in found]

    def join(self, fn_index: int, data: list[Any], *, event_data: Any = None) -> httpx.Response:
        """Add an event to the queue."""
        body = {"fn_index": fn_index, "data": data, "session_hash": self.session, "event_data": event_data}
        return self.http.post("/gradio_api/queue/join", json=body)

    def choose_video(self, name: str) -> dict[str, Any]:
        """Open a bundled video as the head of the page does; return the last message of its event."""
        event = self.find_event("player", "open_focus", into="video")
        return self.run(event["id"], [None], event_data={"split": "test", "run": "", "video": name})

    def messages(self) -> list[dict[str, Any]]:
        """Return the queue's messages to this session until the stream is closed."""
        messages = []
        with self.http.stream("GET", "/gradio_api/queue/data", params={"session_hash": self.session}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    messages.append(json.loads(line.removeprefix("data:")))
                    if messages[-1]["msg"] == "close_stream":
                        break
        return messages

    def run(self, fn_index: int, data: list[Any], *, event_data: Any = None) -> dict[str, Any]:
        """Run an event to its end; return its last message."""
        self.join(fn_index, data, event_data=event_data).raise_for_status()
        return next(message for message in reversed(self.messages()) if message["msg"] == "process_completed")


def is_served(address: str) -> bool:
    """Return whether a page answers at an address."""
    try:
        return httpx.get(address, timeout=30).is_success
    except httpx.TransportError:
        return False
