"""A Ray cluster whose actors run in threads of this process instead of on nodes."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import SimpleNamespace
from typing import Any


class ThreadedActor:
    """A handle of an actor: each call is a future, at most two at once."""

    def __init__(self, actor: Any) -> None:
        self._actor, self._threads = actor, ThreadPoolExecutor(2)

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *values: self._threads.submit(getattr(self._actor, name), *values))

    def stop(self) -> None:
        self._threads.shutdown(wait=False)


class ThreadedRay:
    """The functions of Ray that the back end calls, for a cluster of cores in this process."""

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self, *, num_cpus: int) -> None:
        self._resources = {"CPU": num_cpus}

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, int]:
        return self._resources

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Resources": self._resources}]

    def remote(self, kind: Callable[..., Any]) -> Any:
        make = SimpleNamespace(remote=lambda *values: ThreadedActor(kind(*values)))
        return SimpleNamespace(options=lambda **_: make)

    def wait(self, calls: Sequence[Future[Any]], *, timeout: float) -> tuple[list[Future[Any]], list[Future[Any]]]:
        done, waiting = wait(calls, timeout=timeout, return_when=FIRST_COMPLETED)
        return list(done), list(waiting)

    def get(self, call: Future[Any]) -> Any:
        return call.result()

    def kill(self, actor: ThreadedActor) -> None:
        actor.stop()
