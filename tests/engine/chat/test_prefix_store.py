"""The prefix store under any order of leases, commits and departures, with caches that record their tokens."""

from dataclasses import dataclass, field
from typing import Self

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from stepscope.engine.chat.prefix_store import Lease, PrefixStore
from stepscope.engine.chat.prompts import ContextPiece, count_tokens
from tests.support.stores import check_store

BYTES_PER_TOKEN = 10
PIECES = st.one_of(st.integers(1, 3), st.sampled_from(("3-aa", "3-bb")))


@dataclass
class RecordingCache:
    """A cache whose tokens can be read: each piece once per token."""

    tokens: list[ContextPiece] = field(default_factory=list)
    device: str = "gpu"

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def num_bytes(self) -> int:
        return BYTES_PER_TOKEN * len(self.tokens)

    def crop_to(self, length: int) -> None:
        assert length <= len(self.tokens)
        del self.tokens[length:]

    def fork(self, *, length: int | None = None, device: str | None = None) -> Self:
        return type(self)(self.tokens[:length], device or self.device)

    def feed(self, pieces: tuple[ContextPiece, ...]) -> None:
        self.tokens += expand(pieces)


def expand(pieces: tuple[ContextPiece, ...]) -> list[ContextPiece]:
    return [piece for piece in pieces for _ in range(count_tokens((piece,)))]


def make_store(*, budget_tokens: int = 1000, host_tokens: int = 0) -> PrefixStore[RecordingCache]:
    return PrefixStore(
        RecordingCache,
        budget_bytes=BYTES_PER_TOKEN * budget_tokens,
        host_budget_bytes=BYTES_PER_TOKEN * host_tokens,
        device="gpu",
    )


def serve(store: PrefixStore[RecordingCache], prompt: tuple[ContextPiece, ...]) -> Lease[RecordingCache]:
    """Feed a prompt in a lease, commit and close it; return the lease."""
    with store.acquire(prompt) as lease:
        lease.cache.feed(prompt[lease.num_pieces :])
        lease.commit(prompt)
    check_store(store)
    return lease


def test_a_longer_prompt_reuses_all_of_the_shorter_one() -> None:
    store = make_store()
    assert serve(store, (1, "3-aa", 2)).num_cached == 0
    assert serve(store, (1, "3-aa", 2, 3)).num_cached == 5  # 1 + 3 tokens of the picture + 1
    assert store.stats.num_entries == 1


def test_equal_ids_with_other_pictures_share_nothing_after_the_first_picture() -> None:
    store = make_store()
    serve(store, (1, "3-aa", 2, 3))
    assert serve(store, (1, "3-bb", 2, 3)).num_cached == 1


def test_both_branches_of_an_edit_stay_while_there_is_room() -> None:
    store = make_store()
    serve(store, (1, 2, 3, 3, 3))
    assert serve(store, (1, 2, 1, 1, 1)).num_cached == 2
    assert store.find((1, 2, 3, 3, 3, 1)) == 5


def test_the_least_recently_used_entry_goes_to_the_host_and_returns() -> None:
    store = make_store(budget_tokens=6, host_tokens=6)
    serve(store, (1, 1, 1, 1))
    serve(store, (2, 2, 2, 2))
    assert (store.stats.device_bytes, store.stats.host_bytes) == (40, 40)
    lease = serve(store, (1, 1, 1, 1, 3))
    assert lease.num_cached == 4
    assert lease.cache.device == "gpu"


@settings(max_examples=30, stateful_step_count=30)
class StoreMachine(RuleBasedStateMachine):
    """Clients acquire, feed, commit and leave in any order, on a store with small budgets."""

    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.store = make_store(budget_tokens=25, host_tokens=15)
        self.num_open = 0

    @rule(target=leases, prompt=st.lists(PIECES, min_size=1, max_size=9).map(tuple))
    def acquire(self, prompt: tuple[ContextPiece, ...]) -> object:
        lease = self.store.acquire(prompt)
        held = prompt[: lease.num_pieces]
        assert lease.num_cached == len(expand(held)) < len(expand(prompt))
        assert lease.cache.tokens == expand(held), "the cache holds other tokens than the prompt"
        assert lease.cache.device == "gpu"
        self.num_open += 1
        return multiple((lease, prompt))

    @rule(chosen=consumes(leases), answer=st.lists(st.integers(1, 3), max_size=3).map(tuple), ends=st.booleans())
    def answer(
        self, chosen: tuple[Lease[RecordingCache], tuple[ContextPiece, ...]], answer: tuple[int, ...], ends: bool
    ) -> None:
        lease, prompt = chosen
        lease.cache.feed((*prompt[lease.num_pieces :], *answer))
        if ends:
            lease.commit((*prompt, *answer))
        lease.close()
        lease.close()
        self.num_open -= 1

    @rule(chosen=consumes(leases))
    def leave(self, chosen: tuple[Lease[RecordingCache], tuple[ContextPiece, ...]]) -> None:
        chosen[0].close()
        self.num_open -= 1

    @invariant()
    def is_sound(self) -> None:
        check_store(self.store)
        for entry in self.store._entries:
            assert entry.cache.tokens[: entry.committed] == expand(entry.key)
            assert entry.cache.device == ("cpu" if entry.is_on_host else "gpu")
        assert self.store.stats.num_locked <= self.num_open


TestStore = StoreMachine.TestCase
