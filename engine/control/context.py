"""The context of a stream: its tokens and images, and the part that its strategy drops when it is full.

A context is shortened between two frames. The evicting strategies keep a head and a tail of the KV cache. These keys
and values stay as they were computed, also from tokens that are dropped now. All others begin an empty context.

Worked example of ``sink-window`` with a prompt of 10 tokens, one token per frame and ``kept_tokens`` = 20. The context
is full with the frames 0 to 89, at 100 tokens. The prompt and the tokens 80 to 99 stay, at the positions 0 to 29. The
frames 0 to 69 are forgotten. The next frame is token 30.
"""

from collections.abc import Generator, Mapping
from typing import Final

from stepscope.engine.config import ContextStrategy, StreamConfig
from stepscope.engine.control.draft_buffer import ContextStart, DraftBuffer
from stepscope.engine.control.prompt_codec import PromptCodec
from stepscope.engine.control.requests import Answer, EvictRequest, Request
from stepscope.engine.control.task import Task
from stepscope.engine.errors import ContextError
from stepscope.engine.records import Forgotten, FrameOutput

EVICTING: Final[frozenset[ContextStrategy]] = frozenset({"drop-middle", "sink-window"})
"""The strategies that keep a part of the KV cache."""


def keeps_head(num_tokens: int, config: StreamConfig, *, tokens_per_frame: int) -> bool:
    """Return whether ``drop-middle`` keeps the ``num_tokens`` up to the end of the first frame with a user turn.

    Without room for the last tokens and an image beside them, it keeps the system prompt only.
    """
    num_kept = num_tokens + config.kept_tokens + tokens_per_frame
    return config.context_strategy == "drop-middle" and num_kept < config.shorten_at


class StreamContext:
    """The tokens of a stream's present context."""

    def __init__(
        self, task: Task, *, config: StreamConfig, codec: PromptCodec, tokens_per_frame: int, draft_buffer: DraftBuffer
    ) -> None:
        self.num_fed = 0
        self.pending_ids: list[int] = []
        """Tokens of the context that wait for the next pass, such as the ``<eos>`` of the last turn."""
        self._task, self._config, self._codec = task, config, codec
        self._tokens_per_frame, self._draft_buffer = tokens_per_frame, draft_buffer
        self._head = 0
        """First tokens that an eviction keeps."""
        self._has_user_turn = False
        self._images: list[tuple[int, int]] = []
        """The frames whose whole image is in the context, each with the position of its first token."""

    @property
    def num_tokens(self) -> int:
        """Length of the context in tokens, pending tokens included."""
        return self.num_fed + len(self.pending_ids)

    @property
    def is_full(self) -> bool:
        """Whether the strategy shortens the context before the next frame."""
        return self._config.context_strategy != "none" and self.num_tokens >= self._config.shorten_at

    def add_image(self, frame: int) -> None:
        """Record that the image of a frame was fed last."""
        self._images.append((frame, self.num_fed - self._tokens_per_frame))

    def end_frame(self, *, has_user_turn: bool) -> None:
        """Record the end of a frame, also if tokens of it wait for the next pass."""
        if has_user_turn and not self._has_user_turn:
            self._has_user_turn = True
            if keeps_head(self.num_tokens, self._config, tokens_per_frame=self._tokens_per_frame):
                self._head = self.num_tokens

    def begin(
        self, state: Mapping[str, str], *, summary: str | None = None, forgotten: Forgotten | None = None
    ) -> None:
        """Begin a new context: the system prompt is pending. Raises ``ContextError`` if it is too long."""
        prompt = self._codec.schema(
            goal=self._task.goal,
            steps=self._task.steps,
            state=state,
            summary=summary,
            instructions=self._config.system_prompt,
        )
        room = self._config.shorten_at - self._tokens_per_frame - self._count_reserved(summary) - 1
        if len(prompt) > room:
            raise ContextError(
                f"the schema prompt takes {len(prompt)} tokens, but the context has room for {room}; shorten goal and "
                "steps or raise max_seq_len"
            )
        self._begin_empty(ContextStart(prompt_tokens=len(prompt), forgotten=forgotten))
        self.pending_ids, self._head = list(prompt), len(prompt)

    def restart(self, task: Task, state: Mapping[str, str]) -> Forgotten:
        """Begin a new context with the prompt of a task, and return all of the present one as forgotten."""
        self._task = task
        forgotten = self._describe(range(self.num_tokens))
        self.begin(state, forgotten=forgotten)
        return forgotten

    def shorten(
        self, state: Mapping[str, str], *, limit: int, summary: str | None = None
    ) -> Generator[Request | FrameOutput, Answer, Forgotten]:
        """Shorten the context by its strategy, and return the part that is forgotten.

        Afterwards it has at most ``limit`` tokens. ``state`` is for a new system prompt; ``summary`` is a text about
        the present context, for a strategy that asks for one.
        """
        strategy = self._config.context_strategy
        if strategy in EVICTING:
            return (yield from self._evict(limit, renumbers=strategy == "sink-window"))
        if strategy == "drop-all":
            forgotten = self._describe(range(self.num_fed))
            self._begin_empty(ContextStart(forgotten=forgotten))
            return forgotten
        forgotten = self._describe(range(self.num_tokens), summary=summary)
        self.begin(state, summary=summary, forgotten=forgotten)
        return forgotten

    def _count_reserved(self, summary: str | None) -> int:
        """Return the tokens that a context has beside its prompt and an image right after it was shortened."""
        if self._config.context_strategy in EVICTING:
            return self._config.kept_tokens
        is_first = self._config.context_strategy == "summarize-and-drop" and summary is None
        return self._config.max_summary_tokens if is_first else 0

    def _begin_empty(self, start: ContextStart) -> None:
        self.num_fed, self._head = 0, 0
        self._images.clear()
        self._draft_buffer.start_context(start)

    def _evict(self, limit: int, *, renumbers: bool) -> Generator[Request | FrameOutput, Answer, Forgotten]:
        head = min(self._head, self.num_fed)  # its last tokens may be pending
        most = max(0, limit - head - len(self.pending_ids))
        tail = min(self._config.kept_tokens, most, self.num_fed - head)
        eviction = EvictRequest(num_cached=self.num_fed, head=head, tail=tail, renumbers=renumbers)
        dropped = range(head, self.num_fed - tail)
        forgotten = self._describe(dropped)
        kept = [(frame, first) for frame, first in self._images if not self._overlaps(first, dropped)]
        self._images = [(frame, first - len(dropped) * (first >= dropped.stop)) for frame, first in kept]
        self.num_fed = eviction.num_kept
        yield from self._draft_buffer.cut_context(eviction, forgotten)
        return forgotten

    def _overlaps(self, first: int, dropped: range) -> bool:
        return first < dropped.stop and first + self._tokens_per_frame > dropped.start

    def _describe(self, dropped: range, *, summary: str | None = None) -> Forgotten:
        frames = [frame for frame, first in self._images if self._overlaps(first, dropped)]
        return Forgotten(
            tokens=len(dropped),
            first_frame=frames[0] if frames else None,
            last_frame=frames[-1] if frames else None,
            summary=summary,
        )
