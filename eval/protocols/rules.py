"""A rule: a protocol with its parameters, as commands name it, and the videos of a run under it."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from stepscope.engine.dialogue import parse_update
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.matching.grading import MAX_GRADE, Grade, RememberedGrades, Reply
from stepscope.eval.metrics.counts import Counts
from stepscope.eval.metrics.replies.reply_spans import TimedReply, find_question, grade_span, list_replies
from stepscope.eval.protocols.benchmarks.categories import NearestCategory, list_categories
from stepscope.eval.protocols.protocol import Counted, Protocol, Reads, Span, Video, measure_delay
from stepscope.eval.protocols.registry import find_protocol

_LEAST_REACH_S: Final = 15.0
"""Replies are graded against the references that are at most this far away, or as far as a parameter reaches."""
_EMPTY: Final = Video(references=(), times_s=(), accuracies=(), duration_s=0.0)
_WORDS: Final = re.compile(r"\w(?:.*\w)?", re.DOTALL)
"""A text from its first letter or digit to its last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCounts(Counts):
    """The counts of one or many videos under one rule, in the order of ``Rule.sum_names``."""

    sums: tuple[float, ...] = ()


class RunVideo(NamedTuple):
    """One video of a run under a rule."""

    video: Video
    positions: tuple[int, ...]
    """Position in ``Sample.turns`` of each reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A protocol and all its parameters."""

    protocol: Protocol
    parameters: Mapping[str, float]

    @property
    def name(self) -> str:
        """The name of the protocol, with the parameters that are not the published ones: ``spot-pnr:k=1``."""
        own = [
            f"{name}={value:g}"
            for name, value in self.parameters.items()
            if value != self.protocol.parameters[name].default
        ]
        return ":".join(filter(None, (self.protocol.name, ",".join(own))))

    @property
    def values(self) -> str:
        """All parameters in one line: ``k 5, offset_s 0.5``."""
        return ", ".join(f"{name} {value:g}" for name, value in self.parameters.items())

    @property
    def sum_names(self) -> tuple[str, ...]:
        """The names of the counts."""
        return tuple(self.count(_EMPTY).sums)

    def count(self, video: Video) -> Counted:
        """Count one video."""
        return self.protocol.count(video, **self.parameters)

    def count_outputs(self, sample: Sample, outputs: Sequence[FrameOutput], *, grade: Grade) -> RuleCounts:
        """Count one video of a run."""
        found = self.count(read_video(self, sample, outputs, grade=grade).video)
        return RuleCounts(sums=tuple(map(float, found.sums.values())))

    def summarize(self, counts: RuleCounts) -> dict[str, float]:
        """Return the scores of added counts."""
        sums = counts.sums or (0.0,) * len(self.sum_names)
        return self.protocol.summarize(dict(zip(self.sum_names, sums, strict=True)))

    def choose_grade(self, samples: Sequence[Sample], grade: Grade) -> Grade:
        """Return the judge of texts over the samples of a split: ``grade``, or the nearest of their categories."""
        if not self.protocol.has_categories:
            return grade
        found = (turn.text for sample in samples for _, turn in _list_references(self.protocol, sample))
        return RememberedGrades(NearestCategory(list(found)))

    def explain_undefined(self, samples: Sequence[Sample], *, has_states: bool) -> str:
        """Return the reason why a run on these samples has no scores under the rule; empty if it has."""
        reads = self.protocol.reads
        counts = [len(_list_references(self.protocol, sample)) for sample in samples]
        if reads == "completions" and not has_states:
            return "the run has no states of the steps"
        if not any(counts):
            return f"the split has no references for {reads}"
        if self.protocol.has_one_reference and max(counts) > 1:
            return f"it has one reference for each video; a video of the split has {max(counts)}"
        return ""

    def describe(self) -> str:
        """Return the rule in one line, as in the footnote of a table."""
        one = self.protocol
        judge = f"contents: {one.judge}" if one.has_categories else ""
        parts = (f"window: {one.windows}", f"matching: {one.matching}", judge, one.aggregation, self.values, one.source)
        return f"{self.name} ({one.main}): {'; '.join(filter(None, parts))}."


def parse_rule(text: str) -> Rule:
    """Return the rule that a text such as ``spot-pnr:k=1`` names. Raise ``ValueError`` for an invalid one."""
    name, _, rest = text.partition(":")
    protocol, given = find_protocol(name), dict[str, object]()
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"{text}: write parameters as NAME=NUMBER, such as {name}:{key}=1; got {part!r}") from None
        given[key] = int(number) if math.isfinite(number) and number == int(number) else number
    return Rule(protocol=protocol, parameters=protocol.check_parameters(given))


def parse_rules(texts: Sequence[str]) -> list[Rule]:
    """Return the rules that texts name. Raise ``ValueError`` for one that is named twice."""
    rules = [parse_rule(text) for text in texts]
    found = [rule.name for rule in rules]
    if len(set(found)) < len(found):
        raise ValueError(f"a protocol is given twice: {', '.join(found)}")
    return rules


def read_video(rule: Rule, sample: Sample, outputs: Sequence[FrameOutput], *, grade: Grade) -> RunVideo:
    """Return the references and replies of one video of a run.

    A reply has the time of its frame. Its accuracy is its grade divided by 2; that of a completion is 1 for the same
    step, else 0.
    """
    references = _list_references(rule.protocol, sample)
    turns = [turn for _, turn in references]
    spans = tuple(Span(turn.time_s, turn.time_s if turn.end_s is None else turn.end_s) for turn in turns)
    accuracies: Iterable[Sequence[float]]
    if rule.protocol.reads == "completions":
        done = [(output, step) for output in outputs for text in output.updates if (step := _completed(text))]
        times_s = tuple(output.frame_index / sample.fps for output, _ in done)
        accuracies = ([float(step == _completed(turn.text)) for turn in turns] for _, step in done)
    else:
        said = list_replies(sample, outputs)
        replies = [one for one in said if _words_of(one.text) not in rule.protocol.silence]
        times_s = tuple(reply.time_s for reply in replies)
        grade_all = _grade_joined if rule.protocol.grades_joined else _grade_each
        accuracies = grade_all(rule, replies, turns, spans, find_question(sample), grade)
    num_frames = min(outputs[-1].frame_index + 1 if outputs else 0, sample.num_frames)
    video = Video(
        references=spans, times_s=times_s, accuracies=tuple(map(tuple, accuracies)), duration_s=num_frames / sample.fps
    )
    return RunVideo(video=video, positions=tuple(position for position, _ in references))


def _list_references(protocol: Protocol, sample: Sample) -> list[tuple[int, Turn]]:
    """Return the references that a protocol reads, by start and end, each with its position in the turns."""
    if protocol.has_categories:
        return list_categories(sample, protocol.reads)
    is_read: Mapping[Reads, Callable[[Turn], bool]] = {
        "replies": lambda turn: turn.role == "assistant",
        "replies in spans": lambda turn: turn.role == "assistant" and turn.end_s is not None,
        "completions": lambda turn: turn.role == "update" and bool(_completed(turn.text)),
        "mistakes": lambda _: False,
    }
    found = [one for one in enumerate(sample.turns) if is_read[protocol.reads](one[1])]
    return sorted(found, key=lambda one: (one[1].time_s, one[1].end_s or one[1].time_s, one[0]))


def _words_of(text: str) -> str:
    found = _WORDS.search(text.lower())
    return found[0] if found is not None else ""


def _completed(text: str) -> str:
    """Return the step that an update completes; empty if it completes none."""
    update = parse_update(text)
    return update.step_id if update is not None and update.transition == "complete" else ""


def _grade_each(
    rule: Rule, replies: Sequence[TimedReply], turns: Sequence[Turn], spans: Sequence[Span], question: str, grade: Grade
) -> list[list[float]]:
    """Return the accuracies ``[P, R]`` of each reply by itself: 0 out of reach, and 1 if the rule reads no texts."""
    if not rule.protocol.reads_contents:
        return [[1.0] * len(turns) for _ in replies]
    reach_s = max([_LEAST_REACH_S, *(value for name, value in rule.parameters.items() if name.endswith("_s"))])
    pairs = [
        (row, number)
        for row, reply in enumerate(replies)
        for number, span in enumerate(spans)
        if abs(measure_delay(reply.time_s, span)) <= reach_s
    ]
    items = [Reply(question=question, gold=turns[number].text, text=replies[row].text) for row, number in pairs]
    accuracies = [[0.0] * len(turns) for _ in replies]
    for (row, number), found in zip(pairs, grade(items), strict=True):
        accuracies[row][number] = found / MAX_GRADE
    return accuracies


def _grade_joined(
    _: Rule, replies: Sequence[TimedReply], turns: Sequence[Turn], spans: Sequence[Span], question: str, grade: Grade
) -> list[list[float]]:
    """Return the accuracies ``[P, R]`` of all replies of a span so far; nan for one that PAUC does not count."""
    accuracies = [[math.nan] * len(turns) for _ in replies]
    for number, turn in enumerate(turns):
        rows = {one.time_s: row for row, one in enumerate(replies) if measure_delay(one.time_s, spans[number]) == 0}
        inside = [replies[row] for row in rows.values()]
        for one in grade_span(inside, turn, question=question, grade=grade):
            accuracies[rows[one.time_s]][number] = one.grade / MAX_GRADE
    return accuracies
