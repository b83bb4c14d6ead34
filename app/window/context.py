"""State that all windows of the page share: the model, the bundled videos, caches and the text encoder; and reviews."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from stepscope.app.core.display_copies import DisplayCopies
from stepscope.app.core.model_use import ModelUse
from stepscope.app.core.places import RecentSessions
from stepscope.app.core.plan import FRAMES_PER_PASS, RemoteModel, StreamPlan, inspect_plan, stream_plan
from stepscope.app.core.run import Run, TaskText, can_score, read_task
from stepscope.app.core.saved import BundledRun
from stepscope.app.core.videos import BundledVideos, Clip
from stepscope.app.review_store.review import Review
from stepscope.app.review_store.store import ReviewStore
from stepscope.app.window.increments import ActiveStreams
from stepscope.app.window.live_run import RecordingCache
from stepscope.engine.chat.pool import WorkerPool
from stepscope.engine.chat.service import AnsweringWorker, ChatService
from stepscope.engine.chat.worker import ChatWorker
from stepscope.engine.config import ContextStrategy, StreamConfig, Thresholds
from stepscope.engine.inference.memory import used_memory_mb
from stepscope.engine.inspection import FrameInspection
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.checkpoint_folder import has_untrained_signals
from stepscope.engine.plurals import format_memory
from stepscope.engine.records import FrameOutput
from stepscope.engine.video.reader import OnDamage, warn_damaged
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.matching.turns import Encode
from stepscope.eval.runs.folder import signal_settings, versions
from stepscope.eval.served.chat import Endpoint


@dataclass(frozen=True, kw_only=True)
class AppContext:
    """Objects that all windows of the page share."""

    checkpoint: Checkpoint
    bundled_videos: BundledVideos
    copies: DisplayCopies
    encode: Encode
    """Sentence encoder that compares generated texts with the reference."""
    config: StreamConfig = field(default_factory=StreamConfig)
    """Settings of new runs; the frame rate is each video's own."""
    bundled_run: BundledRun | None = None
    """The saved run of the bundled videos; None if the page's runs would differ from it."""
    max_duration_s: float
    model_warning: str = ""
    """Warning about the model, shown with uploads; empty for a checkpoint other than the bundled one."""
    encoder: Mapping[str, str] = field(default_factory=dict)
    """Name, version and digest of ``encode``, with the keys of ``metrics.json``."""
    splits: Mapping[str, Split] = field(default_factory=dict)
    """Splits of the batch tab, by name; users may add splits."""
    recent: RecentSessions = field(default_factory=RecentSessions)
    """Uploads and runs that a link can reopen."""
    recordings: RecordingCache = field(default_factory=RecordingCache)
    streams: ActiveStreams = field(default_factory=ActiveStreams)
    remote: RemoteModel | None = None
    """The model in another process, on ZeroGPU; None if the model of ``checkpoint`` runs in this one."""
    is_blind: bool = False
    """Whether reasons are hidden from every reviewer until their own verdict."""
    model_use: ModelUse = field(default_factory=ModelUse)
    """The live session that has the model, and who waits for it."""
    endpoint: Endpoint | None = None
    """The served model that answers questions about runs in Batch."""
    chat_workers: Sequence[AnsweringWorker] = ()
    """The workers that answer questions; by default one, with the page's model."""

    @cached_property
    def chat_service(self) -> ChatService[AnsweringWorker]:
        """Answers questions of the page and of programs, which share one queue."""
        workers: Sequence[AnsweringWorker] = self.chat_workers or (ChatWorker(self.checkpoint),)
        return ChatService(WorkerPool(workers))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Checkpoint, device, versions and text encoder of the page's runs, with the keys of ``run.json``."""
        device = "cuda" if self.remote is not None else self.checkpoint.model.device.type
        known: dict[str, Any] = {"checkpoint": self.checkpoint.name, "device": device, **self.encoder}
        known |= {"dtype": self.checkpoint.dtype_name, "versions": versions()}
        if self.checkpoint.frame_pixels is not None:
            known["frame_pixels"] = self.checkpoint.frame_pixels
        if self.is_untrained:
            known["is_untrained"] = True
        return known | signal_settings(self.config)

    @property
    def is_untrained(self) -> bool:
        """Whether the model was never trained for the signals by which the page decides."""
        return has_untrained_signals(self.checkpoint.folder, self.config.policy)

    @property
    def untrained_silence(self) -> str:
        """What to do after a run without a decision, if the model was never trained for its signals."""
        cure = "press Calibrate in Video, task, settings" if self.remote is None else "lower the thresholds"
        return f"0 decisions: the model was not trained for its signals, and the thresholds do not fit it; {cure}."

    def describe_usage(self) -> str:
        """Return the dtype of the model and the memory that it takes now, with a comma behind each."""
        model = self.checkpoint.model
        memory = "" if self.remote is not None else f"{format_memory(used_memory_mb(model.device))}, "
        return f"{self.checkpoint.dtype_name}, {memory}"

    @property
    def opening_clip(self) -> Clip | None:
        """The bundled video that the page opens on; None without bundled videos."""
        first = next(iter(self.bundled_videos.clips), None)
        return (self.bundled_run and self.bundled_run.opening_clip(self.bundled_videos)) or first

    def find_saved(self, clip: Clip) -> Run | None:
        """Return the saved run of a bundled video; None if there is none that the page would make alike."""
        run = self.bundled_run.run_of(clip, encoder=self.encoder) if self.bundled_run is not None else None
        return run and self.hide_reasons(run)

    def hide_reasons(self, run: Run) -> Run:
        """Return a saved run whose reasons are not sent, if the page is blind."""
        kept = run.kept if self.is_blind else None
        return run if kept is None else replace(run, kept=replace(kept, shown=frozenset(), evidence=()))

    def warn_of_model(self, clip: Clip) -> str:
        """Return the warning about the model; empty for a bundled video, also as an upload."""
        return "" if clip.is_drawing else self.model_warning

    def find_video(self, clip: Clip) -> Path | None:
        """Return the file of a clip that the browser plays, None without one; see ``DisplayCopies.find_or_convert``."""
        find = self.copies.find_or_convert
        return find(clip.path, start_s=clip.start_s, duration_s=clip.duration_s) if clip.has_file else None

    def plan_run(self, run: Run, num_frames: int | None = None) -> StreamPlan:
        """Return the plan to stream the video of a run, or its first frames."""
        return StreamPlan(
            clip=run.clip, task=run.task, config=run.config, num_frames=num_frames, max_duration_s=self.max_duration_s
        )

    def stream(self, plan: StreamPlan, on_damage: OnDamage = warn_damaged) -> Generator[FrameOutput]:
        """Execute a plan without a recording; see ``stream_plan``."""
        if self.remote is not None:
            return self.remote.stream(plan, on_damage)
        return stream_plan(self.checkpoint, plan, on_damage)

    def inspect(self, plan: StreamPlan, outputs: Sequence[FrameOutput]) -> FrameInspection:
        """Inspect the last frame of a plan; see ``inspect_plan``."""
        if self.remote is not None:
            return self.remote.inspect(plan, outputs)
        return inspect_plan(self.checkpoint, plan, outputs)

    def prepare_run(
        self,
        clip: Clip,
        typed_task: TaskText,
        thresholds: Thresholds,
        *,
        strategy: ContextStrategy | None = None,
    ) -> Run:
        """Return a run before its first frame. Raises ``ValueError`` for an invalid task.

        Without a ``strategy`` it is that of the settings of the page.
        A reference with other steps, not without any, cannot be compared, so the clip of the run is then without it.
        """
        task = read_task(clip, goal=typed_task.goal, steps=typed_task.steps, user_turns=typed_task.user_turns)
        config = replace(
            self.config,
            fps=clip.fps,
            speak_threshold=thresholds.speak,
            update_threshold=thresholds.update,
            context_strategy=strategy or self.config.context_strategy,
            lookahead=min(self.config.lookahead, FRAMES_PER_PASS),
            max_seq_len=min(self.config.max_seq_len, self.checkpoint.model.max_context),
        )
        sample = clip.sample
        is_unscored = sample is not None and not can_score(sample, task)
        return Run(
            clip=replace(clip, sample=None) if is_unscored else clip,
            has_other_steps=is_unscored and sample is not None and sample.has_reference,
            task=task,
            config=config,
            typed_task=typed_task,
            model_digest=self.checkpoint.digest,
            settings=self.settings,
        )


@dataclass(frozen=True, kw_only=True)
class ReviewContext:
    """The parts of reviewing that all windows share; only the contents of the store change."""

    store: ReviewStore
    splits: Mapping[str, Split]
    recent: RecentSessions = field(default_factory=RecentSessions)
    """Uploads, with the references that they were given."""
    is_blind: bool = False
    """Whether the opinions of others are hidden from everyone; otherwise each reviewer chooses."""

    def splits_of(self, video_id: str) -> Iterator[str]:
        """Yield the names of the splits that hold a video."""
        return (name for name, split in self.splits.items() if split.find(video_id))

    def split_of(self, video_id: str) -> str | None:
        """Return the name of the first split that holds a video."""
        return next(self.splits_of(video_id), None)

    def sample(self, video_id: str, *, reference: str | None = None) -> Sample | None:
        """Return the source's reference of a video; of an upload the one that it was given, None without one.

        ``reference`` is its digest, of an upload that windows show with several; without it the last one is returned.
        """
        name = self.split_of(video_id)
        return self.splits[name].find(video_id) if name else self.recent.find_reference(video_id, reference)

    def list_unsplit(self, review: Review, *, user: str | None = None) -> tuple[str, ...]:
        """Return the videos with reviews that are in no split, such as uploads, by name.

        The name of an upload opens it, so a visitor gets only those that are theirs, and a signed-in ``user`` those
        that they have reviewed.
        """
        spoken_of = {found.event.video_id for found in review.events} | review.corrections.keys()
        own = {found.event.video_id for found in review.events for said in found.opinions if said.reviewer == user}
        own |= {name for name, given in review.corrections.items() if any(each.reviewer == user for each in given)}
        listed = (name for name in spoken_of if self.split_of(name) is None)
        return tuple(sorted(name for name in listed if name in own or self.recent.is_listed(name)))
