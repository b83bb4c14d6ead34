"""The prompts of the waiting question of a window: after the displayed run up to the playhead, or without a video."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

from torch import Tensor

from stepscope.app.chat.window import ChatWindow
from stepscope.app.core.pictures import MAX_PICTURE_BYTES, check_num_pictures, check_pictures, encode_pictures
from stepscope.app.core.plan import StreamPlan, read_features
from stepscope.app.core.run import Run
from stepscope.app.formatting import format_clock
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun
from stepscope.engine.chat.prompts import render_conversation, render_run
from stepscope.engine.chat.worker import ChatPrompt, name_frames
from stepscope.engine.io.files import open_file, strip_text
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.hub.prompt import HubPrompt
from stepscope.engine.model.prompt import Prompt
from stepscope.engine.plurals import format_count

BUDGET_BYTES = 2**28
FRAMES_PER_STEP = 16
"""Frames per step of ``encode_clip``, which can be cancelled between two steps."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedFrames:
    """The frames of a video, encoded."""

    names: tuple[str, ...]
    features: Mapping[str, Tensor]

    @property
    def num_bytes(self) -> int:
        """Memory of the embeddings, in bytes."""
        return sum(features.nbytes for features in self.features.values())


class EncodedClips:
    """Keeps encoded videos up to a budget, and drops the least recently used ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, EncodedFrames] = OrderedDict()
        self._lock = Lock()
        self.threads = ThreadPoolExecutor(1, thread_name_prefix="chat-frames")
        """The thread that encodes, so that two windows never encode one video twice."""

    def encode_clip(self, context: AppContext, live: LiveRun, run: Run) -> Generator[str, None, EncodedFrames]:
        """Return the frames of a run, from its recording, from memory, or by encoding the video.

        Yields a progress message after every ``FRAMES_PER_STEP`` frames.

        Raises:
            EngineError: A video that cannot be read.
            ValueError: A video with fewer frames than the run.
        """
        clip, num_frames = run.clip, len(run.outputs)
        key = (clip.video_id, clip.path, clip.start_s, run.config.fps)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and len(kept.names) >= num_frames:
                self._kept.move_to_end(key)
                return kept
        if live.recording is not None and tuple(live.recording.outputs) == run.outputs:
            frames: list[FrameFeatures] = list(live.recording.features)
        else:
            frames = []
            plan = StreamPlan(clip=clip, task=run.task, config=run.config, num_frames=num_frames)
            with closing(read_features(context.checkpoint, plan)) as source:
                for frame in source:
                    frames.append(frame)
                    if len(frames) % FRAMES_PER_STEP == 0:
                        yield f"Encoding the video: {len(frames)} of {format_count(num_frames, 'frame')}."
        if len(frames) < num_frames:
            raise ValueError(f"the video has only {format_count(len(frames), 'frame')} now; the run has {num_frames}")
        names, features = name_frames(context.checkpoint.model, frames)
        encoded = EncodedFrames(names=names, features=features)
        self._keep(key, encoded)
        return encoded

    def _keep(self, key: object, encoded: EncodedFrames) -> None:
        with self._lock:
            self._kept[key] = encoded
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and sum(one.num_bytes for one in self._kept.values()) > BUDGET_BYTES:
                self._kept.popitem(last=False)


FreeCodec = Prompt | HubPrompt
"""The prompt codecs of models that take any system prompt."""
PromptSteps = Generator[str | ChatPrompt]
"""Yields progress messages, then the prompt."""
DEFAULT_SYSTEM: Final = "You are a helpful assistant."
MAX_SYSTEM_CHARS: Final = 20_000
_SAME_TIME_S: Final = 1e-6
NO_FREE_CONVERSATION: Final = "models of this family take no free conversation; load a SmolVLM2 or an image-text model"


def run_prompt(context: AppContext, clips: EncodedClips, window: ChatWindow, live: LiveRun | None) -> PromptSteps:
    """Yield the prompt after the displayed run up to the time of the question.

    Raises:
        EngineError: A video that cannot be read.
        ValueError: No run, one that the model of this page cannot continue, or one that ends before the question.
    """
    run = _run_of(context, live)
    assert live is not None
    frame = _find_frame(run, window.time_s or 0.0)
    encoded = yield from clips.encode_clip(context, live, run)
    if window.new is not None:
        pictures = (encoded.names[frame],)
        window.branches = window.branches.ask(window.new.text, time_s=window.new.time_s, pictures=pictures)
        window.new = None
    outputs, codec = run.outputs[: frame + 1], context.checkpoint.prompt
    base = render_run(codec, run.task, outputs, config=run.config, pictures=encoded.names)
    pieces = render_conversation(codec, window.branches.shown.conversation, base=base)
    yield ChatPrompt(pieces=pieces, features=encoded.features)


def _run_of(context: AppContext, live: LiveRun | None) -> Run:
    run = live.run if live is not None else None
    if run is None or not run.outputs:
        raise ValueError("there is no run to ask about; press Run and wait for its first frames")
    if run.model_digest != context.checkpoint.digest:
        raise ValueError("this run was made with a different checkpoint, which cannot be asked here")
    if run.branch is not None:
        raise ValueError("this run is a branch: ask in its tab What if, beside the video")
    return run


def _find_frame(run: Run, time_s: float) -> int:
    if time_s >= run.reached_s + 1 / run.config.fps:
        asked, reached = (format_clock(time, digits=1) for time in (time_s, run.reached_s))
        end = "this run ends at" if run.is_finished else "this run has only reached"
        advice = "ask at an earlier time" if run.is_finished else "wait, then ask again"
        raise ValueError(f"the question is about {asked}, but {end} {reached}; {advice}")
    return max(0, bisect_right(run.outputs, time_s + _SAME_TIME_S, key=lambda output: output.time_s) - 1)


def free_codec(checkpoint: Checkpoint) -> FreeCodec:
    """Return the prompt codec of a model that takes any system prompt. Raises ``ValueError`` for any other model."""
    if not isinstance(checkpoint.prompt, FreeCodec):
        raise ValueError(NO_FREE_CONVERSATION)
    return checkpoint.prompt


def free_prompt(context: AppContext, window: ChatWindow, system: str | None) -> PromptSteps:
    """Yield the prompt of a conversation without a video.

    Raises:
        ValueError: An unsuitable model, a system prompt that is too long, or an unreadable picture.
    """
    codec = free_codec(context.checkpoint)
    text = strip_text(system or "") or DEFAULT_SYSTEM
    if len(text) > MAX_SYSTEM_CHARS:
        raise ValueError(f"the system prompt has more than {MAX_SYSTEM_CHARS} characters; shorten it")
    if window.new is not None:
        check_num_pictures(len(window.features) + len(window.new.files))
        if window.new.files:
            yield f"Encoding {format_count(len(window.new.files), 'picture')}."
        files = [partial(_read_file, file) for file in window.new.files]
        check_pictures(files)
        names, features = encode_pictures(context.checkpoint, files)
        window.features |= features
        window.files |= dict(zip(names, window.new.files, strict=True))
        window.branches, window.new = window.branches.ask(window.new.text, time_s=None, pictures=names), None
    pieces = render_conversation(codec, window.branches.shown.conversation, base=codec.system(text))
    yield ChatPrompt(pieces=pieces, features=window.features)


def _read_file(path: str) -> bytes:
    """Return the content of a picture file, at most a byte more than its limit."""
    try:
        with open_file(Path(path)) as file:
            return file.read(MAX_PICTURE_BYTES + 1)
    except OSError as error:
        raise ValueError("an attached picture was removed or is no file; attach it again") from error
