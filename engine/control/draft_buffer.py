"""What a stream has fed beyond the end of its context: guesses that wait to be confirmed, with what was read at them.

The control feeds piece by piece, as the definition says. A piece that a pass has already fed, on a guess, costs
nothing more; at the first that was guessed wrong all that follows is cropped by the next pass. So look-ahead (the guess
that frames stay silent) and drafts (the guess what is written) are one thing.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from engine.control.policies import Decision
from engine.control.requests import Answer, Image, Pass, PassCounts, Piece, Reading, Request
from engine.records import FrameOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """One piece to feed, and what to read at its last token."""

    piece: Piece
    """A token id or an image."""
    decides: bool = False
    """Whether the decisions are read."""
    picks: bool = False
    """Whether the next token is picked."""
    is_draft: bool = False
    """Whether it stands for a token that the model will pick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read at one piece."""

    fed: Fed
    """The piece."""
    decision: Decision | None
    """The decisions, if they were read."""
    token: int | None
    """The token picked, if one was."""


@dataclass(slots=True, kw_only=True)
class Trace:
    """What a run fed and read: a list for each context that it began."""

    contexts: list[list[Read]] = field(default_factory=list)
    """What was read at each piece of each context, in order."""
    cached: int = 0
    """Tokens of the last context that the run's cache holds."""
    prompts: list[int] = field(default_factory=list)
    """Tokens of the prompt that each context begins with."""
    begins: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Per frame of a traced run, its context and the number of pieces there before its own."""


class Ahead:
    """Feeds one stream's pieces, with guesses behind them.

    Args:
        tokens_per_frame: Tokens of an image.
        past: What an earlier run of the same frames fed and read. It is what this one reads, up to the first piece that
            differs.
    """

    def __init__(self, tokens_per_frame: int, *, past: Trace | None = None) -> None:
        self.trace = Trace()
        self.counts = PassCounts()
        self.reach = 0
        """Length of the context with all guesses that are laid out, in tokens."""
        self._tokens_per_frame = tokens_per_frame
        self._waiting: deque[Read] = deque()
        self._past, self._num_contexts = past, 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def begin(self, *, is_traced: bool, prompt_tokens: int) -> None:
        """Begin a new context with a prompt. The earlier ones are forgotten, unless the run is traced."""
        number = self._num_contexts
        self._num_contexts += 1
        self._waiting.clear()
        self.trace.cached = 0
        if not is_traced:
            self.trace.contexts.clear()
            self.trace.prompts.clear()
        self.trace.contexts.append([])
        self.trace.prompts.append(prompt_tokens)
        if self._past and number < len(self._past.contexts):
            self._waiting.extend(self._past.contexts[number])
            self.trace.cached = self._past.cached if number == len(self._past.contexts) - 1 else 0

    def enter(self, frame: int) -> None:
        """Note that what is confirmed from here on is fed at a frame."""
        self.trace.begins[frame] = (len(self.trace.contexts) - 1, len(self.trace.contexts[-1]))

    def size(self, pieces: Iterable[Piece]) -> int:
        """Count the tokens of pieces."""
        return sum(self._tokens_per_frame if isinstance(piece, Image) else 1 for piece in pieces)

    def holds(self, pieces: Sequence[Fed]) -> bool:
        """Whether these very pieces were guessed, and read at their end."""
        front = list(islice(self._waiting, len(pieces)))
        if [read.fed.piece for read in front] != [fed.piece for fed in pieces]:
            return False
        last, wanted = front[-1].fed, pieces[-1]
        return last.decides >= wanted.decides and last.picks >= wanted.picks

    def take(self, count: int) -> Read:
        """Confirm the next pieces; return what was read at the last."""
        taken = [self._waiting.popleft() for _ in range(count)]
        if self._past is None:
            self.counts += PassCounts(accepted=sum(read.fed.is_draft for read in taken))
        self.trace.contexts[-1] += taken
        return taken[-1]

    def feed(
        self, pieces: Iterable[Fed], guesses: Iterator[Fed], *, keep: int, frame: int
    ) -> Generator[Request | FrameOutput, Answer, None]:
        """Ask for one pass of pieces and guesses. ``guesses`` may look at ``reach`` as they go."""
        self._waiting.clear()
        self._past = None  # from here on this run goes its own way
        again: list[Fed] = []
        if self.trace.cached < keep:  # what an earlier run read is not in the cache: it is fed again, at once
            again, keep = [Fed(piece=read.fed.piece) for read in self.trace.contexts[-1]], 0
        self.reach = keep
        fed: list[Fed] = []
        decide_at, pick_at = list[int](), list[int]()
        last_frame = frame
        for source in (again, pieces, guesses):
            for item in source:
                self.reach += self.size((item.piece,))
                fed.append(item)
                if item.decides:
                    decide_at.append(self.reach - keep - 1)
                if item.picks:
                    pick_at.append(self.reach - keep - 1)
                if isinstance(item.piece, Image):
                    last_frame = item.piece.frame_index
        reading = yield Pass(
            keep=keep,
            feed=tuple(item.piece for item in fed),
            frames=range(frame, last_frame + 1),
            decide_at=tuple(decide_at),
            pick_at=tuple(pick_at),
        )
        assert isinstance(reading, Reading)
        decisions, tokens = iter(reading.decisions), iter(reading.tokens)
        self.trace.cached = self.reach
        for item in fed[len(again) :]:
            decision = next(decisions) if item.decides else None
            self._waiting.append(Read(fed=item, decision=decision, token=next(tokens) if item.picks else None))
        self.counts += PassCounts(passes=1, tokens=self.reach - keep, drafted=sum(item.is_draft for item in fed))
