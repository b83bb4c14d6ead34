"""A client of the WebSocket of a StepScope page, in a terminal.

    pip install websockets
    python docs/chat_client.py ws://127.0.0.1:7860 "What is next?" --picture frame.png

Further questions are read from standard input. The whole conversation is sent; the server computes only its new part.
"""

import argparse
import base64
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from websockets.sync.client import connect


class ChatError(Exception):
    """The server refused a message; the text is its reason."""


class ChatClient:
    """One conversation with the page at an address. A page with a login needs the ``Cookie`` header of a browser."""

    def __init__(self, address: str, *, cookie: str = "") -> None:
        url = f"{address.rstrip('/')}/ws/streaming/{uuid4().hex}"
        self._connection = connect(url, additional_headers={"Cookie": cookie} if cookie else {})
        self.messages: list[dict[str, Any]] = []
        self.position: int | None = None  # place in the queue, from 1
        self.prefill: dict[str, Any] = {}  # the last prefill_done: prompt_length, cached_tokens, input_tokens
        self.done: dict[str, Any] = {}  # the last done, with token_stats

    def __enter__(self) -> "ChatClient":
        self._socket = self._connection.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.__exit__(None, None, None)

    def ask(self, question: str, *, pictures: Sequence[bytes] = (), max_new_tokens: int = 256) -> Iterator[str]:
        """Ask a question, with picture files after it; yield the answer in parts."""
        images = [{"type": "image", "data": base64.b64encode(picture).decode()} for picture in pictures]
        self.messages.append({"role": "user", "content": [{"type": "text", "text": question}, *images]})
        self._send("prefill", messages=self.messages)
        answer = ""
        while True:
            message = json.loads(self._socket.recv())
            kind = message["type"]
            if kind == "error":
                self.messages.pop()
                raise ChatError(message["error"])
            if kind in ("queued", "queue_update"):
                self.position = message["position"]
            elif kind == "queue_done":
                self.position = None
            elif kind == "prefill_done":
                self.prefill = message
                self._send("generate", max_new_tokens=max_new_tokens)
            elif kind == "chunk":
                answer += message["text_delta"]
                yield message["text_delta"]
            elif kind == "done":
                self.done = message
                self.messages.append({"role": "assistant", "content": answer})
                return

    def stop(self) -> None:
        """Stop the answer; its parts so far stay in the conversation."""
        self._send("stop")

    def _send(self, kind: str, **values: Any) -> None:
        self._socket.send(json.dumps({"type": kind, **values}))


def main() -> None:
    """Ask one question, then those of the standard input."""
    options = argparse.ArgumentParser(description="Ask the model of a StepScope page.")
    options.add_argument("address", help="such as ws://127.0.0.1:7860")
    options.add_argument("question")
    options.add_argument("--picture", type=Path, action="append", default=[])
    given = options.parse_args()
    question, pictures = given.question, [path.read_bytes() for path in given.picture]
    with ChatClient(given.address) as client:
        while question:
            try:
                for part in client.ask(question, pictures=pictures):
                    print(part, end="", flush=True)
            except ChatError as error:
                sys.exit(f"⚠ {error}")
            stats = client.done["token_stats"]
            print(flush=True)  # before the line of the other stream
            print(f"({stats['cached_tokens']} tokens reused, {stats['input_tokens']} computed)", file=sys.stderr)
            question, pictures = sys.stdin.readline().strip(), []


if __name__ == "__main__":
    main()
