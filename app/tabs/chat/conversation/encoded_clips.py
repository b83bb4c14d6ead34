"""The encoded frames of videos that were asked about, so that each video is encoded once."""

from collections import OrderedDict
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from threading import Lock

from torch import Tensor

from stepscope.app.context import AppContext
from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.plan import StreamPlan, read_features
from stepscope.app.core.run import Run
from stepscope.engine.chat.worker import name_frames
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.plurals import format_count

BUDGET_BYTES = 2**28
FRAMES_PER_STEP = 16
"""Frames per step of ``encode_clip``, which can be cancelled between two steps."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedClip:
    """The frames of a video, encoded."""

    names: tuple[str, ...]
    """Name of the picture of each frame."""
    features: Mapping[str, Tensor]
    """Embeddings by name."""

    @property
    def num_bytes(self) -> int:
        """Memory of the embeddings, in bytes."""
        return sum(features.nbytes for features in self.features.values())


class EncodedClips:
    """Keeps encoded videos up to a budget, and drops the least recently used ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, EncodedClip] = OrderedDict()
        self._lock = Lock()
        self.threads = ThreadPoolExecutor(1, thread_name_prefix="chat-frames")
        """The thread that encodes, so that two windows never encode one video twice."""

    def encode_clip(self, context: AppContext, live: LiveRun, run: Run) -> Generator[int, None, EncodedClip]:
        """Return the frames of a run, from its recording, from memory, or by encoding the video.

        Yields the number of encoded frames after every ``FRAMES_PER_STEP`` frames.

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
                        yield len(frames)
        if len(frames) < num_frames:
            raise ValueError(f"the video has only {format_count(len(frames), 'frame')} now; the run has {num_frames}")
        names, features = name_frames(context.checkpoint.model, frames)
        encoded = EncodedClip(names=names, features=features)
        self._keep(key, encoded)
        return encoded

    def _keep(self, key: object, encoded: EncodedClip) -> None:
        with self._lock:
            self._kept[key] = encoded
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and sum(one.num_bytes for one in self._kept.values()) > BUDGET_BYTES:
                self._kept.popitem(last=False)
