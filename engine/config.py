"""The settings of a stream: frozen, checked once at birth, read from YAML or keyword arguments.

Thresholds are used exactly as set. Lengths are in tokens unless the name says otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import yaml

DecisionPolicy = Literal["heads", "silent-token", "not-talk"]
IllegalUpdates = Literal["apply", "refuse"]
_KINDS: Mapping[Any, tuple[tuple[type, ...], str]] = {
    float: ((float, int), "a number"),
    int: ((int,), "a whole number"),
    bool: ((bool,), "true or false"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """How a video is streamed. Raises ``ValueError`` when a value is out of its range."""

    fps: float = 2.0
    """Frames sampled per second of video."""
    speak_threshold: float = 0.5
    """The assistant speaks when ``speak_prob`` is greater, in [0, 1]."""
    update_threshold: float = 0.5
    """The assistant updates the state when ``update_prob`` is greater, in [0, 1]."""
    decision_policy: DecisionPolicy = "heads"
    """Where the probabilities come from; see ``engine.control.policies``."""
    max_updates_per_frame: int = 4
    """At most so many updates at one frame; 1 stops after the first."""
    illegal_updates: IllegalUpdates = "apply"
    """Whether an update that skips, repeats or goes backwards changes the state."""
    max_new_tokens: int = 128
    """Longest response."""
    max_update_tokens: int = 16
    """Longest update."""
    max_seq_len: int = 4096
    """Longest context."""
    reserved_seq_len: int = 512
    """Room kept for the turn at hand: the context is refreshed at ``max_seq_len - reserved_seq_len``."""
    prefill_frames: int = 1
    """Frames fed together at the start."""
    lookahead: int = 64
    """Frames fed together afterwards, at most: few after a trigger, more the longer frames stay silent; 1 for live
    input. Any value gives the same triggers, texts and states."""
    draft_tokens: int = 24
    """Tokens of a text that are guessed and verified in one pass, at most; 0 writes token by token. Any value gives the
    same texts. Sampling writes token by token."""
    do_sample: bool = False
    """Sample the next token instead of taking the likeliest."""
    temperature: float = 1.0
    """Divides the logits when sampling."""
    top_p: float = 1.0
    """Sample from the smallest set of tokens that holds this probability mass."""
    seed: int = 0
    """Seed of the sampling."""

    def __post_init__(self) -> None:
        """Check every kind and range."""
        for field in fields(self):
            kind, what = _KINDS.get(field.type, ((str,), "text"))
            value = getattr(self, field.name)
            _require(isinstance(value, kind) and (bool in kind or not isinstance(value, bool)), field.name, value, what)
        for name in ("speak_threshold", "update_threshold"):
            _require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "within [0, 1]")
        for name in ("fps", "temperature", "top_p"):
            _require(0 < getattr(self, name) < float("inf"), name, getattr(self, name), "positive")
        _require(self.top_p <= 1, "top_p", self.top_p, "at most 1")
        for name in ("max_updates_per_frame", "max_new_tokens", "max_update_tokens", "prefill_frames"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        _require(self.lookahead >= 1, "lookahead", self.lookahead, "at least 1")
        _require(self.draft_tokens >= 0, "draft_tokens", self.draft_tokens, "at least 0")
        for name, choices in (("decision_policy", DecisionPolicy), ("illegal_updates", IllegalUpdates)):
            _require(
                getattr(self, name) in get_args(choices),
                name,
                getattr(self, name),
                f"one of {', '.join(get_args(choices))}",
            )
        _require(
            self.max_turn_tokens <= self.reserved_seq_len < self.max_seq_len,
            "reserved_seq_len",
            self.reserved_seq_len,
            f"at least the longest turn ({self.max_turn_tokens}) and less than max_seq_len ({self.max_seq_len})",
        )

    @property
    def max_turn_tokens(self) -> int:
        """Tokens that one frame's updates and response can take, with their opening and closing tokens."""
        return self.max_updates_per_frame * (self.max_update_tokens + 2) + self.max_new_tokens + 2

    @property
    def room(self) -> int:
        """Longest context that an image may end at: the longest turn still fits behind it."""
        return self.max_seq_len - self.max_turn_tokens

    def frame_by_frame(self) -> "StreamConfig":
        """Return the definition of the same stream: frame by frame and token by token."""
        return replace(self, prefill_frames=1, lookahead=1, draft_tokens=0)

    @property
    def refresh_at(self) -> int:
        """Context length at which the cache is dropped."""
        return self.max_seq_len - self.reserved_seq_len


SETTING_HELP: Mapping[str, str] = {
    "fps": "frames sampled per second of video; above the video's own rate its pictures repeat",
    "speak_threshold": "the assistant speaks when the probability exceeds this",
    "update_threshold": "the assistant updates the state when the probability exceeds this",
    "decision_policy": "where the probabilities come from",
    "max_updates_per_frame": "at most so many updates at one frame",
    "illegal_updates": "whether an update that skips, repeats or goes backwards changes the state",
    "max_new_tokens": "longest response, in tokens",
    "max_update_tokens": "longest update, in tokens",
    "max_seq_len": "longest context, in tokens",
    "reserved_seq_len": "tokens of it kept for the turn at hand",
    "prefill_frames": "frames fed together at the start",
    "lookahead": "frames fed together afterwards, at most; changes the speed alone",
    "draft_tokens": "tokens guessed and verified in one pass, at most; changes the speed alone",
    "do_sample": "sample the next token instead of taking the likeliest",
    "temperature": "divides the logits when sampling",
    "top_p": "sample from the smallest set of tokens that holds this probability mass",
    "seed": "of the sampling",
}
"""What help says of each setting of a stream."""


def read_threshold(value: object, name: str) -> float:
    """Read a threshold as it was typed, such as ``0.4`` or ``0,4``: the one reader of the page, of links and commands.

    Args:
        value: A number, or its text.
        name: The threshold's name, ``speak`` or ``update``.

    Raises:
        ValueError: Anything but a number from 0 to 1.
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
    """Write a threshold with all digits that it has, such as ``0.725``; ``read_threshold`` reads the same number."""
    return np.format_float_positional(value, trim="-")


def _require(holds: bool, name: str, value: object, what: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {what}; got {value!r}")


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases, of which a short file can make a mapping without end."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it repeats a value by an alias; write the value out")
        return super().compose_node(parent, index)


def read_config(path: Path, **overrides: Any) -> StreamConfig:
    """Read a YAML mapping of ``StreamConfig`` fields; ``overrides`` win.

    Raises ``ValueError`` naming the file for anything but such a mapping.
    """
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=_PlainLoader) or {}
    except RecursionError:
        raise ValueError(f"{path} cannot be read as YAML: it is nested too deep") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as YAML: {' '.join(str(error).split())}") from error
    known = {field.name for field in fields(StreamConfig)}
    if not isinstance(values, dict) or not set(values) <= known:
        odd = sorted(map(str, set(values) - known)) if isinstance(values, dict) else "not a mapping"
        raise ValueError(f"{path} must map settings of StreamConfig to values; found {odd}")
    return StreamConfig(**{**values, **overrides})
