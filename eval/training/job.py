"""A training run on a split, from its options to the result folder."""

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.decisions.signals import list_states
from stepscope.engine.inference.memory import peak_memory_mb
from stepscope.engine.io.files import digest_file
from stepscope.engine.model.checkpoint import load_checkpoint
from stepscope.engine.model.features.frame_encoder import prefetch
from stepscope.engine.model.hub.model import HubModel
from stepscope.engine.plurals import format_count
from stepscope.engine.training.adaptation import prepare
from stepscope.engine.training.config import POLICY_OF
from stepscope.engine.training.curves import WORK_FOLDER
from stepscope.engine.training.dataset import batches
from stepscope.engine.training.objective import Batch, BranchObjective, StreamObjective
from stepscope.engine.training.processes import ALONE, Processes
from stepscope.engine.training.sequences import ContextRules
from stepscope.engine.training.session import Session, Validated, prepare_folder
from stepscope.engine.training.trainer import Prediction, StepLosses, Trainer, predict
from stepscope.eval.data.json_fields import check_number
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import InvalidSample, Sample
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.reports.scoring import describe_writer
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.training.card import CardScores, write_card
from stepscope.eval.training.data import load_training_data
from stepscope.eval.training.options import TrainOptions
from stepscope.eval.training.results import VALIDATION_BASIS, summarize, write_clips
from stepscope.eval.training.validation import Validator, check_metrics

_NOT_COMPARED = frozenset(
    {"out", "resume", "dry_run", "device", "trackio", "videos", "features", "on_invalid", "allow_untrained_heads"}
)
"""Options that may differ between a run and its continuation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOutcome:
    """The checkpoint of a finished run."""

    step: int
    score: float
    """Its validation score; nan without validation data."""
    start_score: float
    """The score before training; likewise."""


class TrainingJob:
    """A training run: checkpoint, data, trainer and validation.

    ``progress`` wraps the samples while their features are encoded.

    Raises:
        ValueError: A split or an option that cannot be used.
        EngineError: A checkpoint that cannot be loaded.
        OSError: A folder that cannot be written.
    """

    def __init__(
        self,
        options: TrainOptions,
        *,
        progress: Callable[[Sequence[Sample]], Iterable[Sample]],
        processes: Processes = ALONE,
    ) -> None:
        self.options, self._processes = options, processes
        check_metrics(options.metric)
        check_number("--fps", options.fps, minimum=0.001, maximum=1000)
        self._stream = StreamConfig(
            decision_policy=POLICY_OF[options.decisions],
            max_seq_len=options.max_seq_len,
            reserved_seq_len=options.reserved_seq_len,
        )
        """Settings of the validation streams."""
        self._checkpoint = load_checkpoint(
            options.checkpoint,
            device=processes.device or options.device,
            dtype="float32",
            heads=options.heads,
            allow_untrained_heads=options.allow_untrained_heads,
            pooling=options.pooling,
            feature_dim=options.feature_dim,
        )
        self._base_digest = self._checkpoint.digest
        if self._stream.max_seq_len > (limit := self._checkpoint.model.max_context):
            raise ValueError(f"--max-seq-len {self._stream.max_seq_len} exceeds the model's {limit} positions")
        if isinstance(self._checkpoint.model, HubModel) and options.decisions in ("heads", "silent-token"):
            raise ValueError(
                f"{options.checkpoint} has no {options.decisions} to train; use --decisions state-token or answer"
            )
        self._rules = ContextRules(
            refresh_at=self._stream.refresh_at,
            decisions=options.decisions,
            states=list_states(self._stream.policy, self._stream.states) or None,
        )
        self._adaptation = prepare(
            self._checkpoint, options.method, rank=options.lora_rank, silent_token=options.silent_token
        )
        if options.decisions != "heads":
            self._adaptation = replace(self._adaptation, decision_policy=self._stream.decision_policy)
        if options.decisions == "silent-token":
            self._checkpoint = replace(self._checkpoint, silent_id=self._adaptation.silent_id)
            self._checkpoint.token_to_read(self._stream.policy)
        if processes.is_main:
            prepare_folder(options.out, needed_bytes=self._adaptation.saved_bytes, resume=options.resume)
        folder = options.features or options.out / WORK_FOLDER / "features"
        self._features = SampleFeatures(checkpoint=self._checkpoint, folder=folder)
        self._load_data(progress)
        self._trainer = Trainer(self._make_objective(), processes=processes)
        self._session: Session[Batch] | None = None

    def _make_objective(self) -> StreamObjective | BranchObjective:
        checkpoint, options = self._checkpoint, self.options
        if options.decisions in ("answer", "state-token"):
            return BranchObjective(checkpoint.model, options.train)
        return StreamObjective(
            checkpoint.smolvlm,
            options.train,
            silent_id=checkpoint.silent_id if options.decisions == "silent-token" else None,
            response_id=checkpoint.smolvlm_prompt.response_id,
        )

    @property
    def num_steps_done(self) -> int:
        """Completed steps, including those of a resumed run once ``run`` has started."""
        return self._trainer.num_steps_done

    def check_data(self) -> None:
        """Raise ``ValueError`` for unusable clips unless they are skipped, and if no clip remains."""
        invalid = self.data.invalid
        if invalid and self.options.on_invalid == "refuse":
            raise ValueError(
                f"{format_count(len(invalid), 'clip')} cannot be used: {invalid[0]}; correct them, or use "
                "--on-invalid skip"
            )
        if not self.data.clips:
            raise ValueError(f"{self.options.split} has no clip that can be used")

    def predict(self) -> Prediction:
        """Train a few steps, stream and score one validation video, and return the predicted cost; nothing is saved."""
        with closing(self._batches(0)) as data:
            found = predict(self._trainer, data, disk_bytes=self._adaptation.saved_bytes)
        if self._validator is None:
            return found
        sample = self._validator.samples[0]
        self._checkpoint.model.eval()
        start_s = time.perf_counter()
        self._validator.count(sample)
        per_frame_s = (time.perf_counter() - start_s) / sample.num_frames
        num_validations = 2 + -(-self.options.train.num_steps // self.options.schedule.interval)
        num_frames = sum(sample.num_frames for sample in self._validator.samples)
        return replace(
            found,
            validation_s=per_frame_s * num_frames * num_validations,
            peak_memory_mb=peak_memory_mb(self._trainer.device),
        )

    def run(self, check_stop: Callable[[], None]) -> Generator[StepLosses | Validated]:
        """Train; yield the losses of each step, and each validation. Raises as ``Session.run``."""
        validate = self._validator and replace(self._validator, check_stop=check_stop)
        self._session = Session(
            self._trainer,
            folder=self.options.out,
            settings=self.settings(),
            schedule=self.options.schedule,
            validate=validate,
            export=lambda: self._adaptation.save(self.options.out),
            check_stop=check_stop,
            processes=self._processes,
        )
        yield from self._session.run(self._batches)

    def finish(self) -> TrainingOutcome:
        """Score the best checkpoint, write the model card, and return the scores of its choice."""
        assert self._session is not None
        log, options = self._session.log, self.options
        assert log.best_step is not None, "a run has at least one step"
        scores = None
        if self._validator is not None and options.val is not None:
            trained = load_checkpoint(options.out, device=self._processes.device or options.device, dtype="float32")
            features = replace(self._features, checkpoint=trained)
            validator = replace(self._validator, features=features, processes=ALONE)
            scores = CardScores(
                split=str(options.val),
                basis=", ".join(filter(None, (VALIDATION_BASIS, describe_writer(self._val_writer)))),
                trained=validator.report(),
                before=log.rows[0],
                silent=validator.report(is_silent=True, num_resamples=0),
            )
        write_card(
            options.out / "README.md",
            name=options.out.name,
            base=options.checkpoint,
            base_digest=self._base_digest,
            data=summarize(self.data.rows),
            split=str(options.split),
            settings=self.settings(),
            num_trained=self._adaptation.num_trained,
            best_step=log.best_step,
            scores=scores,
        )
        score = log.best_score if self._validator is not None else math.nan
        return TrainingOutcome(step=log.best_step, score=score, start_score=log.rows[0]["score"])

    def _load_data(self, progress: Callable[[Sequence[Sample]], Iterable[Sample]]) -> None:
        options = self.options
        data = load_training_data(
            options.split,
            self._features,
            self._rules,
            videos=options.videos,
            fps=options.fps,
            progress=progress,
            processes=self._processes,
        )
        if self._processes.is_main:
            write_clips(options.out / WORK_FOLDER, data.rows)
        if not self._stream.policy.has_updates:
            clips = (
                replace(one, clip=replace(one.clip, turns=tuple(t for t in one.clip.turns if t.role != "update")))
                for one in data.clips
            )
            data = replace(data, clips=tuple(clips))
        self.data = data
        self._validator: Validator | None = None
        self._val_writer = ""
        self.problems = data.problems
        """A line per clip with a problem, and per record of ``--val`` that cannot be used."""
        if options.val is not None:
            split = read_split(options.val, videos=options.videos)
            entries = split.entries
            self._val_writer = split.reference_writer
            samples = tuple(entry for entry in entries if isinstance(entry, Sample))
            self.problems += tuple(
                f"{entry.video_id} of --val: {entry.reason}" for entry in entries if isinstance(entry, InvalidSample)
            )
            if not samples:
                raise ValueError(f"--val {options.val} has no video that can be used")
            self._validator = Validator(
                features=self._features,
                config=self._stream,
                samples=samples,
                encode=load_encoder().encode,
                metrics=options.metric,
                processes=self._processes,
            )

    def settings(self) -> dict[str, Any]:
        """Return the settings that a resumed run must share, as plain values."""
        options = self.options
        plain: dict[str, Any] = {}
        for name, value in asdict(options).items():
            if name in _NOT_COMPARED:
                continue
            plain |= value if isinstance(value, dict) else {name: str(value) if isinstance(value, Path) else value}
        plain["method"] = self._adaptation.method
        plain["model_digest"] = self._base_digest
        plain["split_digest"] = digest_file(options.split)[:16]
        plain["val_digest"] = digest_file(options.val)[:16] if options.val is not None else None
        plain["num_clips"] = len(self.data.clips)
        plain["device_type"] = torch.device(self._checkpoint.model.device).type
        return plain

    def _batches(self, first_step: int) -> Generator[Batch]:
        options = self.options
        drawn: Iterator[Batch] = batches(
            self.data.clips,
            self._checkpoint,
            self._rules,
            batch_size=options.batch_size,
            seed=options.train.seed,
            first_step=first_step,
        )
        return prefetch(drawn, depth=2)
