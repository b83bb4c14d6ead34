"""The page as a Space serves it: who signed in with Hugging Face is the reviewer, whatever name is typed."""

import hashlib
import json
import urllib.error
import urllib.request
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from itsdangerous import TimestampSigner

from stepscope.app.reviews.actions import Event
from stepscope.app.reviews.store import open_store
from tests.support.pages.browser import serve

SECRET = "kept by the Space"
SPACE = {
    "SPACE_ID": "somebody/stepscope",
    "SYSTEM": "spaces",
    "OAUTH_CLIENT_ID": "id",
    "OAUTH_CLIENT_SECRET": SECRET,
    "OAUTH_SCOPES": "openid profile",
    "OPENID_PROVIDER_URL": "https://provider.invalid",
}


def session_of(name: str, *, secret: str) -> str:
    """Return the session cookie that Gradio gives to who signed in, signed with a Space's secret."""
    session = b64encode(json.dumps({"oauth_info": {"userinfo": {"preferred_username": name}}}).encode())
    key = hashlib.sha256(f"{secret}-v4".encode()).hexdigest()
    return TimestampSigner(key).sign(session).decode()


def get(address: str, path: str) -> Any:
    with urllib.request.urlopen(address + path, timeout=30) as reply:
        return json.load(reply)


def judge(address: str, action_id: str, *, cookie: str) -> Any:
    """Give a verdict in the name of cleo, as the player's script does."""
    components = get(address, "/config")["components"]
    player = next(found["id"] for found in components if found["props"].get("elem_id") == "player")
    event = Event(video_id="truck-1", kind="generated", role="assistant", time_s=1.0, text="Now the wheel.")
    about = {key: value for key, value in asdict(event).items() if key != "video_id"}
    asked = {
        "video_id": event.video_id,
        "reviewer": "cleo",
        "is_blind": False,
        "has_layer": None,
        "actions": [{"action_id": action_id, "kind": "verdict", "verdict": "correct", "event": about}],
    }
    body = {"data": asked, "component_id": player, "fn_name": "ask", "session_hash": "window"}
    headers = {"Content-Type": "application/json", "Cookie": f"session={cookie}"}
    url = f"{address}/gradio_api/component_server"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


@pytest.mark.slow
def test_who_signed_in_on_a_space_is_the_reviewer_and_a_forged_session_is_nobody(
    tiny_folder: Path, demo_manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SPACE.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "shown.json").write_text("{}", encoding="utf-8")
    with serve(data=demo_manifest, checkpoint=tiny_folder, runs=tmp_path) as address:
        values = [found["props"].get("value") for found in get(address, "/config")["components"]]
        assert "Sign in with Hugging Face" in values
        assert judge(address, "a", cookie=session_of("cleo", secret=SECRET))["signed_in"] == "cleo"
        forged = judge(address, "b", cookie=session_of("cleo", secret="guessed"))
        assert (forged["signed_in"], forged["kept"]) == (None, [])
        assert "sign in with Hugging Face" in forged["error"]
        for name in ("reviews.sqlite", "reviews.sqlite-wal", "shown.json"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                get(address, f"/gradio_api/file={tmp_path / name}")
    with open_store(tmp_path / "reviews.sqlite") as store:
        assert [(action.action_id, action.reviewer) for action in store.read()] == [("a", "cleo")]
