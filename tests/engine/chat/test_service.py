"""Many clients of one event loop: their answers are those of a cold worker, and no departure keeps a worker busy."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.chat.answering import AnswerDelta, AnswerEnd, AnswerEvent, Prefilled
from stepscope.engine.chat.pool import QueueFullError, WorkerPool
from stepscope.engine.chat.prompts import Conversation, render_conversation
from stepscope.engine.chat.service import AnswerRequest, ChatService, Leased, QueuePlace
from stepscope.engine.chat.worker import ChatPrompt, ChatWorker
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from tests.support.stores import check_store

MAX_TOKENS = 6
Event = QueuePlace | Leased | AnswerEvent


@pytest.fixture(scope="module")
def checkpoint(tiny_folder: Path) -> Checkpoint:
    return load_model(tiny_folder, device="cpu")


def make_service(checkpoint: Checkpoint, num_workers: int = 2) -> ChatService[ChatWorker]:
    return ChatService(WorkerPool([ChatWorker(checkpoint, budget_bytes=2**17) for _ in range(num_workers)]))


def make_prompt(checkpoint: Checkpoint, question: str) -> ChatPrompt:
    codec: Any = checkpoint.prompt
    talk = Conversation().ask(question)
    return ChatPrompt(pieces=render_conversation(codec, talk, base=codec.system("Be brief.")), features={})


def started(max_new_tokens: int = MAX_TOKENS) -> AnswerRequest:
    turn = AnswerRequest()
    turn.start(max_new_tokens)
    return turn


async def ask(
    service: ChatService[ChatWorker],
    prompt: ChatPrompt,
    *,
    turn: AnswerRequest | None = None,
    leaves: Callable[[Event], bool] = lambda event: False,
) -> list[Event]:
    """Return the events of an answer up to the one at which the client leaves."""
    events: list[Event] = []
    async with aclosing(service.answer(prompt, turn or started())) as answer:
        async for event in answer:
            events.append(event)
            if leaves(event):
                break
    return events


def answer_cold(checkpoint: Checkpoint, prompt: ChatPrompt) -> tuple[int, ...]:
    *_, end = ChatWorker(checkpoint).answer(prompt, max_new_tokens=MAX_TOKENS)
    assert isinstance(end, AnswerEnd)
    return end.ids


def check_answer(events: list[Event], wanted: tuple[int, ...]) -> None:
    prefilled = next(event for event in events if isinstance(event, Prefilled))
    assert prefilled.cached_tokens + prefilled.prefilled_tokens == prefilled.prompt_tokens
    end = events[-1]
    assert isinstance(end, AnswerEnd)
    assert end.ids == wanted


async def wait_until_free(service: ChatService[ChatWorker]) -> None:
    """Wait until no question is queued or answered, for at most 3 s."""
    pool, until = service.pool, time.monotonic() + 3
    while pool.status.num_queued or not all(worker.is_idle for worker in pool.status.workers):
        assert time.monotonic() < until, "a worker is still busy"
        await asyncio.sleep(0.01)
    for worker in pool.workers:
        check_store(worker.store)
        assert worker.store.stats.num_locked == 0


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_fifty_clients_on_two_workers_of_whom_some_leave_or_stop(checkpoint: Checkpoint) -> None:
    service = make_service(checkpoint)
    prompts = [make_prompt(checkpoint, f"What is step {number % 7}?") for number in range(50)]
    served: list[int] = []

    async def ask_as(number: int) -> None:
        turn, leaves_at = started(), (QueuePlace, AnswerDelta, None, Leased, None)[number % 5]

        def leaves(event: Event) -> bool:
            if isinstance(event, Leased):
                served.append(number)
            if number % 10 == 4 and isinstance(event, AnswerDelta):
                turn.stop()
            return leaves_at is not None and isinstance(event, leaves_at)

        events = await ask(service, prompts[number], turn=turn, leaves=leaves)
        wanted = answer_cold(checkpoint, prompts[number])
        if leaves_at is None:
            end = events[-1]
            assert isinstance(end, AnswerEnd)
            check_answer(events, wanted[: len(end.ids)] if end.is_stopped else wanted)

    async def main() -> None:
        await asyncio.gather(*map(ask_as, range(50)))
        await wait_until_free(service)

    run(main())
    assert len(served) >= 40
    assert all(worker.num_answers > 5 for worker in service.pool.status.workers)


def test_a_full_queue_refuses_and_leaves_no_trace(checkpoint: Checkpoint) -> None:
    service: ChatService[ChatWorker] = ChatService(WorkerPool([ChatWorker(checkpoint)], max_queued=0))

    async def main() -> None:
        with pytest.raises(QueueFullError, match="try again"):
            await ask(service, make_prompt(checkpoint, "What is next?"))
        await wait_until_free(service)

    run(main())


@pytest.fixture
def worker(tiny_folder: Path) -> ChatWorker:
    return ChatWorker(load_model(tiny_folder, device="cpu"))


def prompt(worker: ChatWorker, question: str, owner: str) -> ChatPrompt:
    codec = worker.checkpoint.prompt
    base = codec.schema(goal="build", steps=(), state={})
    pieces = render_conversation(codec, Conversation().ask(question), base=base)
    return ChatPrompt(pieces=pieces, features={}, owner=owner)


def count_cached(worker: ChatWorker, prompt: ChatPrompt) -> int:
    events = list(worker.answer(prompt, max_new_tokens=2))
    return next(event.cached_tokens for event in events if isinstance(event, Prefilled))


def test_another_user_cannot_find_out_digit_by_digit_what_was_written(worker: ChatWorker) -> None:
    secret = prompt(worker, "The code of the safe is 48151.", "user ann")
    count_cached(worker, secret)
    guesses = {
        count_cached(worker, prompt(worker, f"The code of the safe is {digit}", f"user {digit}")) for digit in range(10)
    }
    first = count_cached(worker, prompt(worker, "The code of the safe is 48151.", "user eve"))
    assert first == 0, "even the whole text is not found"
    assert guesses == {0}
    assert count_cached(worker, secret) == len(secret.pieces) - 1, "the owner reuses all but the last piece"
    check_store(worker.store)
