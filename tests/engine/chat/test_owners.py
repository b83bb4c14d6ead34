"""The reused tokens of an answer say nothing about the prompts of other owners."""

from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.engine.chat.answering import Prefilled
from stepscope.engine.chat.pool import WorkerPool
from stepscope.engine.chat.prompts import Conversation, render_conversation
from stepscope.engine.chat.ray_worker import StoreMirror, StoreSnapshot
from stepscope.engine.chat.worker import ChatPrompt, ChatWorker
from stepscope.engine.loading import load_model


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
    worker.store.check()


def test_equal_prompts_of_two_owners_are_kept_side_by_side(worker: ChatWorker) -> None:
    first, second = (prompt(worker, "What is next?", owner) for owner in ("user ann", "user bob"))
    assert count_cached(worker, first) == count_cached(worker, second) == 0
    assert {owner for owner, _ in worker.store.keys} == {"user ann", "user bob"}
    for own in (first, second):
        assert worker.store.find(own.pieces, owner=own.owner) == len(own.pieces) - 1
        assert worker.store.find(own.pieces) == 0


def test_the_mirror_of_a_worker_on_a_node_and_the_routing_go_by_owner_too(worker: ChatWorker) -> None:
    own = prompt(worker, "What is next?", "user ann")
    count_cached(worker, own)
    mirror = StoreMirror(snapshot=StoreSnapshot(keys=worker.store.keys, stats=worker.store.stats))
    assert mirror.find_pieces(own.pieces, owner="user ann") == len(own.pieces) - 1
    assert mirror.find_pieces(own.pieces, owner="user bob") == 0
    other = ChatWorker(worker.checkpoint, name="empty")
    pool = WorkerPool([other, worker])
    with pool.enqueue(own.pieces, owner="user ann") as ticket:
        assert ticket.worker is worker
    with pool.enqueue(own.pieces, owner=replace(own, owner="user bob").owner) as ticket:
        assert ticket.worker is other
