"""The queue, its leases, and routing, with workers whose stores hold no tensors."""

import pytest

from stepscope.engine.chat.pool import WorkerPool
from stepscope.engine.chat.prefix_store import PrefixStore
from tests.engine.chat.test_prefix_store import RecordingCache, make_store, serve


class StoreWorker:
    """A worker that has a store and no model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.store: PrefixStore[RecordingCache] = make_store(budget_tokens=20)


def make_pool(num_workers: int = 2, *, max_queued: int = 100) -> WorkerPool[StoreWorker]:
    return WorkerPool([StoreWorker(str(number)) for number in range(num_workers)], max_queued=max_queued)


def test_routing_has_four_levels() -> None:
    pool = make_pool()
    serve(pool.workers[1].store, (1,) * 8)
    with pool.enqueue((*(1,) * 8, 2)) as ticket:
        assert ticket.worker_index == 1, "1: the prefix is there"
        with pool.enqueue((*(1,) * 8, 2)) as other:
            assert other.worker_index == 0, "the other one is busy"
            assert pool.enqueue((1,)).worker is None, "4: wait"
    pool = make_pool()
    serve(pool.workers[0].store, (1,) * 8)
    with pool.enqueue((1, *(3,) * 8)) as ticket:
        assert ticket.worker_index == 1, "2: one token is too few to route by, and an empty store loses nothing"
    serve(pool.workers[1].store, (4,) * 8)
    for wanted in (0, 1, 0):
        with pool.enqueue((5,) * 8) as ticket:
            assert ticket.worker_index == wanted, "3: least recently used"


def test_the_questions_of_one_owner_do_not_hold_up_those_of_others() -> None:
    pool = make_pool(1)
    own = [pool.enqueue((1,), owner="anna") for _ in range(4)]
    others = [pool.enqueue((1,), owner=owner) for owner in ("bob", "eve", "bob")]
    assert [ticket.position for ticket in others] == [0, 1, 3]
    assert [ticket.position for ticket in own[1:]] == [2, 4, 5]


def test_a_question_returns_to_the_worker_that_holds_its_prompt() -> None:
    pool = make_pool()
    with pool.enqueue((1, 2, 3)) as first, pool.enqueue((2, 2, 2)) as second:
        assert (first.worker_index, second.worker_index) == (0, 1)
        for ticket in (first, second):
            assert ticket.worker is not None
            serve(ticket.worker.store, ticket.prompt)
    with pool.enqueue((2, 2, 2, 3)) as ticket:
        assert ticket.worker_index == 1


def test_position_and_wait_shrink_as_the_queue_moves() -> None:
    pool = make_pool(1)
    changes: list[int] = []
    with pool.enqueue((1,)) as running:
        second = pool.enqueue((1,))
        third = pool.enqueue((1,), on_change=lambda: changes.append(third.position))
        assert (second.position, third.position) == (0, 1)
        assert second.eta_s is None, "no answer was timed yet"
        pool._durations.extend([4.0] * 20)  # each answer takes 4 s
        assert second.eta_s == pytest.approx(4, abs=1)
        assert third.eta_s == pytest.approx(8, abs=1)
        running.close()
        assert second.worker is not None
        assert changes == [0]
        second.close()
        assert third.worker is not None
        third.close()
