"""The live session of a browser window, and the registry by which its script finds it."""

import base64
import secrets
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from stepscope.app.core.model_use import ModelUse
from stepscope.app.core.pictures import read_picture
from stepscope.app.window.live_run import Cancellable
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.live.session import LiveSession
from stepscope.engine.live.sources import LiveSource, PushedSource
from stepscope.engine.video.stills import encode_jpeg

MAX_BYTES: Final = 4 * 2**20
"""Maximum length of a pushed picture in base64."""
_CAMERA_PROBLEMS: Final = {
    "disconnected": "the camera was disconnected; connect it, then press Start",
    "NotAllowedError": "the browser does not let this page use a camera; allow it beside the address, then press Start",
    "NotReadableError": "the camera cannot be read; close the program that uses it, then press Start",
    "TypeError": "browsers let only pages of https, or of this machine, use a camera",
}
"""Sentences about the problems that the browser names."""


@dataclass(slots=True, kw_only=True)
class LiveWindow(Cancellable):
    """A session of a window, from the click on Start to its end."""

    source: LiveSource
    task: Task
    config: StreamConfig
    browser: str = ""
    """Session hash of the browser window, by which its place in the queue is found."""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """Unguessable id of the session, sent only to its window."""
    session: LiveSession | None = None
    """The session; None while it waits for the model."""
    folder_name: str = ""
    """Name of the run folder that is written; empty before the start."""
    run_name: str = ""
    """Name of the recorded run; empty before the end, and without a frame."""


class LiveWindows:
    """Sessions by key, held by weak references: a session disappears with the window that owns it."""

    def __init__(self, model_use: ModelUse) -> None:
        self._model_use = model_use
        self._windows = WeakValueDictionary[str, LiveWindow]()

    def add(self, window: LiveWindow) -> None:
        """Register a session."""
        self._windows[window.key] = window

    def look(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the latest picture, the response that is being generated, the recording, and the wait in words.

        The picture is base64 of a JPEG; the recording is the name of its folder, once it has a frame.

        Returns None for an unknown session, and after its end.
        """
        window = self._find(request)
        if window is None or window.ended.is_set():
            return None
        session = window.session
        is_pushed = isinstance(window.source, PushedSource)
        picture = session.capture.latest if session is not None and not is_pushed else None
        progress = session.text_progress if session is not None else None
        return {
            "picture": None if picture is None else base64.b64encode(encode_jpeg(picture, max_side=640)).decode(),
            "text": "" if progress is None else progress.text,
            "recording": window.folder_name if session is not None and session.status.num_decided else "",
            "wait": "" if window.is_started else self._model_use.describe_wait(window.browser),
        }

    def push(self, request: dict[str, Any]) -> bool | None:
        """Add a picture of the window's webcam, or the reason why there is none; None for an unknown session."""
        window = self._find(request)
        if window is None or window.ended.is_set() or not isinstance(window.source, PushedSource):
            return None
        problem = request.get("problem")
        if isinstance(problem, str):
            no_camera = "the browser found no camera; connect one, then press Start"
            window.source.fail(_CAMERA_PROBLEMS.get(problem, no_camera))
            return False
        image = decode_picture(request.get("picture"))
        if image is not None:
            window.source.push(image)
        return image is not None

    def _find(self, request: dict[str, Any]) -> LiveWindow | None:
        key = request.get("key")
        return self._windows.get(key) if isinstance(key, str) else None


def decode_picture(data: object) -> np.ndarray | None:
    """Return a picture, uint8 [H, W, 3] RGB, from a file in base64; None for other data and above the limits."""
    if not isinstance(data, str) or len(data) > MAX_BYTES:
        return None
    try:
        return read_picture(base64.b64decode(data, validate=True))
    except ValueError:
        return None
