"""Workers in Ray actors. The queue, the leases and the routing stay in this process; model and caches are on a node.

An actor takes one step at a time: it runs passes up to the next event of an answer and returns that event. So a stop
takes effect at the same token as with a worker of this process. Only the client with the lease calls an actor, so a
copy of the keys of its store, taken at the end of each answer, is exact until the next: routing never waits for a node.
"""

import socket
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from torch import Tensor

from stepscope.engine.chat.answering import AnswerEvent
from stepscope.engine.chat.prefix_store import StoreStats, count_common
from stepscope.engine.chat.prompts import ContextPiece, count_tokens
from stepscope.engine.chat.worker import ChatPrompt, WorkerOptions
from stepscope.engine.errors import EngineError

START_TIMEOUT_S: Final = 300.0
"""Time limit for loading the model on a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSnapshot:
    """The store of an actor while no answer runs, as routing sees it; by default that of no actor."""

    keys: tuple[tuple[str, tuple[ContextPiece, ...]], ...] = ()
    """Owner and pieces of each cache."""
    stats: StoreStats = field(default_factory=StoreStats)

    def find_pieces(self, prompt: Sequence[ContextPiece], *, owner: str = "") -> int:
        """Return the number of pieces of a prompt of an owner that could be reused now."""
        limit = tuple(prompt[:-1])
        return max((count_common(key, limit) for of, key in self.keys if of == owner), default=0)

    def find(self, prompt: Sequence[ContextPiece], *, owner: str = "") -> int:
        """Return the number of prompt tokens of an owner that could be reused now."""
        return count_tokens(prompt[: self.find_pieces(prompt, owner=owner)])


class ChatActor:
    """A worker on a node. It is a plain class, from which Ray makes an actor."""

    def __init__(self, options: WorkerOptions, device: str) -> None:
        self._worker = options.make_worker(options.load(device))
        self._events: Generator[AnswerEvent] | None = None
        self._is_stopped = False

    def describe(self) -> tuple[str, str]:
        """Return the name of the host, and the digest of the checkpoint, once it is loaded."""
        return socket.gethostname(), self._worker.checkpoint.digest

    def begin(
        self, pieces: tuple[ContextPiece, ...], features: dict[str, Tensor], owner: str, max_new_tokens: int
    ) -> None:
        """Begin an answer; ``features`` has the pictures that the store lacks."""
        self.end()
        self._is_stopped = False
        prompt = ChatPrompt(pieces=pieces, features=features, owner=owner)
        self._events = self._worker.answer(prompt, max_new_tokens=max_new_tokens, is_stopped=lambda: self._is_stopped)

    def step(self, is_stopped: bool) -> AnswerEvent | None:
        """Return the next event of the answer; None after the last."""
        self._is_stopped = is_stopped
        return next(self._events, None) if self._events is not None else None

    def end(self) -> StoreSnapshot:
        """End the answer, and return the store."""
        if self._events is not None:
            self._events.close()
            self._events = None
        return StoreSnapshot(keys=self._worker.store.keys, stats=self._worker.store.stats)


class RayChatWorker:
    """A worker of a pool whose model is in a Ray actor. A lost actor is replaced before the next answer.

    ``ray`` is the module, which has joined a cluster. The node's checkpoint must have the ``digest`` of the page's; the
    ``number`` counts from 1.

    Raises:
        EngineError: The actor did not start, or its node has a different checkpoint.
    """

    def __init__(self, ray: Any, options: WorkerOptions, *, device: str, digest: str, number: int) -> None:
        self._ray, self._options, self._device, self._digest, self._number = ray, options, device, digest, number
        self._actor: Any = None
        self.name, self.store = f"ray {number}", StoreSnapshot()
        self._start()

    def answer(
        self, prompt: ChatPrompt, *, max_new_tokens: int = 128, is_stopped: Callable[[], bool] = lambda: False
    ) -> Generator[AnswerEvent]:
        """Yield the events of one answer. Closing the generator restores the caches as they were.

        Raises:
            EngineError: The node was lost; also the errors of ``ChatWorker.answer``.
        """
        if self._actor is None:
            self._start()
        missing = prompt.pieces[self.store.find_pieces(prompt.pieces, owner=prompt.owner) :]
        # a row of a batch of frames is cloned, since it would be sent with the whole batch
        features = {piece: prompt.features[piece].cpu().clone() for piece in missing if isinstance(piece, str)}
        try:
            self._call(self._actor.begin.remote(prompt.pieces, features, prompt.owner, max_new_tokens))
            while (event := self._call(self._actor.step.remote(is_stopped()))) is not None:
                yield event
        finally:
            if self._actor is not None:
                self.store = self._call(self._actor.end.remote())

    def close(self) -> None:
        """End the actor."""
        if self._actor is not None:
            self._ray.kill(self._actor)
            self._actor = None

    def _start(self) -> None:
        gpus = {"num_gpus": 1} if self._device == "cuda" else {}
        actor = self._ray.remote(ChatActor).options(num_cpus=1, scheduling_strategy="SPREAD", **gpus)
        self._actor = actor.remote(self._options, self._device)
        try:
            host, digest = self._call(self._actor.describe.remote(), timeout_s=START_TIMEOUT_S)
            if digest != self._digest:
                raise EngineError(f"{host} has a different checkpoint at {self._options.checkpoint}; copy it there")
        except EngineError:
            self.close()
            raise
        self.name = f"ray {self._number} on {host}"
        self.store = StoreSnapshot()

    def _call(self, reference: Any, *, timeout_s: float | None = None) -> Any:
        """Return the result of a call. Raises ``EngineError`` if the actor was lost, and the errors of the call."""
        try:
            return self._ray.get(reference, timeout=timeout_s)
        except self._ray.exceptions.GetTimeoutError as error:
            raise EngineError(f"the Ray cluster had no room for a worker within {START_TIMEOUT_S:.0f} s") from error
        except self._ray.exceptions.RayTaskError as error:
            raise _find_cause(error) from error
        except self._ray.exceptions.RayError as error:
            self._actor, self.store = None, StoreSnapshot()  # Ray has ended the actor
            raise EngineError("the worker's node was lost; ask again, and another one answers") from error


def _find_cause(error: Any) -> Exception:
    """Return the cause of an actor's error: engine errors and ``ValueError`` as they are, others as ``EngineError``."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, EngineError | ValueError):
        return cause
    return EngineError(f"the model failed: {cause if cause is not None else error}")
