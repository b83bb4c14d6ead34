"""Runs a finished stream again with an intervention and reuses the common part. The outputs are those of a new run.

Thresholds may differ, questions may be added, turns may be forced, states set and pictures replaced. Nothing runs again
up to the first frame that differs; then the KV cache is cropped, or fed again after a refresh.
Later outputs serve as drafts. Example: run A speaks at frame 50 only, run B, with a lower threshold, at frame 30 too. B
crops the cache after the image of frame 30, generates its response, and verifies the outputs of A from frame 31 on.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from types import NoneType
from typing import Final

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.draft_buffer import Trace
from stepscope.engine.control.intervention import Intervention, force_outputs
from stepscope.engine.control.requests import PassCounts, TextProgress
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.inspection import FrameInspection, inspect_frame, trace_frames
from stepscope.engine.io.arguments import check_type
from stepscope.engine.live.questions import AskedQuestions
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.stream import Streamer, StreamEvent, StreamRequest

_REUSABLE: Final = frozenset(
    {"speak_threshold", "update_threshold", "context_strategy", "kept_tokens", "max_seq_len", "reserved_seq_len"}
)
"""Settings on which no result of a forward pass depends; in other contexts, results of the same tokens are reused."""


class Recording:
    """One run of one video that can run again with an intervention: other thresholds, a question, forced turns.

    The features are the embedded frames, in order; they are kept in memory. Questions may be ``asked`` while it runs.
    ``known`` outputs of such a run, which need not be right, serve as drafts: a run that is made again is sooner done.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        features: Iterable[FrameFeatures],
        *,
        task: Task | None = None,
        config: StreamConfig | None = None,
        asked: AskedQuestions | None = None,
        known: Sequence[FrameOutput] = (),
    ) -> None:
        check_type("checkpoint", checkpoint, Checkpoint, "a checkpoint of load_model")
        check_type("task", task, (Task, NoneType), "a Task")
        check_type("config", config, (StreamConfig, NoneType), "a StreamConfig")
        self._task, self._asked = task or Task(), asked
        self.outputs: list[FrameOutput] = []
        self.intervention = Intervention()
        """The difference from a plain run."""
        self._streamer = Streamer(checkpoint, config)
        self._features: list[FrameFeatures] = []
        self._source: Iterable[FrameFeatures] | None = features
        # sampled texts are drawn again
        self._prior_run = PriorRun(outputs=tuple(known)) if known and not self.config.do_sample else None
        self._cache: KVCache | None = None
        self._counts: PassCounts | None = None

    @property
    def task(self) -> Task:
        """The task, with the questions that were asked so far."""
        asked = () if self._asked is None else tuple(self._asked.turns)
        return replace(self._task, questions=(*self._task.questions, *asked))

    def run(self, on_text: Callable[[TextProgress], None] | None = None) -> Generator[FrameOutput]:
        """Stream the video once; ``on_text`` is called after each token of a response.

        Raises as ``Streamer.run`` does, and ``ValueError`` at a second run.
        """
        for _, event in run_recordings(self._streamer, [self], on_text=on_text):
            if event.error is not None:
                raise event.error
            if event.output is not None:
                yield event.output

    def _request(self, video_id: str, *, reports_text: bool, checks_probs: bool) -> StreamRequest:
        """Return the request of the run. Raises ``ValueError`` at a second run."""
        if self._source is None:
            raise ValueError("a recording runs only once; call branch() for a new one")
        features = self._source if isinstance(self._source, Sequence) else self._keep(self._source)
        if isinstance(self._source, Sequence):
            self._features = list(self._source)
        request = StreamRequest(
            video_id=video_id,
            features=features if self._asked is None else self._asked.attach(features),
            task=self._task,
            config=self.config,
            prior_run=self._prior_run,
            intervention=self.intervention,
            cache=self._cache,
            is_traced=True,
            reports_text=reports_text,
            checks_probs=checks_probs,
        )
        self._source = self._prior_run = self._cache = None
        return request

    def _handle(self, event: StreamEvent) -> None:
        """Keep an output, or the trace and the KV cache at the end."""
        if event.output is not None:
            self.outputs.append(event.output)
        elif event.error is None and event.text_progress is None:
            written = {} if event.trace is None else event.trace.written
            self._prior_run = PriorRun(outputs=tuple(self.outputs), trace=event.trace, written=written)
            self._cache, self._counts = event.cache, event.counts

    def branch(
        self,
        intervention: Intervention,
        *,
        asked: AskedQuestions | None = None,
        earlier: "Recording | None" = None,
    ) -> "Recording":
        """Return a recording of the same frames that differs by an intervention, and has yet to run.

        A branch of a branch has both interventions. The branch takes over the KV cache of this recording, so a second
        one must feed the context again. If this run was stopped, the branch has the same number of frames. Before
        ``kept_until``, its turns are those of this run, or of ``branch_before``, which is run here unless it is given
        as ``earlier``, finished. More questions may be ``asked`` while it runs. Sampled texts are drawn again, without
        reuse. Raises ``ValueError`` for a frame that the run does not have.
        """
        check_type("intervention", intervention, Intervention, "an Intervention")
        change, source = intervention, self
        _check_frames(change, num_frames=len(self.outputs))
        if kept := change.kept_until:
            if earlier is None and (earlier := self.branch_before(change)) is not None:
                deque(earlier.run(), maxlen=0)
            source = earlier or self
            written = force_outputs(source.outputs, until=kept).turns
            later = {frame: turn for frame, turn in change.turns.items() if frame >= kept}
            change = replace(change, turns={**written, **later}, until=max(kept, change.until))
        task, config = change.change_task(self.task), change.config or self.config
        features = tuple(self._features[: len(self.outputs)])
        recording = Recording(self._streamer.checkpoint, features, task=task, config=config, asked=asked)
        recording._streamer.memory = self._streamer.memory
        recording.intervention = self.intervention.join(change)
        prior = source._prior_run or PriorRun(outputs=tuple(source.outputs))
        if config.do_sample:  # a forced text keeps its ids
            recording._prior_run = PriorRun(outputs=(), written=prior.written)
            return recording
        if not source._can_reuse(config):
            recording._prior_run = replace(prior, trace=None)
            return recording
        recording._prior_run, recording._cache = prior, source._cache
        if source._prior_run is not None and source._prior_run.trace is not None:
            trace = replace(source._prior_run.trace, num_cached=0)
            source._prior_run, source._cache = replace(source._prior_run, trace=trace), None
        return recording

    def branch_before(self, intervention: Intervention) -> "Recording | None":
        """Return the branch, yet to run, that differs as another one before its ``kept_until``; None if none does."""
        earlier = intervention.before(intervention.kept_until, fps=self.config.fps)
        return self.branch(earlier) if earlier != Intervention() else None

    def _can_reuse(self, config: StreamConfig) -> bool:
        """Return whether the results of this run are those of the same tokens under other settings."""
        changed = {
            name.name for name in fields(config) if getattr(config, name.name) != getattr(self.config, name.name)
        }
        texts_follow_threshold = bool(config.theta_step) and config.policy.reads_reserved_text
        return changed <= _REUSABLE and not (texts_follow_threshold and "speak_threshold" in changed)

    def at(self, *, speak_threshold: float, update_threshold: float) -> "Recording":
        """Return a branch at other thresholds. Raises ``ValueError`` for a threshold out of its range."""
        config = replace(self.config, speak_threshold=speak_threshold, update_threshold=update_threshold)
        return self.branch(Intervention(config=config))

    def with_question(self, question: UserTurn, *, asked: AskedQuestions | None = None) -> "Recording":
        """Return a branch with a further question, which is answered at its frame."""
        check_type("question", question, UserTurn, "a UserTurn")
        return self.branch(Intervention(questions=(question,)), asked=asked)

    @property
    def checkpoint(self) -> Checkpoint:
        """The model of the run."""
        return self._streamer.checkpoint

    @property
    def features(self) -> Sequence[FrameFeatures]:
        """The encoded frames so far, in order."""
        return self._features

    @property
    def num_bytes(self) -> int:
        """Memory of the features and the KV cache that it keeps, in bytes."""
        cache = 0 if self._cache is None else self._cache.num_bytes
        return cache + sum(frame.features.nbytes for frame in self._features)

    @property
    def config(self) -> StreamConfig:
        """Settings of the run."""
        return self._streamer.config

    def inspect(self, frame_index: int) -> FrameInspection:
        """Return the context and the token probabilities at a frame of the run, which is streamed again if untraced.

        Raises ``ValueError`` for a frame that the run does not have.
        """
        trace, features = self.trace(frame_index)
        return inspect_frame(self.checkpoint, features, trace, frame_index=frame_index, config=self.config)

    def trace(self, frame_index: int) -> tuple[Trace, Sequence[FrameFeatures]]:
        """Return the trace up to a frame at least, and the frames with all pictures of it; stream again if untraced.

        Raises ``ValueError`` for a frame that the run does not have.
        """
        check_type("frame_index", frame_index, int, "a whole number")
        if not 0 <= frame_index < len(self.outputs):
            raise ValueError(
                f"frame {frame_index} does not exist; the run has {format_count(len(self.outputs), 'frame')}"
            )
        last = max((frame_index, *self.intervention.pictures.values()))
        features = self._features[: last + 1]
        trace = self._prior_run.trace if self._prior_run is not None else None
        if trace is None:
            trace = trace_frames(
                self.checkpoint,
                features,
                task=self.task,
                config=self.config,
                outputs=self.outputs,
                intervention=self.intervention,
            )
        return trace, features

    @property
    def counts(self) -> PassCounts:
        """Cost of the run so far, and of one that shares passes with others at its end; reused results cost nothing."""
        return self._counts or self._streamer.counts

    def _keep(self, features: Iterable[FrameFeatures]) -> Iterator[FrameFeatures]:
        for frame in features:
            self._features.append(frame)
            yield frame


def _check_frames(intervention: Intervention, *, num_frames: int) -> None:
    """Raise ``ValueError`` for a frame after the end of the run."""
    frames = {*intervention.turns, *intervention.states, *intervention.refreshes, *intervention.pictures}
    last = max((*frames, *intervention.pictures.values(), intervention.task_from), default=0)
    if last >= max(num_frames, 1):
        raise ValueError(f"frame {last} cannot be changed; the run has {format_count(num_frames, 'frame')}")


def run_recordings(
    streamer: Streamer,
    recordings: Iterable[Recording | None],
    *,
    max_batch_size: int = 1,
    on_text: Callable[[TextProgress], None] | None = None,
    checks_probs: bool = False,
) -> Generator[tuple[Recording, StreamEvent]]:
    """Run recordings of several videos in shared passes; yield their events, each after its recording has kept it.

    After its last event, a recording can be run ``at`` other thresholds: an iterator of ``recordings`` may return that
    one next. See ``Streamer.run_many`` for None among them. The settings of the streamer are those of the recordings,
    apart from frame rate and thresholds. ``on_text`` is called after each token of a response. With ``checks_probs``, a
    probability that is not a number ends a recording with an error.
    """
    running = dict[str, Recording]()

    def make_requests() -> Iterator[StreamRequest | None]:
        for number, recording in enumerate(recordings):
            if recording is None:
                yield None
            else:
                running[str(number)] = recording
                yield recording._request(str(number), reports_text=on_text is not None, checks_probs=checks_probs)

    for event in streamer.run_many(make_requests(), max_batch_size=max_batch_size):
        recording = running[event.video_id]
        recording._handle(event)
        if event.text_progress is not None and on_text is not None:
            on_text(event.text_progress)
        if event.output is None and event.text_progress is None:
            del running[event.video_id]
        yield recording, event
