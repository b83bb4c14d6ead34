"""A stand-in for the package ``spaces`` on ZeroGPU: each call runs in a forked process, and only pickles cross over."""

import multiprocessing
import os
import pickle
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from inspect import isgeneratorfunction
from multiprocessing.connection import Connection
from typing import Any

import gradio as gr

_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class _Raised:
    name: str


@dataclass(frozen=True)
class _End:
    pass


@dataclass(kw_only=True)
class FakeSpaces:
    """The module ``spaces``, and the calls that it served."""

    durations: list[float] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    refusal: gr.Error | None = None
    """Raised instead of a call."""

    def GPU(self, task: Callable[..., Any] | None = None, *, duration: Callable[..., float]) -> Any:  # noqa: N802
        """Decorate a function or a generator function."""
        if task is None:
            return partial(self.GPU, duration=duration)

        def generate(*args: Any) -> Generator[Any]:
            yield from self._call(task, args, duration)

        def answer(*args: Any) -> Any:
            (result,) = self._call(task, args, duration)
            return result

        return generate if isgeneratorfunction(task) else answer

    def _call(self, task: Callable[..., Any], args: tuple[Any, ...], duration: Callable[..., float]) -> Iterator[Any]:
        self.durations.append(duration(*args))
        if self.refusal is not None:
            raise self.refusal
        receiver, sender = _FORK.Pipe(duplex=False)
        process = _FORK.Process(target=_work, args=(task, pickle.dumps(args), sender))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forks of a program with threads
            process.start()
        sender.close()
        try:
            self.pids.append(receiver.recv())
            while not isinstance(item := receiver.recv(), _End):
                if isinstance(item, _Raised):
                    raise gr.Error(item.name)
                yield item
        finally:
            process.kill()
            process.join()
            receiver.close()


def _work(task: Callable[..., Any], pickled: bytes, sender: Connection) -> None:
    sender.send(os.getpid())
    try:
        result = task(*pickle.loads(pickled))
        for item in result if isinstance(result, Generator) else (result,):
            sender.send(item)
    except Exception as error:  # as ``spaces`` does
        sender.send(_Raised(type(error).__name__))
    sender.send(_End())
