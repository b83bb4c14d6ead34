"""A worker that answers questions with the model of one device, and keeps the caches of its prompts."""

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from stepscope.engine.chat.answering import AnswerEvent, Forward, answer_prompt
from stepscope.engine.chat.prefix_store import Lease, PrefixStore
from stepscope.engine.chat.prompts import ContextPiece, count_tokens
from stepscope.engine.config import Quantization, StreamConfig
from stepscope.engine.control.requests import FrameTimesRequest
from stepscope.engine.errors import ContextError
from stepscope.engine.inference.readout import ReadoutSpec
from stepscope.engine.inference.runner import Runner
from stepscope.engine.loading import load_as
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.model.vision_language import VisionLanguageModel

DEFAULT_BUDGET_BYTES = 2**30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChatPrompt:
    """A prompt and the pictures in it."""

    pieces: tuple[ContextPiece, ...]
    features: Mapping[str, Tensor]
    owner: str = ""
    """Whose prompt it is: it reuses the caches of this owner alone."""


def name_picture(model: VisionLanguageModel, features: Tensor) -> str:
    """Return the name of an embedding: its tokens, and 32 hexadecimal digits of its shape, dtype and values."""
    values = features.detach().cpu().float().contiguous()
    kind = f"{tuple(features.shape)} {features.dtype}".encode()
    digest = hashlib.sha256(kind + values.numpy().tobytes()).hexdigest()
    return f"{model.count_tokens(features)}-{digest[:32]}"


class ChatWorker:
    """Answers one question at a time, greedily.

    ``budget_bytes`` is the memory of the kept caches on the device, ``host_budget_bytes`` that of caches that were
    moved to the host, unused for a model on the CPU. Its ``name`` in reports is by default that of its device.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
        host_budget_bytes: int = 0,
        name: str = "",
    ) -> None:
        self.checkpoint = checkpoint
        model = checkpoint.model
        self.name = name or str(model.device)
        self.store: PrefixStore[KVCache] = PrefixStore(
            lambda: KVCache(model.num_layers),
            budget_bytes=budget_bytes,
            host_budget_bytes=host_budget_bytes,
            device=str(model.device),
        )

    def answer(
        self, prompt: ChatPrompt, *, max_new_tokens: int = 128, is_stopped: Callable[[], bool] = lambda: False
    ) -> Generator[AnswerEvent]:
        """Yield the events of one answer. Closing the generator restores the caches as they were.

        Raises:
            ContextError: A prompt that leaves no room for the answer.
            FeatureError: Pictures that were encoded with a different checkpoint.
        """
        model, codec = self.checkpoint.model, self.checkpoint.prompt
        room = model.max_context - count_tokens(prompt.pieces)
        if room < 1:
            raise ContextError(
                f"the conversation takes {model.max_context - room} tokens, but the model has positions for "
                f"{model.max_context}; begin a new one, or ask at an earlier time"
            )
        yield from answer_prompt(
            prompt.pieces,
            store=self.store,
            owner=prompt.owner,
            codec=codec,
            open_cache=lambda lease: self._open_cache(prompt, lease),
            max_new_tokens=min(max_new_tokens, room),
            is_stopped=is_stopped,
        )

    def _open_cache(self, prompt: ChatPrompt, lease: Lease[KVCache]) -> Forward:
        """Return the passes that continue the leased cache, with the pictures that it lacks."""
        new = [prompt.features[piece] for piece in prompt.pieces[lease.num_pieces :] if isinstance(piece, str)]
        frames = [FrameFeatures(index=index, time_s=0.0, features=features) for index, features in enumerate(new)]
        runner = Runner(
            self.checkpoint.model,
            StreamConfig(),
            features=frames,
            readout_spec=ReadoutSpec(suppress_tokens=self.checkpoint.prompt.suppress_tokens),
            cache=lease.cache,
        )
        runner.fetch_frame_times(FrameTimesRequest(first=0, max_frames=len(frames)))
        return runner.forward


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The checkpoint of workers, and the memory of each for kept caches."""

    checkpoint: str
    heads: str | None = None
    allow_untrained_heads: bool = False
    quantize: Quantization = "none"
    frame_pixels: int | None = None
    dtype: str = "auto"
    budget_bytes: int = DEFAULT_BUDGET_BYTES
    host_budget_bytes: int = 0
    """Used only beside a GPU."""

    def load(self, device: str) -> Checkpoint:
        """Load the checkpoint. Raises the errors of ``load_model``."""
        return load_as(self, device=device, graphs="off")

    def make_worker(self, checkpoint: Checkpoint, *, name: str = "") -> ChatWorker:
        """Return a worker with a loaded checkpoint."""
        host_bytes = 0 if checkpoint.model.device.type == "cpu" else self.host_budget_bytes
        return ChatWorker(checkpoint, budget_bytes=self.budget_bytes, host_budget_bytes=host_bytes, name=name)


def name_frames(
    model: VisionLanguageModel, frames: Sequence[FrameFeatures]
) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """Return the name of the picture of each frame, and the embeddings by name."""
    names = tuple(name_picture(model, frame.features) for frame in frames)
    return names, {name: frame.features for name, frame in zip(names, frames, strict=True)}
