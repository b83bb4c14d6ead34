"""A sentence encoder in a process of its own, forked from the server that has imported the libraries of the workers."""

import threading
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.matching.text_encoder import TextEncoder, import_encoder
from eval.runs.pools.preload import CONTEXT, SHUTDOWN_TIMEOUT_S, describe_exit, follow_parent, start_server


class EncoderProcess(AbstractContextManager["EncoderProcess"]):
    """A process that loads one sentence encoder and embeds texts with it; it ends with the ``with`` block.

    Thread-safe. If the process dies, calls raise ``ValueError`` with the reason.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._is_closed = False

    def load(self, name: str) -> TextEncoder:
        """Start the process and load an encoder. Raises as ``eval.matching.sentence_encoders.load_encoder``."""
        start_server()
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=_serve, args=(theirs, name), name="stepscope text encoder", daemon=True)
        process.start()
        theirs.close()
        self._process, self._connection = process, ours
        if self._is_closed:
            process.terminate()
        return TextEncoder(encode=_RemoteEncode(self), **self._receive())

    def call(self, method: str, argument: list[Any]) -> Any:
        """Call a method of the encoder's function in the process."""
        with self._lock:
            assert self._connection is not None
            with suppress(OSError):  # the process is dead; the next line finds the reason
                self._connection.send((method, argument))
            return self._receive()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process; a call that waits for it raises ``ValueError``."""
        self._is_closed = True
        if self._process is not None:
            self._process.terminate()
            self._process.join(SHUTDOWN_TIMEOUT_S)
            if self._process.exitcode is None:
                self._process.kill()
                self._process.join()

    def _receive(self) -> Any:
        assert self._connection is not None
        assert self._process is not None
        try:
            answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise ValueError(f"the process of the text encoder ended{self._explain_exit()}") from error
        if isinstance(answer, ValueError):
            raise answer
        return answer

    def _explain_exit(self) -> str:
        if self._is_closed or self._process is None:
            return ""
        self._process.join()
        return f": {describe_exit(self._process.exitcode)}; score the run with stepscope score"


class _RemoteEncode:
    """The function of an encoder, ``Encode`` and ``ComparesPairs``, in its process."""

    def __init__(self, process: EncoderProcess) -> None:
        self._process = process

    def __call__(self, texts: list[str]) -> NDArray[Any]:
        return np.asarray(self._process.call("__call__", texts))

    def compare_pairs(self, pairs: list[tuple[str, str]]) -> NDArray[np.float32]:
        return np.asarray(self._process.call("compare_pairs", pairs))


def _serve(connection: Connection, name: str) -> None:
    """Load an encoder, send its settings, and answer calls until the parent closes the pipe; a process's target."""
    follow_parent()
    with suppress(EOFError, ConnectionResetError, BrokenPipeError):
        try:
            encoder = import_encoder(name)
        except ValueError as error:
            connection.send(error)
            return
        connection.send({"name": encoder.name, "version": encoder.version, "digest": encoder.digest})
        while True:
            method, argument = connection.recv()
            connection.send(getattr(encoder.encode, method)(argument))
