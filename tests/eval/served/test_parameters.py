"""Servers that refuse a parameter, its value or the number of pictures, in their own words."""

from collections.abc import Callable
from typing import Any

import pytest

from stepscope.eval.served.chat import ChatClient, Endpoint, ServedModelError
from stepscope.eval.served.video_chat import open_video_chat
from tests.support.servers.served import ModelServer, serve_chat, serve_video_chat

ANSWER = {"choices": [{"message": {"content": "Go."}, "finish_reason": "stop"}]}
Refuses = Callable[[dict[str, Any]], bool]


def refusing(*refusals: tuple[Refuses, str], status: int = 400) -> ModelServer:
    """Return a server that refuses requests with the text of the first condition that holds."""

    def respond(request: dict[str, Any]) -> tuple[int, Any]:
        for refuses, text in refusals:
            if refuses(request):
                return status, {"error": {"message": text}}
        return 200, ANSWER

    return ModelServer(answers=[], respond=respond)


def has(name: str) -> Refuses:
    return lambda request: name in request


def above(name: str, limit: float) -> Refuses:
    return lambda request: request.get(name, 0) > limit


def ask_twice(server: ModelServer, *, max_tokens: int = 128) -> list[dict[str, Any]]:
    """Return the requests of two chats, without their path, model and messages."""
    with serve_chat(server), ChatClient(Endpoint(url=server.url, model="m", num_retries=0)) as client:
        for _ in range(2):
            assert client.complete([], max_tokens=max_tokens, needs_logprobs=True).text == "Go."
    names = ("path", "model", "messages")
    return [{name: value for name, value in one.items() if name not in names} for one in server.requests]


WHOLE = {"max_tokens": 128, "temperature": 0, "logprobs": True, "top_logprobs": 20}
WITHOUT = {"max_tokens": 128, "temperature": 0}


@pytest.mark.parametrize(
    ("refuses", "text", "changed"),
    [
        (
            has("max_tokens"),
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
            {"max_completion_tokens": 128, **{name: WHOLE[name] for name in WHOLE if name != "max_tokens"}},
        ),
        (
            has("max_tokens"),
            "Unrecognized request argument supplied: max_tokens",
            {name: WHOLE[name] for name in WHOLE if name != "max_tokens"},
        ),
        (
            has("temperature"),
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) is supported.",
            {name: WHOLE[name] for name in WHOLE if name != "temperature"},
        ),
        (
            lambda request: request.get("temperature") == 0,
            "Input validation error: `temperature` must be strictly positive",
            {**WHOLE, "temperature": 0.01},
        ),
        (above("top_logprobs", 5), "Invalid value for 'top_logprobs': must be less than or equal to 5.", 5),
        (above("top_logprobs", 5), "Input validation error: `top_n_tokens` must be >= 0 and <= 5. Given: 20", 5),
        (above("top_logprobs", 10), "Requested sample logprobs of 20, which is greater than max allowed: 10", 10),
        (above("top_logprobs", 8), "top_logprobs: Input should be less than or equal to 8 for gpt-4.1-mini-3", 8),
        (above("top_logprobs", 1), "20 is greater than the maximum of 1 - 'logprobs'", 1),
        (has("logprobs"), "logprobs are not supported with reasoning models.", WITHOUT),
        (has("logprobs"), '{"loc": ["body", "top_logprobs"], "msg": "Extra inputs are not permitted"}', WITHOUT),
        (has("logprobs"), "This is not implemented.", WITHOUT),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_parameter_is_asked_again_as_the_server_wants_and_remembered(
    refuses: Refuses, text: str, changed: dict[str, Any] | int, status: int
) -> None:
    wanted = {**WHOLE, "top_logprobs": changed} if isinstance(changed, int) else changed
    assert ask_twice(refusing((refuses, text), status=status)) == [WHOLE, wanted, wanted]


def test_logprobs_that_a_model_may_not_give_are_left_out() -> None:
    server = refusing((has("logprobs"), "You are not allowed to request logprobs from this model"), status=403)
    assert ask_twice(server)[1:] == [WITHOUT, WITHOUT]


def test_several_refused_parameters_cost_one_request_each() -> None:
    server = refusing(
        (has("max_tokens"), "Use 'max_completion_tokens' instead of max_tokens."),
        (has("temperature"), "'temperature' is not supported."),
        (above("top_logprobs", 5), "top_logprobs must be at most 5"),
    )
    wanted = {"logprobs": True, "top_logprobs": 5, "max_completion_tokens": 128}
    requests = ask_twice(server)
    assert requests[3:] == [wanted, wanted]


def test_a_refusal_in_a_200_is_asked_again() -> None:
    text = {"error": {"code": 400, "message": "top_logprobs must be at most 5"}}
    server = ModelServer(answers=[], respond=lambda asked: (200, text if asked.get("top_logprobs", 0) > 5 else ANSWER))
    assert [request["top_logprobs"] for request in ask_twice(server)] == [20, 5, 5]


def test_a_limit_of_tokens_is_kept_for_shorter_answers() -> None:
    server = refusing((above("max_tokens", 64), "max_tokens is too large: 128. This model supports at most 64."))
    with serve_chat(server), ChatClient(Endpoint(url=server.url, model="m", num_retries=0)) as client:
        client.complete([], max_tokens=128)
        client.complete([], max_tokens=1)
    assert [request["max_tokens"] for request in server.requests] == [128, 64, 1]


def test_a_server_that_refuses_all_is_asked_a_bounded_number_of_times() -> None:
    server = refusing((lambda _: True, "max_tokens, max_completion_tokens, temperature, logprobs, top_logprobs 19 18"))
    with pytest.raises(ServedModelError, match="status 400"):
        ask_twice(server)
    assert len(server.requests) <= 8


def test_a_request_that_is_too_long_is_not_asked_again() -> None:
    text = "'max_tokens' is too large: 128. This model's maximum context length is 64 tokens."
    server = refusing((lambda _: True, text))
    with (
        serve_chat(server),
        ChatClient(Endpoint(url=server.url, model="m")) as client,
        pytest.raises(ServedModelError, match="maximum context length"),
    ):
        client.complete([], max_tokens=128)
    assert len(server.requests) == 1


PICTURES = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}] * 4}]


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("At most 1 image(s) may be provided in one prompt.", "; give --pictures 1"),
        ("You set image=1 (or defaulted to 1) in `--limit-mm-per-prompt`, but passed 4 image items", "--pictures 1"),
        ("Too many images provided. This model supports up to 3 images", "; give --pictures 3"),
        ("Only one image is supported", "; give --pictures 1"),
    ],
)
def test_a_limit_of_pictures_names_the_option(text: str, cure: str) -> None:
    server = refusing((lambda _: True, text))
    with (
        serve_chat(server),
        ChatClient(Endpoint(url=server.url, model="m")) as client,
        pytest.raises(ServedModelError) as error,
    ):
        client.complete(PICTURES, max_tokens=8)
    assert str(error.value).endswith(cure)


@pytest.mark.parametrize(
    "body", ['{"error": {"code": 503, "message": "Loading model"}}', "Model m is currently loading"]
)
def test_a_server_that_is_loading_names_the_retries(body: str) -> None:
    server = ModelServer(answers=[], failures=[(503, {})] * 2, raw=body)
    client = ChatClient(Endpoint(url="http://127.0.0.1:1/v1", model="m", num_retries=1), sleep=lambda _: None)
    with client, pytest.raises(ServedModelError, match="raise --retries"):
        client.complete([], max_tokens=8)  # nothing listens: it is not up yet
    with serve_chat(server):
        client = ChatClient(Endpoint(url=server.url, model="m", num_retries=1), sleep=lambda _: None)
        with client, pytest.raises(ServedModelError, match="raise --retries"):
            client.complete([], max_tokens=8)
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [503, None])
def test_a_stream_whose_server_is_loading_names_the_retries(status: int | None) -> None:
    server = ModelServer(answers=[], failures=[(status, {})] * 2 if status else [])
    with serve_video_chat(server):
        url = server.url if status else "ws://127.0.0.1:1"
        with (
            pytest.raises(ServedModelError, match="raise --retries"),
            open_video_chat(Endpoint(url=url, model="m", num_retries=1), sleep=lambda _: None),
        ):
            pytest.fail("the server is not up")
