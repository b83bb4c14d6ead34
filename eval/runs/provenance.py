"""Provenance of a run: the model, device, thresholds, settings and text encoder behind its outputs and scores.

It is read from ``run.json`` and ``metrics.json``; fields that an older or imported run lacks are empty. Every download
contains it, as columns of a CSV row or as a JSON object; traces have it beside them, in ``provenance.json``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePath
from typing import Any, Final, Self

from pydantic import BaseModel

from stepscope.engine.config import StreamConfig, name_thresholds
from stepscope.engine.decisions.policies import POLICIES, DecisionPolicy
from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.dialogue import format_clock
from stepscope.engine.io.files import Cell, replace_surrogates, to_json, write_csv
from stepscope.engine.io.json_records import read_record
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.folder import RunFolder, describe_rules

PROVENANCE_COLUMNS: Final[Mapping[str, str]] = {
    "run": "Name of the run folder, or digest of a run that was made on the page.",
    "checkpoint": "Hub id of the model, or name of its folder.",
    "model_digest": "Digest of the model.",
    "device": "Kind of device that the run was made on.",
    "speak_threshold": "The assistant speaks when speak_prob is greater.",
    "update_threshold": "The assistant updates the state when update_prob is greater.",
    "text_encoder": "Sentence encoder of the scores, with version and digest.",
    "asked_in_run": "Questions of the user in the run, which change what follows and so its scores.",
    "settings": "All other settings, as JSON.",
}


WHAT_IF: Final = "what if"
"""Begins ``asked_in_run`` of a branch, before its changes."""


def hide_folders(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with names in place of absolute paths, which downloads and others on the page need not see."""
    return {name: _hide_folder(value) for name, value in settings.items()}


def _hide_folder(value: Any) -> Any:
    if isinstance(value, list):
        return [_hide_folder(one) for one in value]
    return PurePath(value).name if isinstance(value, str) and PurePath(value).is_absolute() else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Origin of the outputs and scores of one run; unknown texts are empty. See ``PROVENANCE_COLUMNS``, too."""

    run: str
    checkpoint: str = ""
    model_digest: str = ""
    heads_digest: str = ""
    """Digest of a heads file that replaced the checkpoint's own."""
    device: str = ""
    dtype: str = ""
    """The dtype of the text model, such as ``bfloat16``."""
    hardware_decoding: str = ""
    """Kind of device that decoded the videos; empty if it was none."""
    graphs: str = ""
    frame_pixels: int | None = None
    """Most pixels of a frame; None for a model that takes images of one size."""
    is_untrained: bool = False
    """Whether the model was never trained for its signals, which are its answers to questions."""
    rules: str = ""
    """Rules of the named signals that decide, as ``describe_rules`` returns them."""
    split: str = ""
    asked_in_run: str = ""
    """Questions that a user asked in the run, as ``describe_questions`` returns them: they change what follows."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the stream, named as in ``StreamConfig``."""
    text_encoder: str = ""
    text_encoder_version: str = ""
    text_encoder_digest: str = ""
    dataset: str = ""
    judge: str = ""
    zero_cost: str = ""
    versions: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_settings(cls, run: str, settings: Mapping[str, Any]) -> Self:
        """Return the provenance of a run from settings named as in ``run.json``, as ``hide_folders``.

        Values of wrong types are ignored. Imported and recorded runs have their system in place of a checkpoint.
        """
        with suppress(TypeError, ValueError):
            settings = {**settings, "rules": describe_rules(settings)}
        settings = hide_folders(settings)
        texts = {
            name: settings[name]
            for name in cls.__dataclass_fields__
            if name not in ("run", "config", "versions") and isinstance(settings.get(name), str)
        }
        if not texts.get("checkpoint"):
            recorded, missing = settings.get("recorded"), settings.get("missing")
            systems = ", ".join(missing) if isinstance(missing, Mapping) else ""
            texts["checkpoint"] = str(recorded.get("model", "")) if isinstance(recorded, Mapping) else systems
        kinds = {"config": Mapping, "versions": Mapping, "frame_pixels": int, "is_untrained": bool}
        parts = {name: settings[name] for name, kind in kinds.items() if isinstance(settings.get(name), kind)}
        return cls(run=run, **texts, **parts)

    @property
    def encoder_label(self) -> str:
        """Name, version and digest of the text encoder in one line."""
        details = ", ".join(filter(None, (self.text_encoder_version, self.text_encoder_digest)))
        return f"{self.text_encoder} ({details})" if details else self.text_encoder

    @property
    def asked_label(self) -> str:
        """The remark beside the scores of a run with questions; empty without."""
        return ": ".join(self._asked) if self.asked_in_run else ""

    @property
    def _asked(self) -> tuple[str, str]:
        """Label and text of what its user asked or changed in the run."""
        label = WHAT_IF if self.asked_in_run.startswith(WHAT_IF) else "asked in the run"
        return label, self.asked_in_run.removeprefix(f"{WHAT_IF} ")

    def threshold(self, name: str) -> float | None:
        """Return the threshold ``speak`` or ``update``, in [0, 1]; None if the run lacks it."""
        value = self.config.get(f"{name}_threshold")
        return float(value) if isinstance(value, int | float) else None

    @property
    def policy(self) -> DecisionPolicy:
        """The decision policy; that of the heads if it is unknown."""
        return POLICIES.get(str(self.config.get("decision_policy")), POLICIES["heads"])

    @property
    def thresholds(self) -> list[tuple[str, str]]:
        """Name and text of the thresholds that the run has, as its rule uses them."""
        return name_thresholds(self.threshold("speak"), self.threshold("update"), self.policy)

    def columns(self) -> dict[str, str | float | None]:
        """Return the columns of ``PROVENANCE_COLUMNS`` for a row of a CSV file."""
        shown = (*PROVENANCE_COLUMNS, "text_encoder_version", "text_encoder_digest")
        rest = {name: value for name, value in asdict(self).items() if name not in shown}
        return {
            "run": self.run,
            "checkpoint": self.checkpoint,
            "model_digest": self.model_digest,
            "device": self.device,
            "speak_threshold": self.threshold("speak"),
            "update_threshold": self.threshold("update"),
            "text_encoder": self.encoder_label,
            "asked_in_run": self.asked_in_run,
            "settings": to_json(rest),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return pairs of label and text, the most important first, without empty texts."""
        others = {name: value for name, value in self.config.items() if not name.endswith("_threshold")}
        defaults = asdict(StreamConfig())
        changed = {name: value for name, value in others.items() if defaults.get(name) != value}
        rows = [
            ("run", self.run),
            self._asked,
            ("model", " ".join(filter(None, (self.checkpoint, self.model_digest)))),
            ("heads", self.heads_digest),
            ("signals", "untrained: P(yes) of the model's own answers" if self.is_untrained else ""),
            ("device", ", ".join(filter(None, (self.device, self.dtype)))),
            ("hardware decoding", self.hardware_decoding),
            ("graphs", self.graphs),
            ("frame size", "" if self.frame_pixels is None else f"at most {self.frame_pixels} pixels, aspect kept"),
            *((name if name == "theta" else f"{name} threshold", value) for name, value in self.thresholds),
            ("rule", self.rules),
            ("settings that are not the default", _join(changed) or ("none" if others else "")),
            ("all settings", _join(others)),
            ("text encoder", self.encoder_label),
            ("judge of contents", self.judge),
            ("match window of", self.dataset),
            ("zero-cost matches", self.zero_cost),
            ("split", self.split),
            ("versions", _join(self.versions)),
        ]
        return [(label, text) for label, text in rows if text]

    @property
    def _model(self) -> str:
        """The model in one word; an imported run, which has no settings of a stream, names its system."""
        return (self.model_digest[:12] if self.config else "") or self.checkpoint or self.model_digest[:12]

    @property
    def summary(self) -> str:
        """The most important part in one line."""
        words = [
            f"run {self.run}",
            self.asked_label,
            f"split {PurePath(self.split).name}" if self.split else "",
            f"model {self._model or 'unknown'}",
            "untrained signals" if self.is_untrained else "",
            self.device,
            *map(" ".join, self.thresholds),
            self.rules,
            f"context {strategy}" if (strategy := self.config.get("context_strategy", "refresh")) != "refresh" else "",
            f"text encoder {self.text_encoder}" if self.text_encoder else "",
        ]
        return " · ".join(filter(None, words))


def describe_questions(questions: Iterable[UserTurn]) -> str:
    """Return the number and times of questions, such as ``2 questions at 0:09.5, 0:31.0``; empty without any."""
    times = [format_clock(turn.time_s, digits=1) for turn in questions]
    return f"{format_count(len(times), 'question')} at {', '.join(times)}" if times else ""


def _join(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


TRACE_COLUMNS: Final = (
    *("video_id", "frame_index", "time_s", "speak_prob", "update_prob", "spoke", "updated", "response", "updates"),
    *("states", "state", "cache_tokens", "refreshed", "latency_ms", "first_token_ms"),
    "run",
)
"""``spoke``, ``updated`` and ``refreshed`` are 1 or 0; ``updates`` is a JSON list, ``states`` a JSON object by step,
``state`` that of the assistant itself. A column ``signal_NAME`` for each named signal follows."""


class _ScoringEncoder(BaseModel):
    """Schema of the text encoder in ``metrics.json``."""

    text_encoder: str
    text_encoder_version: str = ""
    text_encoder_digest: str = ""
    judge: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoTraces:
    """The outputs of one video in one run."""

    video_id: str
    outputs: Sequence[FrameOutput]
    run: str
    has_states: bool = True
    """Whether the states of the steps in the outputs are the system's own; otherwise they are not written."""


def read_provenance(run: RunFolder) -> Provenance:
    """Return the provenance of a run folder, with the text encoder and the judge of its scores."""
    try:
        encoder = read_record(_ScoringEncoder, run.path / "metrics.json").model_dump(exclude_unset=True)
    except (FileNotFoundError, ValueError):
        encoder = {}  # not scored yet: the text encoder is that of run.json
    return Provenance.of_settings(run.path.resolve().name, {**(run.settings() or {}), **encoder})


def iter_traced_videos(run: RunFolder, samples: Iterable[Sample]) -> Iterator[VideoTraces]:
    """Yield the outputs of samples in a run, in order; those of an unfinished video are empty.

    Raises ``ValueError`` for invalid outputs.
    """
    name, has_states = run.path.resolve().name, run.has_states()
    for sample in samples:
        outputs = run.finished_outputs(sample)
        yield VideoTraces(video_id=sample.video_id, outputs=outputs, run=name, has_states=has_states)


def write_traces(path: Path, videos: Iterable[VideoTraces], *, signals: Sequence[SignalSpec] = ()) -> None:
    """Write ``TRACE_COLUMNS`` and those of the signals atomically, a row per frame; unknown values are empty cells."""
    rows = (row for video in videos for row in iter_trace_rows(video))
    write_csv(path, rows, columns=[*TRACE_COLUMNS, *(_signal_column(spec.name) for spec in signals)])


def _signal_column(name: str) -> str:
    return f"signal_{replace_surrogates(name)}"


def iter_trace_rows(video: VideoTraces) -> Iterator[dict[str, Cell]]:
    """Yield the rows of one video in frame order, with further fields beside ``TRACE_COLUMNS``."""
    for output in video.outputs:
        yield {
            **{field.name: getattr(output, field.name) for field in fields(output)},
            **{_signal_column(name): value for name, value in output.signals.items()},
            "run": video.run,
            "video_id": video.video_id,
            "spoke": int(output.response is not None),
            "updated": int(bool(output.updates)),
            "cache_tokens": output.cache_tokens or None,
            "states": to_json(dict(output.dst_state)) if video.has_states else None,
            "refreshed": int(output.refreshed),
        }
