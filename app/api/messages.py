"""Messages of the WebSocket: validation of client messages, and prompts from conversations."""

import base64
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from stepscope.app.chat.prompts import DEFAULT_SYSTEM, free_codec
from stepscope.app.core.pictures import check_num_pictures, check_pictures, encode_pictures
from stepscope.engine.chat.prompts import ChatTurn, Conversation, render_conversation
from stepscope.engine.chat.worker import ChatPrompt
from stepscope.engine.io.files import load_json
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.prompt import MAX_TEXT_CHARS

MAX_MESSAGES: Final = 4000
MAX_PARTS: Final = 4000
MAX_BYTES: Final = 16 * 2**20
"""Maximum size of a conversation as JSON, in bytes: about 12 MiB of picture files."""
MAX_JSON_SIGNS: Final = 100_000
"""Maximum number of ``{``, ``[`` and ``,`` of a message: JSON of many small values takes long to read, and the thread
that reads it holds Python's lock. Pictures in base64 have none of these signs."""
_NO_PICTURE: Final = "a picture cannot be read; send PNG, JPEG or WebP in base64"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class TextPart(_Strict):
    """A text."""

    type: Literal["text"]
    text: str


class ImagePart(_Strict):
    """A picture file in base64."""

    type: Literal["image"]
    data: str


class AudioPart(_Strict):
    """Audio content, which no supported model takes."""

    type: Literal["audio"]


Part = Annotated[TextPart | ImagePart | AudioPart, Field(discriminator="type")]


class Message(_Strict):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str | list[Part]


class Prefill(_Strict):
    """``prefill``: the whole conversation, or a part of it."""

    type: Literal["prefill"]
    messages: Annotated[list[Message], Field(max_length=MAX_MESSAGES)]
    is_last_chunk: bool = True


class Generate(_Strict):
    """``generate``: answer the prefilled conversation; ``length_penalty`` has no effect on greedy decoding."""

    type: Literal["generate"]
    generate_audio: bool = False
    max_new_tokens: Annotated[int, Field(ge=1, le=4096)] = 256


class Stop(_Strict):
    """``stop``: end the answer of this connection."""

    type: Literal["stop"]


class Close(_Strict):
    """``close``: end the connection."""

    type: Literal["close"]


ClientMessage = Prefill | Generate | Stop | Close


class _Envelope(_Strict):
    message: Annotated[ClientMessage, Field(discriminator="type")]


def parse_message(data: Any) -> ClientMessage:
    """Return a client's message. Raises ``ValueError`` naming the first wrong field."""
    try:
        return _Envelope.model_validate({"message": data}).message
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"][1:])) or "the message"
        raise ValueError(f"{place}: {first['msg']}") from None


def read_message(content: bytes) -> ClientMessage:
    """Return a client's message from JSON. Raises ``ValueError``, before it is read if it is too large."""
    if len(content) > MAX_BYTES:
        raise ValueError(f"a message has at most {MAX_BYTES} bytes; got {len(content)}")
    if (number := sum(map(content.count, (b"{", b"[", b",")))) > MAX_JSON_SIGNS:
        raise ValueError(f"a message has at most {MAX_JSON_SIGNS} parts, lists and commas; got {number}")
    data = load_json(content.decode(errors="replace"))
    if isinstance(data, dict) and isinstance(data.get("messages"), list):
        _check_num_parts(sum(_count_parts(message) for message in data["messages"]))
    return parse_message(data)


def _count_parts(message: Any) -> int:
    content = message.get("content") if isinstance(message, dict) else None
    return len(content) if isinstance(content, list) else 1


def _check_num_parts(number: int) -> None:
    if number > MAX_PARTS:
        raise ValueError(f"a conversation has at most {MAX_PARTS} parts; got {number}")


def check_conversation(messages: Sequence[Message]) -> None:
    """Raise ``ValueError`` for a conversation that is too large; no picture of it is decoded."""
    parts = [part for message in messages if not isinstance(message.content, str) for part in message.content]
    if len(messages) > MAX_MESSAGES:
        raise ValueError(f"a conversation has at most {MAX_MESSAGES} messages; got {len(messages)}")
    _check_num_parts(len(parts) + sum(isinstance(message.content, str) for message in messages))
    texts = [message.content for message in messages if isinstance(message.content, str)]
    texts += [part.text for part in parts if isinstance(part, TextPart)]
    if (number := sum(map(len, texts))) > MAX_TEXT_CHARS:
        raise ValueError(f"the texts of a conversation have at most {MAX_TEXT_CHARS} characters; got {number}")
    pictures = [part.data for part in parts if isinstance(part, ImagePart)]
    check_num_pictures(len(pictures))
    if not all(map(str.isascii, pictures)):  # one other character makes a text four times as large
        raise ValueError(_NO_PICTURE)


def build_prompt(checkpoint: Checkpoint, messages: Sequence[Message]) -> ChatPrompt:
    """Return the prompt of a conversation, with its pictures encoded.

    Raises:
        ValueError: Roles out of order, audio, or a picture that cannot be read.
    """
    codec = free_codec(checkpoint)
    check_conversation(messages)
    has_system = bool(messages) and messages[0].role == "system"
    system, pictures = _split_content(messages[0]) if has_system else (DEFAULT_SYSTEM, ())
    if pictures:
        raise ValueError("a system message has no pictures")
    check_pictures([image for message in messages for image in _split_content(message)[1]])
    turns: list[ChatTurn] = []
    features: dict[str, Tensor] = {}
    talk = messages[has_system:]
    if not talk or len(talk) % 2 == 0:
        raise ValueError("the last message must be the user's question")
    for number, message in enumerate(talk):
        wanted = ("user", "assistant")[number % 2]
        if message.role != wanted:
            raise ValueError(
                f"after an optional system message, user and assistant alternate; message {number} is not {wanted}"
            )
        text, images = _split_content(message)
        if message.role == "assistant":
            turns[-1] = ChatTurn(question=turns[-1].question, pictures=turns[-1].pictures, answer=text)
            continue
        names, encoded = encode_pictures(checkpoint, images)
        features |= encoded
        turns.append(ChatTurn(question=text, pictures=names))
    pieces = render_conversation(codec, Conversation(tuple(turns)), base=codec.system(system))
    return ChatPrompt(pieces=pieces, features=features)


def has_pictures(messages: Iterable[Message]) -> bool:
    """Return whether a message has a picture."""
    contents = (message.content for message in messages)
    return any(isinstance(part, ImagePart) for content in contents if not isinstance(content, str) for part in content)


def _split_content(message: Message) -> tuple[str, Sequence[Callable[[], bytes]]]:
    """Return the text and the picture files of a message, each decoded from base64 when it is read."""
    if isinstance(message.content, str):
        return message.content, ()
    if any(isinstance(part, AudioPart) for part in message.content):
        raise ValueError("this model takes no audio; send text and pictures")
    text = "\n".join(part.text for part in message.content if isinstance(part, TextPart))
    images = [partial(_decode_base64, part.data) for part in message.content if isinstance(part, ImagePart)]
    if images and message.role == "assistant":
        raise ValueError("an assistant message has no pictures")
    return text, images


def _decode_base64(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise ValueError(_NO_PICTURE) from error
