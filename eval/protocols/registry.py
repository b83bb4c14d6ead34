"""All protocols by name, their rules as Markdown, and the score of references and replies under one of them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Final

from stepscope.eval.protocols.benchmarks import categories, reply_spans, start_times, timeliness, whole_videos
from stepscope.eval.protocols.protocol import Protocol, Span, Sums, Video

Accuracy = float | Sequence[float]
"""How right a reply is, in [0, 1]: one number, or one for each reference of the video."""
References = Sequence[tuple[float, float]]
Replies = Sequence[tuple[float, Accuracy]]


_MODULES: Final = (categories, reply_spans, start_times, timeliness, whole_videos)
_ALL: Final = tuple(protocol for module in _MODULES for protocol in module.PROTOCOLS)
PROTOCOLS: Final[Mapping[str, Protocol]] = {one.name: one for one in sorted(_ALL, key=lambda one: one.name)}
"""Every protocol by its name, such as ``spot-pnr``."""


def find_protocol(name: str) -> Protocol:
    """Return a protocol. Raise ``ValueError`` for an unknown name."""
    if name not in PROTOCOLS:
        raise ValueError(f"there is no protocol {name!r}; choose one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def score_protocol(
    name: str,
    references: References | Sequence[References],
    replies: Replies | Sequence[Replies],
    *,
    durations_s: float | Sequence[float] | None = None,
    **parameters: float,
) -> dict[str, float]:
    """Score replies against references under a protocol, and return its scores; nan if undefined.

    Args:
        name: Name of the protocol; see ``PROTOCOLS``.
        references: ``(start_s, end_s)`` of each reference of a video, equal for an instant; or a list of such lists,
            one for each video.
        replies: ``(time_s, accuracy)`` of each reply, likewise; the accuracy is in [0, 1], or a list with one for each
            reference of the video.
        durations_s: Length of each video, for protocols that also count silence; later turns are left out. By default,
            a video ends with its last reference or reply.
        parameters: Numbers of the rule that differ from the published ones, such as ``k=1``.

    Raises ``ValueError`` that names the value for an unknown protocol or parameter, and for an invalid value.
    """
    protocol = find_protocol(name)
    values = protocol.check_parameters(parameters)
    are_many = _is_list_of_videos(references) or _is_list_of_videos(replies)
    of_videos: Sequence[Any] = references if are_many else [references]
    said: Sequence[Any] = replies if are_many else [replies]
    lengths = durations_s if isinstance(durations_s, Sequence) else [durations_s] * len(of_videos)
    if not len(of_videos) == len(said) == len(lengths):
        raise ValueError(
            f"references, replies and durations_s must be of the same videos; got {len(of_videos)}, {len(said)} and "
            f"{len(lengths)}"
        )
    videos = [make_video(*parts) for parts in zip(of_videos, said, lengths, strict=True)]
    for number, video in enumerate(videos):
        if protocol.has_one_reference and len(video.references) > 1:
            raise ValueError(f"{name} has one reference for each video; video {number} has {len(video.references)}")
    return protocol.summarize(add_sums(protocol.count(video, **values).sums for video in videos))


def make_video(references: References, replies: Replies, duration_s: float | None = None) -> Video:
    """Return the record of a video, in order of time. Raise ``ValueError`` for an invalid value."""
    order = sorted(range(len(references)), key=lambda number: tuple(references[number]))
    spans = tuple(Span(*(_check_time("a reference", value) for value in references[number])) for number in order)
    for span in spans:
        if span.end_s < span.start_s:
            raise ValueError(f"a reference must end at or after its start; got {tuple(span)}")
    timed = [(_check_time("a reply", time_s), accuracy) for time_s, accuracy in replies]
    timed.sort(key=lambda reply: reply[0])
    return Video(
        references=spans,
        times_s=tuple(time_s for time_s, _ in timed),
        accuracies=tuple(_read_accuracies(accuracy, order) for _, accuracy in timed),
        duration_s=None if duration_s is None else _check_time("a duration", duration_s),
    )


def add_sums(counts: Iterable[Sums]) -> Sums:
    """Return the counts of many videos, added."""
    total: dict[str, float] = {}
    for one in counts:
        for name, value in one.items():
            total[name] = total.get(name, 0.0) + value
    return total


def _is_list_of_videos(values: Sequence[Any]) -> bool:
    """Return whether the items are lists of pairs, not pairs of numbers; an empty item is a video without any."""
    for item in values:
        if not isinstance(item, Sequence):
            raise ValueError(f"a reference is (start_s, end_s) and a reply (time_s, accuracy); got {item!r}")
    return any(not len(item) or not isinstance(item[0], Real) for item in values)


def _check_time(what: str, value: object) -> float:
    time_s = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0 <= time_s < math.inf:
        raise ValueError(f"the times of {what} must be seconds from 0; got {value!r}")
    return time_s


def _read_accuracies(accuracy: Accuracy, order: Sequence[int]) -> tuple[float, ...]:
    given = accuracy if isinstance(accuracy, Sequence) else [accuracy]
    values = [float(value) if isinstance(value, Real) else math.nan for value in given]
    for number, value in enumerate(values):
        if not 0 <= value <= 1:
            raise ValueError(f"an accuracy must be a number from 0 to 1; got {given[number]!r}")
    if not isinstance(accuracy, Sequence):
        values *= len(order)
    elif len(values) != len(order):
        raise ValueError(f"a reply must have one accuracy, or one for each of {len(order)} references; got {accuracy}")
    return tuple(values[number] for number in order)


def to_markdown() -> str:
    """Return a table of the rules, and one of the published judges and parameters."""
    rules = _tabulate(
        ("protocols", "window", "matching", "scores", "source"),
        lambda one: (one.windows, one.matching, one.aggregation, one.source),
    )
    parameters = _tabulate(
        ("protocols", "published judge", "parameters"),
        lambda one: (one.judge, ", ".join(f"{name} {part.default:g}" for name, part in one.parameters.items())),
    )
    return f"{rules}\n{parameters}"


def _tabulate(heads: Sequence[str], describe: Callable[[Protocol], tuple[str, ...]]) -> str:
    """Return a table with a row for each description, and the protocols that share it."""
    names: dict[tuple[str, ...], list[str]] = {}
    for protocol in PROTOCOLS.values():
        names.setdefault(describe(protocol), []).append(f"`{protocol.name}`")
    rows = [heads, ["---"] * len(heads), *([", ".join(same), *cells] for cells, same in names.items())]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)
