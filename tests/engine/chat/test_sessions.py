"""Random sessions of many clients who ask, stop and leave at any moment: each answer equals that of a cold worker.

The model is a hash of all tokens in its cache, so one wrong token anywhere in a reused prefix changes the answer.
"""

from collections import deque
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from zlib import crc32

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from stepscope.engine.chat.answering import AnswerDelta, AnswerEnd, AnswerEvent, Forward, Prefilled, answer_prompt
from stepscope.engine.chat.pool import Ticket, WorkerPool
from stepscope.engine.chat.prefix_store import Lease
from stepscope.engine.chat.prompts import ContextPiece
from stepscope.engine.control.requests import ForwardRequest, ForwardResult, Image
from tests.engine.chat.test_prefix_store import RecordingCache, expand, make_store
from tests.support.stores import check_store
from tests.support.streams.fakes import EOS, CharacterCodec

MAX_NEW_TOKENS = 6
MAX_PROMPT = 60
VIDEOS = (("3-aa", "3-ab", "3-ac"), ("3-ba", "3-ab", "3-bc"))
"""Names of the frames of two videos with equal tokens and one equal frame."""


def next_token(context: list[ContextPiece]) -> int:
    """Return the answer of the model to a context: the end of the turn, or a character."""
    value = crc32(repr(context).encode()) % 8
    return EOS if value == 0 else 100 + value


def answer_cold(prompt: tuple[ContextPiece, ...]) -> tuple[int, ...]:
    """Return the ids of a whole answer without any cache."""
    context, ids = expand(prompt), list[int]()
    while len(ids) < MAX_NEW_TOKENS and (token := next_token([*context, *ids])) != EOS:
        ids.append(token)
    return tuple(ids)


@dataclass
class HashRunner:
    """Feeds a cache, and answers with the hash of its contents."""

    cache: RecordingCache
    pictures: tuple[str, ...]

    def forward(self, request: ForwardRequest) -> ForwardResult:
        self.cache.crop_to(request.num_cached)
        for piece in request.inputs:
            self.cache.feed((self.pictures[piece.frame_index] if isinstance(piece, Image) else piece,))
        return ForwardResult(
            decisions=(), tokens=tuple(next_token(self.cache.tokens) for _ in request.sample_positions)
        )


class HashWorker:
    """A worker with the loop and the store of the real one, and a hash as its model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.store = make_store(budget_tokens=80, host_tokens=60)

    def answer(self, session: "Session") -> Generator[AnswerEvent]:
        def open_cache(lease: Lease[RecordingCache]) -> Forward:
            new = session.prompt[lease.num_pieces :]
            return HashRunner(lease.cache, tuple(piece for piece in new if isinstance(piece, str))).forward

        return answer_prompt(
            session.prompt,
            store=self.store,
            codec=CharacterCodec(),
            open_cache=open_cache,
            max_new_tokens=MAX_NEW_TOKENS,
            is_stopped=lambda: session.is_stopped,
            prefill_tokens=7,
        )


@dataclass(eq=False)
class Session:
    """One client and its conversation."""

    history: tuple[ContextPiece, ...]
    prompt: tuple[ContextPiece, ...] = ()
    ticket: Ticket[HashWorker] | None = None
    events: Generator[AnswerEvent] | None = None
    is_stopped: bool = False
    text: list[str] = field(default_factory=list)


class SessionMachine(RuleBasedStateMachine):
    """Clients of a pool of two workers with small stores."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = WorkerPool([HashWorker("first"), HashWorker("second")])
        self.idle: list[Session] = []
        self.waiting: deque[Session] = deque()
        self.running: list[Session] = []

    def move(self) -> None:
        """Lease workers in the order of arrival, as the pool must have done."""
        while self.waiting and len(self.running) < 2:
            session = self.waiting.popleft()
            assert session.ticket is not None
            assert session.ticket.worker is not None, "the first question of the queue has no worker"
            session.events = session.ticket.worker.answer(session)
            self.running.append(session)

    @rule(video=st.sampled_from(VIDEOS), num_frames=st.integers(1, 3))
    def enter(self, video: tuple[str, ...], num_frames: int) -> None:
        self.idle.append(Session(history=(5, 6, *video[:num_frames])))

    @precondition(lambda self: self.idle)
    @rule(number=st.integers(0, 9), dropped=st.integers(0, 9), question=st.lists(st.integers(21, 23), min_size=1))
    def ask(self, number: int, dropped: int, question: list[int]) -> None:
        """Ask after the whole history, or after a part of it: an edit, a repeated question or a branch."""
        session = self.idle.pop(number % len(self.idle))
        kept = session.history[: max(3, len(session.history) - (dropped if dropped > 4 else 0))]
        session.prompt = (*kept, *question[:4])
        session.is_stopped, session.text = False, []
        session.ticket = self.pool.enqueue(session.prompt)
        self.waiting.append(session)
        self.move()

    @precondition(lambda self: self.running)
    @rule(number=st.integers(0, 1), num_events=st.integers(1, 9))
    def run(self, number: int, num_events: int) -> None:
        session = self.running[number % len(self.running)]
        assert session.events is not None
        for _, event in zip(range(num_events), session.events, strict=False):
            self.check_event(session, event)
            if isinstance(event, AnswerEnd):
                self.end(session, event)
                break

    def check_event(self, session: Session, event: AnswerEvent) -> None:
        if isinstance(event, Prefilled):
            assert event.cached_tokens + event.prefilled_tokens == event.prompt_tokens == len(expand(session.prompt))
        elif isinstance(event, AnswerDelta):
            session.text.append(event.text)

    def end(self, session: Session, event: AnswerEnd) -> None:
        cold = answer_cold(session.prompt)
        assert event.ids == (cold[: len(event.ids)] if session.is_stopped else cold)
        assert "".join(session.text) == event.text == CharacterCodec().text(event.ids)
        session.history = (*session.prompt, *event.ids, EOS)
        self.free(session)
        if len(session.history) < MAX_PROMPT:
            self.idle.append(session)

    def free(self, session: Session) -> None:
        assert session.ticket is not None
        assert session.events is not None
        self.running.remove(session)
        with session.ticket, closing(session.events):
            pass
        self.move()

    @precondition(lambda self: self.running)
    @rule(number=st.integers(0, 1))
    def stop(self, number: int) -> None:
        self.running[number % len(self.running)].is_stopped = True

    @precondition(lambda self: self.running)
    @rule(number=st.integers(0, 1))
    def leave_while_running(self, number: int) -> None:
        self.free(self.running[number % len(self.running)])

    @precondition(lambda self: self.waiting)
    @rule(number=st.integers(0, 9))
    def leave_the_queue(self, number: int) -> None:
        session = self.waiting[number % len(self.waiting)]
        self.waiting.remove(session)
        assert session.ticket is not None
        session.ticket.close()

    @invariant()
    def is_sound(self) -> None:
        tickets = [session.ticket for session in self.waiting]
        assert [ticket.position for ticket in tickets if ticket] == list(range(len(tickets)))
        assert all(ticket.worker is None for ticket in tickets if ticket)
        for worker in self.pool.workers:
            check_store(worker.store)
            for entry in worker.store._entries:
                assert entry.cache.tokens[: entry.committed] == expand(entry.key)
        status = self.pool.status
        assert status.num_queued == len(self.waiting)
        assert sum(not worker.is_idle for worker in status.workers) == len(self.running)

    def teardown(self) -> None:
        """All clients leave: nothing stays leased or locked."""
        while self.waiting:
            self.leave_the_queue(0)
        while self.running:
            self.leave_while_running(0)
        self.is_sound()
        assert all(worker.store.stats.num_locked == 0 for worker in self.pool.workers)


def test_random_sessions_leave_no_trace_and_get_the_answers_of_a_cold_worker() -> None:
    run_state_machine_as_test(SessionMachine, settings=settings(max_examples=60, stateful_step_count=60, deadline=None))
