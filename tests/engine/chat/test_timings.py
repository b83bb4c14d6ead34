"""The times of answers, and the log that charts read."""

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.bench.reuse import compare_lengths
from stepscope.engine.chat.answering import AnswerDelta, AnswerEnd, AnswerEvent, Prefilled
from stepscope.engine.chat.pool import WorkerPool
from stepscope.engine.chat.service import ChatService, Turn
from stepscope.engine.chat.timings import MAX_ANSWERS, AnswerLog, AnswerTiming
from stepscope.engine.chat.worker import ChatPrompt, ChatWorker
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint


@pytest.fixture(scope="module")
def checkpoint(tiny_folder: Path) -> Checkpoint:
    return load_model(tiny_folder, device="cpu")


class _Scripted(ChatWorker):
    def answer(self, *_: Any, **__: Any) -> Generator[AnswerEvent]:
        yield Prefilled(prompt_tokens=100, cached_tokens=60, prefilled_tokens=40)
        yield AnswerDelta(text="Yes", num_tokens=1)
        yield AnswerEnd(text="Yes", ids=(1,), num_pieces=1, num_fed=0, is_stopped=False)


def ask(service: ChatService[Any], *, num_events: int | None = None) -> None:
    async def collect() -> None:
        turn = Turn()
        turn.start(8)
        events = service.answer(ChatPrompt(pieces=(1, 2), features={}), turn)
        taken = 0
        async for _ in events:
            taken += 1
            if taken == num_events:
                break
        await events.aclose()

    asyncio.run(collect())


def test_a_finished_answer_is_logged_with_its_tokens_and_times(checkpoint: Checkpoint) -> None:
    service = ChatService(WorkerPool([_Scripted(checkpoint)]))
    ask(service)
    [timing] = service.log.timings
    assert (timing.prompt_tokens, timing.cached_tokens) == (100, 60)
    assert all(0 <= seconds < 10 for seconds in (timing.queue_s, timing.first_s, timing.rest_s))
    ask(service, num_events=2)  # the client leaves
    assert len(service.log.timings) == 1


def test_the_log_keeps_the_latest_answers() -> None:
    log = AnswerLog()
    for number in range(MAX_ANSWERS + 5):
        log.add(AnswerTiming(prompt_tokens=number, cached_tokens=0, queue_s=0, first_s=0, rest_s=0))
    assert [timing.prompt_tokens for timing in log.timings] == list(range(5, MAX_ANSWERS + 5))


def test_a_measurement_has_both_answers_of_each_length_that_fits(checkpoint: Checkpoint) -> None:
    points = list(compare_lengths(checkpoint, (1, 4, 10**4)))
    assert [point.num_turns for point in points] == [1, 4]
    for point in points:
        assert point.warm.ids == point.cold.ids
        assert point.warm.cached_share > 0.3
        assert point.cold.cached_share == 0
        assert point.warm.first_s > 0
