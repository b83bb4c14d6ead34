"""The settings of a stream: immutable, validated on construction, read from YAML or keyword arguments.

Thresholds are used exactly as set. Lengths are in tokens unless the name says otherwise.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from string import Formatter
from typing import Any, Literal, get_args

import numpy as np

from stepscope.engine.decisions.policies import (
    POLICIES,
    DecisionPolicy,
    PolicyName,
    Signal,
    TriggerCounter,
    convert_theta,
    count_frames,
    find_policy,
)
from stepscope.engine.decisions.signals import list_states

IllegalUpdates = Literal["apply", "refuse"]
GraphSetting = Literal["auto", "on", "off"]
Quantization = Literal["none", "8bit", "4bit"]
HardwareDecoding = Literal["off", "cuda"]
ContextStrategy = Literal["refresh", "drop-all", "drop-middle", "sink-window", "summarize-and-drop", "none"]
_TYPES: Mapping[Any, tuple[tuple[type, ...], str]] = {
    float: ((float, int), "a number"),
    int: ((int,), "a whole number"),
    bool: ((bool,), "true or false"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """Settings of a stream. Raises ``ValueError`` if a value is out of range."""

    fps: float = 2.0
    """Frames sampled per second of video; above the video's own rate its pictures repeat."""
    speak_threshold: float = 0.5
    """The assistant speaks when the probability is greater, in [0, 1]."""
    update_threshold: float = 0.5
    """The assistant updates the state when the probability is greater, in [0, 1]."""
    decision_policy: PolicyName = "heads"
    """How probabilities become decisions; engine/decisions/policies.toml describes the choices."""
    states: str = "silence=</Silence>, standby=</Standby>, response=</Response>"
    """Texts that the policies of states and of a reserved reply read, and that the model writes at each frame."""
    theta_step: float = 0.0
    """Change of theta per token of a reply, in which the last token of a reserved reply is written only where its
    probability exceeds theta; 0 permits it anywhere."""
    system_prompt: str = ""
    """Text that replaces the first line of the system prompt, above goal and steps."""
    frame_text: str = ""
    """Text before each frame, with the fields {start} and {end} for its seconds, such as <{start:g}s-{end:g}s>."""
    ask_every_s: float = 0.0
    """Time from one frame at which the policy answer asks to the next, in seconds; 0 asks at every frame. The frames
    between have no probabilities and are silent."""
    max_updates_per_frame: int = 4
    """Maximum number of updates at one frame."""
    illegal_updates: IllegalUpdates = "apply"
    """Whether an update that skips, repeats or goes backwards changes the state."""
    max_new_tokens: int = 128
    """Maximum length of a response, in tokens."""
    max_update_tokens: int = 16
    """Maximum length of an update, in tokens."""
    max_seq_len: int = 4096
    """Maximum length of the context, in tokens."""
    reserved_seq_len: int = 512
    """Tokens reserved for the current turn: the context is full at max_seq_len - reserved_seq_len."""
    context_strategy: ContextStrategy = "refresh"
    """How a full context becomes shorter; docs/contexts.md defines the choices."""
    kept_tokens: int = 512
    """Last tokens that drop-middle and sink-window keep of a full context."""
    max_summary_tokens: int = 128
    """Maximum length of the summary of summarize-and-drop, in tokens."""
    prefill_frames: int = 1
    """Frames in the first pass."""
    lookahead: int = 64
    """Maximum number of frames per pass afterwards; 1 for live input. The number is small after a trigger and grows
    while frames stay silent. It does not change triggers, texts or states."""
    draft_tokens: int = 24
    """Maximum number of draft tokens that one pass verifies; 0 decodes token by token. It does not change the texts.
    Sampling always decodes token by token."""
    do_sample: bool = False
    """Sample the next token instead of taking the most likely one."""
    temperature: float = 1.0
    """Divides the logits when sampling."""
    top_p: float = 1.0
    """Sample from the smallest set of tokens that holds this probability mass."""
    seed: int = 0
    """Seed of the sampling."""
    answer_user_turns: bool = False
    """Whether the assistant must answer each user turn at its frame, regardless of the probability of speaking."""

    def __post_init__(self) -> None:
        for field in fields(self):
            types, description = _TYPES.get(field.type, ((str,), "text"))
            value = getattr(self, field.name)
            is_valid = isinstance(value, types) and (bool in types or not isinstance(value, bool))
            _require(is_valid, field.name, value, description)
        for name in ("speak_threshold", "update_threshold"):
            check_threshold(getattr(self, name), name)
        for name in ("fps", "temperature", "top_p"):
            _require(0 < getattr(self, name) < float("inf"), name, getattr(self, name), "positive")
        _require(abs(self.theta_step) < float("inf"), "theta_step", self.theta_step, "finite")
        _require(self.top_p <= 1, "top_p", self.top_p, "at most 1")
        lengths = ("max_updates_per_frame", "max_new_tokens", "max_update_tokens", "max_summary_tokens")
        for name in (*lengths, "prefill_frames", "lookahead"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        _require(0 <= self.ask_every_s < math.inf, "ask_every_s", self.ask_every_s, "at least 0")
        for name in ("draft_tokens", "kept_tokens"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "at least 0")
        list_states(find_policy(self.decision_policy), self.states)
        _require(abs(self.seed) < 2**63, "seed", self.seed, "less than 2^63")
        _check_frame_text(self.frame_text)
        for name, kind in (("illegal_updates", IllegalUpdates), ("context_strategy", ContextStrategy)):
            choices = get_args(kind)
            _require(getattr(self, name) in choices, name, getattr(self, name), f"one of {', '.join(choices)}")
        _require(
            self.max_turn_tokens <= self.reserved_seq_len < self.max_seq_len,
            "reserved_seq_len",
            self.reserved_seq_len,
            f"at least the longest turn ({self.max_turn_tokens}) and less than max_seq_len ({self.max_seq_len})",
        )

    @property
    def policy(self) -> DecisionPolicy:
        """The decision policy."""
        return POLICIES[self.decision_policy]

    @property
    def thresholds_text(self) -> str:
        """The thresholds as text, as the rule of the policy uses them."""
        return format_thresholds(self.speak_threshold, self.update_threshold, self.policy)

    def threshold(self, signal: Signal) -> float:
        """Return the threshold of a signal."""
        return self.speak_threshold if signal == "speak" else self.update_threshold

    def decides_at(self, frame: int) -> bool:
        """Return whether a frame has decisions: each has, unless the policy asks less often.

        Example: at 2 frames/s with ``ask_every_s`` 1.2, the frames 0, 3, 6, ... are asked about.
        """
        return self.policy.source != "answer" or frame % count_frames(self.ask_every_s, self.fps) == 0

    def count_triggers(self, signal: Signal) -> TriggerCounter:
        """Return a new counter that decides a signal frame by frame."""
        return self.policy.kind(self.policy, signal=signal, threshold=self.threshold(signal), fps=self.fps)

    def text_before(self, instant: int) -> str:
        """Return the text before the image of the frame at an instant, counted from 0."""
        return self.frame_text.format(start=instant / self.fps, end=(instant + 1) / self.fps)

    @property
    def max_turn_tokens(self) -> int:
        """Maximum tokens of one frame's updates and response, with their opening and closing tokens.

        By default 4 updates of 16 + 2 tokens and a response of 128 + 2: 202 tokens.
        """
        return self.max_updates_per_frame * (self.max_update_tokens + 2) + self.max_new_tokens + 2

    @property
    def room(self) -> int:
        """Maximum context length after an image, such that the longest turn still fits behind it."""
        return self.max_seq_len - self.max_turn_tokens

    def frame_by_frame(self) -> "StreamConfig":
        """Return the same settings without look-ahead, prefill and drafts: one frame and one token per pass.

        This is the reference definition of a stream; faster settings must give the same results.
        """
        return replace(self, prefill_frames=1, lookahead=1, draft_tokens=0)

    @property
    def refresh_at(self) -> int:
        """Context length from which on a context is full."""
        return self.max_seq_len - self.reserved_seq_len

    @property
    def shorten_at(self) -> int:
        """Context length at which the strategy shortens the context: ``refresh_at``, or the whole length for none."""
        return self.max_seq_len if self.context_strategy == "none" else self.refresh_at


def check_threshold(value: float, name: str) -> None:
    """Raise ``ValueError`` with the name unless a threshold is within [0, 1]."""
    _require(isinstance(value, Real) and 0 <= value <= 1, name, value, "within [0, 1]")


def read_threshold(value: object, name: str) -> float:
    """Read a threshold from a number or typed text, such as ``0.4`` or ``0,4``.

    The page and its links use this function. ``name`` is the threshold's name for the error message,
    ``speak`` or ``update``.

    Raises:
        ValueError: The value is not a number from 0 to 1.
    """
    threshold = math.nan
    if isinstance(value, str) or (isinstance(value, float | int) and not isinstance(value, bool)):
        try:
            threshold = float(value.strip().replace(",", ".") if isinstance(value, str) else value)
        except (ValueError, OverflowError):
            threshold = math.nan
    if not 0 <= threshold <= 1:
        got = "nothing" if value is None or value == "" else repr(value)[:100]
        raise ValueError(f"the {name} threshold must be a number from 0 to 1; got {got}")
    return threshold


def format_threshold(value: float) -> str:
    """Return a threshold with all its digits, such as ``0.725``; ``read_threshold`` reads the same number."""
    return np.format_float_positional(value, trim="-")


def format_thresholds(speak: float | None, update: float | None, policy: DecisionPolicy = POLICIES["heads"]) -> str:
    """Return the thresholds of a policy as text, such as ``speak 0.5, update 0.725``, or ``theta 0.725``."""
    return ", ".join(f"{name} {text}" for name, text in name_thresholds(speak, update, policy))


def name_thresholds(
    speak: float | None, update: float | None, policy: DecisionPolicy = POLICIES["heads"]
) -> list[tuple[str, str]]:
    """Return name and text of each known threshold, as the rule of a policy uses it: ``speak``, ``update``, ``theta``.

    A policy with theta has no threshold of updates.
    """
    theta = None if speak is None else convert_theta(speak)
    found = {"theta": theta} if policy.has_theta else {"speak": speak, "update": update}
    return [(name, format_threshold(value)) for name, value in found.items() if value is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """A pair of thresholds, in [0, 1]; see ``StreamConfig``."""

    speak: float
    update: float


def _check_frame_text(text: str) -> None:
    """Raise ``ValueError`` for other fields than those of a frame, and for widths that take the memory."""
    try:
        for _, name, spec, _ in Formatter().parse(text):
            if name not in (None, "start", "end") or re.search(r"\d{3}|{", spec or ""):
                raise ValueError(f"{name}:{spec}")
        text.format(start=0.0, end=1.0)
    except ValueError as error:
        raise ValueError(f"frame_text may have the fields {{start}} and {{end}} only; got {error}") from error


def _require(is_valid: bool, name: str, value: object, rule: str) -> None:
    if not is_valid:
        raise ValueError(f"{name} must be {rule}; got {value!r}")
