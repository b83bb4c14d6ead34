"""Messages of the WebSocket: validation of client messages, and prompts from conversations."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from app.chat.conversation.pictures import check_num_pictures, encode_pictures, read_picture
from app.chat.conversation.prompts import DEFAULT_SYSTEM, free_codec
from engine.chat.prompts import ChatTurn, Conversation, render_conversation
from engine.chat.worker import ChatPrompt
from engine.model.checkpoint import Checkpoint

MAX_MESSAGES = 4000


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


def build_prompt(checkpoint: Checkpoint, messages: Sequence[Message]) -> ChatPrompt:
    """Return the prompt of a conversation, with its pictures encoded.

    Raises:
        ValueError: Roles out of order, audio, or a picture that cannot be read.
    """
    codec = free_codec(checkpoint)
    has_system = bool(messages) and messages[0].role == "system"
    system, pictures = _split_content(messages[0]) if has_system else (DEFAULT_SYSTEM, [])
    if pictures:
        raise ValueError("a system message has no pictures")
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
        digests, encoded = encode_pictures(checkpoint, images)
        features |= encoded
        check_num_pictures(len(features))
        turns.append(ChatTurn(question=text, pictures=digests))
    pieces = render_conversation(codec, Conversation(tuple(turns)), base=codec.system(system))
    return ChatPrompt(pieces=pieces, features=features)


def _split_content(message: Message) -> tuple[str, list[NDArray[np.uint8]]]:
    """Return the text and the pictures of a message."""
    if isinstance(message.content, str):
        return message.content, []
    if any(isinstance(part, AudioPart) for part in message.content):
        raise ValueError("this model takes no audio; send text and pictures")
    text = "\n".join(part.text for part in message.content if isinstance(part, TextPart))
    images = [_read_image(part.data) for part in message.content if isinstance(part, ImagePart)]
    if images and message.role == "assistant":
        raise ValueError("an assistant message has no pictures")
    return text, images


def _read_image(data: str) -> NDArray[np.uint8]:
    """Return a picture file in base64 as RGB ``[H, W, 3]``."""
    try:
        return read_picture(base64.b64decode(data, validate=True))
    except binascii.Error as error:
        raise ValueError("a picture cannot be read; send PNG, JPEG or WebP in base64") from error
