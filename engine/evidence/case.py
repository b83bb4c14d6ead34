"""One decision of a recording: its context, its frames there, and the changes of texts that are tried."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.draft_buffer import Trace, TurnKind
from stepscope.engine.control.prompt_codec import PromptCodec, read_reply
from stepscope.engine.control.questions import StateReader
from stepscope.engine.control.requests import Image
from stepscope.engine.control.speculator import index_written
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import initial_state, parse_update
from stepscope.engine.errors import EngineError
from stepscope.engine.evidence.records import Contrast, Target, TextChange
from stepscope.engine.evidence.targets import Probe, make_answer_probe, make_decision_probe, make_text_probe
from stepscope.engine.inference.fed_context import FedContext, list_starts, read_context
from stepscope.engine.records import Step, frame_at
from stepscope.engine.replay import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFrame:
    """A frame whose picture is in the context."""

    index: int
    segment: int
    item: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedText:
    """A context with a changed text."""

    change: TextChange
    text: str
    context: FedContext


class DecisionCase:
    """The context of one decision of a finished recording, and its changes."""

    def __init__(self, recording: Recording, trace: Trace, *, frame_index: int, target: Target | Contrast) -> None:
        if not isinstance(target, Contrast) and target not in ("speak", "update", "silence"):
            raise ValueError(f"target must be speak, update, silence or a Contrast; got {target!r}")
        checkpoint, config = recording.checkpoint, recording.config
        self._recording, self._trace, self.frame = recording, trace, frame_index
        self.target = target
        self.codec: PromptCodec = checkpoint.prompt
        self._separators = {checkpoint.prompt.frame_separator}
        if config.policy.reads_states:
            states = StateReader(config, checkpoint.prompt)
            self.codec, self._separators = states.codec, set(states.separators.values())
        self.image_tokens = checkpoint.model.count_tokens(recording.features[0].features)
        self._context_number = trace.frame_starts[frame_index].context
        self._root = trace.find_root(self._context_number)
        opening, self.probe = self._read_target(config)
        fed = read_context(trace, self._context_number, num_items=self._find_image(frame_index) + 1)
        segments = (*fed.segments[:-1], (*fed.segments[-1], *opening))
        self.context = replace(fed, segments=segments)

    @cached_property
    def frames(self) -> list[ContextFrame]:
        """The frames of which the context has a picture, or a part of it, in order."""
        held = {tag[:2] for tag in self.context.list_tags(image_tokens=self.image_tokens)}
        frames = [
            ContextFrame(index=index, segment=start.context - self._root, item=self._find_image(index))
            for index, start in self._trace.frame_starts.items()
            if index <= self.frame and start.context >= self._root
        ]
        return [frame for frame in frames if (frame.segment, frame.item) in held]

    def picture(self, frame: int) -> int:
        """Return the frame whose picture is shown at a frame."""
        return self._recording.intervention.pictures.get(frame, frame)

    def show(self, pictures: Mapping[ContextFrame, int]) -> FedContext:
        """Return the context with other pictures at some frames."""
        return self.context.show({(frame.segment, frame.item): picture for frame, picture in pictures.items()})

    def keep_last(self, num_frames: int) -> FedContext:
        """Return the context with the last frames alone: all earlier ones show the first picture of the context."""
        earlier = self.frames[: len(self.frames) - num_frames]
        return self.show(dict.fromkeys(earlier, self.picture(self.frames[0].index)))

    def count_tokens_from(self, frame: ContextFrame) -> int:
        """Return the tokens of the context from a frame on, those of the same segment and later ones."""
        later = (self.context.segments[frame.segment][frame.item :], *self.context.segments[frame.segment + 1 :])
        return sum(list_starts(pieces, image_tokens=self.image_tokens)[-1] for pieces in later)

    def list_texts(self) -> list[ChangedText]:
        """Return the context without each line of its prompt and each turn, and with steps swapped in the prompt."""
        return [*self._remove_lines(), *self._remove_turns(), *self._swap_steps()]

    def _find_image(self, frame: int) -> int:
        start = self._trace.frame_starts[frame]
        items = self._trace.contexts[start.context]
        return next(n for n in range(start.item, len(items)) if isinstance(items[n].item.piece, Image))

    def _find_state(self, frame: int) -> tuple[Task, dict[str, str]]:
        """Return the task before a frame, and the state of its steps."""
        recording, change = self._recording, self._recording.intervention
        task = recording.task
        if change.task is not None and frame >= change.task_from:
            task = replace(task, goal=change.task.goal, steps=change.task.steps)
        given = {**task.initial_state, **(change.task.initial_state if change.task else {})}
        before = recording.outputs[frame - 1].dst_state if frame else {}
        known = {step.id: before[step.id] for step in task.steps if step.id in before}
        return task, {**initial_state(task.steps, given), **known, **change.states.get(frame, {})}

    def _read_target(self, config: StreamConfig) -> tuple[tuple[int, ...], Probe]:
        """Return the tokens behind the image that precede the target, and the probe."""
        checkpoint, target = self._recording.checkpoint, self.target
        task, state = self._find_state(self.frame)
        if not isinstance(target, Contrast):
            if not config.decides_at(self.frame):
                raise ValueError(f"frame {self.frame} has no decision: the model is asked every {config.ask_every_s} s")
            return (), make_decision_probe(checkpoint, config, target, steps=task.steps, state=state)
        if target.kind == "update" and config.policy.source == "answer":
            return (), make_answer_probe(checkpoint, config, target, steps=task.steps)
        before, written = self._find_written(task, config, target)
        expected = self.codec.words(target.expected)
        return before, make_text_probe(written, expected, eos_id=self.codec.eos_id)

    def _find_written(self, task: Task, config: StreamConfig, target: Contrast) -> tuple[tuple[int, ...], list[int]]:
        """Return the tokens from the image to the written text of the turn, and those of the text."""
        output, codec = self._recording.outputs[self.frame], self.codec
        asks = config.policy.source == "answer"  # its updates have no text
        texts: list[tuple[TurnKind, str]] = [("update", text) for text in output.updates if not asks]
        texts += [("response", output.response)] if output.response is not None else []
        if (target.kind, target.written) not in texts:
            raise ValueError(f"frame {self.frame} has no {target.kind} {target.written!r}")
        user_texts = [turn.text for turn in task.all_user_turns if frame_at(turn.time_s, config.fps) == self.frame]
        answered = codec.user_turns(user_texts) if user_texts and codec.answers_user_turns else ()
        # the model's own ids, of which the tokenizer might make others
        known = index_written(codec, self._trace.written.get(self.frame, ()))
        before = list[int]()
        for kind, text in texts:
            before += codec.update_opening if kind == "update" else answered or codec.response_opening
            ids = list(known.get((kind, text)) or codec.words(text))
            if (kind, text) == (target.kind, target.written):
                thought = read_reply(codec, ids)[1] if kind == "response" else None
                num_tokens = thought.num_tokens or 0 if thought else 0  # it precedes both texts
                return (*before, *ids[:num_tokens]), ids[num_tokens:]
            before += [*ids, codec.eos_id] if codec.feeds_eos else ids
        raise AssertionError("the text is in the turn")

    @property
    def _prompt(self) -> Sequence[int]:
        pieces = self.context.segments[0][: self._trace.starts[self._root].prompt_tokens]
        return [piece for piece in pieces if isinstance(piece, int)]

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._recording.checkpoint.prompt.tokenizer.decode(list(ids), skip_special_tokens=False))

    def _splice(self, change: TextChange, text: str, segment: int, items: range, ids: Sequence[int]) -> ChangedText:
        context = self.context.splice(segment, items, ids, image_tokens=self.image_tokens)
        return ChangedText(change=change, text=text, context=context)

    def _remove_lines(self) -> Iterator[ChangedText]:
        """Yield the prompt without each line, apart from its special tokens, which are the template's."""
        special, prompt = set(self._recording.checkpoint.prompt.tokenizer.all_special_ids), self._prompt
        ends = [number + 1 for number, token in enumerate(prompt) if "\n" in self._decode([token])]
        for start, stop in pairwise(dict.fromkeys((0, *ends, len(prompt)))):
            kept = [token for token in prompt[start:stop] if token in special]
            text = self._decode([token for token in prompt[start:stop] if token not in special]).strip()
            if text:
                yield self._splice("line removed", text, 0, range(start, stop), kept)

    def _remove_turns(self) -> Iterator[ChangedText]:
        """Yield the context without each text between two pictures, as if both sides were silent there."""
        config, outputs, prompt = self._recording.config, self._recording.outputs, tuple(self._prompt)
        held = {tag[:2] for tag in self.context.list_tags(image_tokens=self.image_tokens)}
        first = [(0, len(prompt), prompt)] if prompt else []
        after = [(frame.segment, frame.item + 1, self.codec.frame_separator) for frame in self.frames[:-1]]
        by_place = {(frame.segment, frame.item): frame.index for frame in self.frames}
        for segment, start, before in (*first, *after):
            pieces = self.context.segments[segment]
            stop = next((n for n in range(start, len(pieces)) if isinstance(pieces[n], Image)), None)
            if stop is None or (segment, stop) not in by_place or (segment, start) not in held:
                continue  # an end of a turn that a cut separates from its beginning
            silence = () if start == len(prompt) and segment == 0 else before
            instant = round(outputs[by_place[segment, stop]].time_s * config.fps)
            silence += self.codec.before_image((), config.text_before(instant), after=before)
            written = pieces[start:stop]
            if written != silence and written not in self._separators:
                text = self._decode([piece for piece in written if isinstance(piece, int)])
                yield self._splice("turn removed", text.strip(), segment, range(start, stop), silence)

    def _swap_steps(self) -> Iterator[ChangedText]:
        """Yield the prompt with the names, and with the places, of two steps exchanged.

        They are the two steps of a contrast, or else all neighbours.
        """
        started = [index for index, start in self._trace.frame_starts.items() if start.context == self._root]
        task, state = self._find_state(started[0])
        prompt, forgotten = tuple(self._prompt), self._trace.starts[self._root].forgotten
        for a, b in self._list_pairs(task.steps):
            first, second = task.steps[a], task.steps[b]
            changes: dict[TextChange, dict[int, Step]] = {
                "names swapped": {a: replace(first, name=second.name), b: replace(second, name=first.name)},
                "places swapped": {a: second, b: first},
            }
            for change, exchanged in changes.items():
                steps = [exchanged.get(number, step) for number, step in enumerate(task.steps)]
                old, new = (
                    self.codec.schema(
                        goal=task.goal,
                        steps=listed,
                        state=state,
                        summary=forgotten.summary if forgotten else None,
                        instructions=self._recording.config.system_prompt,
                    )
                    for listed in (task.steps, steps)
                )
                if prompt and old != prompt:
                    raise EngineError("the prompt of the run cannot be written again; its steps cannot be swapped")
                if prompt and new != old:
                    changed = self._splice(change, f"{first.id}, {second.id}", 0, range(len(prompt)), new)
                    yield changed

    def _list_pairs(self, steps: Sequence[Step]) -> list[tuple[int, int]]:
        if not isinstance(self.target, Contrast) or self.target.kind == "response":
            return list(pairwise(range(len(steps))))
        updates = [parse_update(text) for text in (self.target.written, self.target.expected)]
        ids = [step.id for step in steps]
        places = sorted({ids.index(update.step_id) for update in updates if update and update.step_id in ids})
        return [(places[0], places[1])] if len(places) == 2 else []
