"""A clip as one sequence of tokens with labels, laid out like a stream's context.

The LM labels are the tokens after an opening. The heads' labels are at the last image token (does an update, a response
follow) and at an update's ``<eos>`` (does one more update follow). The labels of a frame with one update and one
response::

    tokens   <image>  [DST]  S3          ->complete  <eos>  [ASST]  Good   <eos>
    targets  -        S3     ->complete  <eos>       -      Good    <eos>  -
    speak    1        -      -           -           -      -       -      -
    update   1        -      -           -           0      -       -      -
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

from stepscope.engine.control.questions import SPEAK_QUESTION, list_update_questions
from stepscope.engine.decisions.policies import Signal
from stepscope.engine.decisions.signals import RESPONSE, SILENCE
from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.model.prompt import StreamPrompt, find_answer_ids
from stepscope.engine.records import Step
from stepscope.engine.training.config import Decisions

IGNORE_INDEX = -100
"""Label that no loss counts, as in PyTorch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTurn:
    """One reference turn of a clip."""

    frame_index: int
    role: Literal["update", "user", "assistant"]
    """An update or a response, which follows the image of its frame, or a user turn, which precedes it."""
    text: str
    """The update, such as ``S3->start``, or the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingClip:
    """The annotation of one clip."""

    goal: str
    steps: tuple[Step, ...]
    turns: tuple[TrainingTurn, ...]
    """Reference turns in order; within a frame updates, user, assistant."""
    num_frames: int
    initial_state: Mapping[str, str] = field(default_factory=dict)
    """States of steps at the start; ``not_started`` for the rest."""

    def state_before(self, frame: int) -> Mapping[str, str]:
        """Return the state of the steps before the updates of a frame."""
        state: Mapping[str, str] = initial_state(self.steps, self.initial_state)
        for turn in self.turns:
            if turn.role == "update" and turn.frame_index < frame:
                state = apply_update(state, turn.text).state
        return state

    def list_texts(self) -> defaultdict[tuple[int, str], list[str]]:
        """Return the texts of the turns by frame and role, in order; an empty list for no turn."""
        texts: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        for turn in self.turns:
            texts[turn.frame_index, turn.role].append(turn.text)
        return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBranch:
    """Tokens behind a frame that the context does not keep, such as a question and its answer."""

    position: int
    """The last token of the context that they see."""
    ids: tuple[int, ...]
    targets: tuple[int, ...]
    """The next token to predict at each of them; -100 for no target."""
    signal: Signal
    is_positive: bool
    """Whether the answer is yes, or the state is not silence."""
    is_kept: bool
    """Whether it counts at every rate of negatives: for yes, and right after an update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceResponse:
    """One reference response in a sequence; positions count tokens."""

    frame: int
    start: int
    """Position of the first token of its opening, right after the image and the updates of its frame."""
    stop: int
    """Position after its last token and those that open the frames again."""
    predictors: tuple[int, ...]
    """For each token of its text and its end, the position at which the model predicts it."""
    targets: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class TrainingSequence:
    """A clip as tokens; all lists but the last three have one entry per token."""

    ids: list[int] = field(default_factory=list)
    """Token ids; the image placeholder for the tokens of a frame."""
    frames: list[int] = field(default_factory=list)
    """Index of an image token in the clip's ``[T * I]`` features; -100 for text."""
    targets: list[int] = field(default_factory=list)
    """Next token to predict; -100 for no target."""
    speak: list[int] = field(default_factory=list)
    """Label of the speaking head, 1 or 0; -100 for no label. Likewise ``update``."""
    update: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Per frame, the number of tokens up to its end, including its turns."""
    branches: list[TrainingBranch] = field(default_factory=list)
    responses: list[SequenceResponse] = field(default_factory=list)

    def append(self, token: int, *, frame: int = IGNORE_INDEX) -> None:
        """Append one token without labels."""
        self.ids.append(token)
        self.frames.append(frame)
        for labels in (self.targets, self.speak, self.update):
            labels.append(IGNORE_INDEX)

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens without labels."""
        for token in tokens:
            self.append(token)

    def append_turn(self, prompt: StreamPrompt, opening: Sequence[int], words: Sequence[int]) -> None:
        """Append an assistant turn, with its words and ``<eos>`` as targets."""
        self.extend(opening)
        for token in words:
            self.targets[-1] = token
            self.append(token)
        self.targets[-1] = prompt.eos_id
        if prompt.feeds_eos:
            self.append(prompt.eos_id)

    def append_response(self, prompt: StreamPrompt, frame: int, opening: Sequence[int], words: Sequence[int]) -> None:
        """Append a response as a turn, up to the next image."""
        start = len(self.ids)
        first = start + len(opening) - 1  # predicts the first word: the end of the opening, or of the image without one
        self.append_turn(prompt, opening, words)
        self.extend(prompt.stream_opening)
        self.responses.append(
            SequenceResponse(
                frame=frame,
                start=start,
                stop=len(self.ids),
                predictors=tuple(range(first, first + len(words) + 1)),
                targets=(*words, prompt.eos_id),
            )
        )

    def append_state(self, prompt: StreamPrompt, text: str, *, words: Sequence[int]) -> None:
        """Append a turn with the text of a state and the words of a response, if any.

        The tokens before those of the state have the label of ``speak``, as their targets decide.
        """
        state = prompt.state(text)
        self.extend(prompt.response_opening)
        first = len(self.ids) - 1  # predicts the first token of the state
        self.append_turn(prompt, (), (*state, *words))
        self.speak[first : first + len(state)] = [int(bool(words))] * len(state)
        self.extend(prompt.stream_opening)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRules:
    """How a clip is split into contexts, and how its decisions are written there."""

    refresh_at: int | None = None
    """A context ends after the first frame at which it has so many tokens, as a stream refreshes it; None for never."""
    decisions: Decisions = "heads"
    """For ``answer``, updates are answers to questions in branches, and the context has none."""
    states: Mapping[str, str] | None = None
    """Texts with which the turn of each frame begins, as in streams of the policy state-token."""


def build_sequence(
    clip: TrainingClip,
    prompt: StreamPrompt,
    rules: ContextRules = ContextRules(),
    *,
    tokens_per_frame: int = 1,
    first_frame: int = 0,
) -> TrainingSequence:
    """Return a context of a clip as tokens with labels, from ``first_frame`` on, with the system prompt there."""
    states = rules.states
    sequence, state = TrainingSequence(), clip.state_before(first_frame)
    sequence.extend(prompt.schema(goal=clip.goal, steps=clip.steps, state=state))
    texts, questioner = clip.list_texts(), _Questioner(prompt) if rules.decisions == "answer" else None
    questions: list[str] = []
    for frame in range(first_frame, clip.num_frames):
        said, updates = texts[frame, "assistant"], texts[frame, "update"]
        questions += texts[frame, "user"]
        if not prompt.answers_user_turns:  # else they precede the next response
            sequence.extend(prompt.before_image(questions, after=sequence.ids))
            questions = []
        for index in range(tokens_per_frame):
            sequence.append(prompt.image_id, frame=frame * tokens_per_frame + index)
        if states is None:
            sequence.speak[-1] = int(bool(said))  # at the last image token
        if questioner is not None:
            position = len(sequence.ids) - 1
            sequence.branches += questioner.ask(position, clip.steps, state, updates=updates, speaks=bool(said))
            for text in updates:
                state = apply_update(state, text).state
            updates = []
        for text in updates if prompt.update_opening else ():
            sequence.update[-1] = 1  # at the last image token, or at the <eos> of the previous update
            sequence.append_turn(prompt, prompt.update_opening, prompt.words(text))
        sequence.update[-1] = 0  # no further update follows
        if states is not None:
            sequence.append_state(prompt, states[RESPONSE if said else SILENCE], words=prompt.words(" ".join(said)))
        else:
            for text in said:
                opening = prompt.user_turns(questions) if questions else prompt.response_opening
                sequence.append_response(prompt, frame, opening, prompt.words(text))
                questions = []
            if not said:
                sequence.extend(prompt.frame_separator)
        sequence.ends.append(len(sequence.ids))
        if rules.refresh_at is not None and sequence.ends[-1] >= rules.refresh_at:
            break
    return sequence


class _Questioner:
    """Asks the questions of the policy ``answer`` behind the frames of a clip, in order."""

    def __init__(self, prompt: StreamPrompt) -> None:
        yes, no = find_answer_ids(prompt.tokenizer)
        self._answers = {True: yes[0], False: no[0]}
        self._encode = cache(prompt.question)
        self._had_update = False
        """Whether the frame before had an update: the questions that follow from it are the ones easily mistaken."""

    def ask(
        self, position: int, steps: Sequence[Step], state: Mapping[str, str], *, updates: Sequence[str], speaks: bool
    ) -> Iterator[TrainingBranch]:
        """Yield the questions behind a frame, with the answers of the reference."""
        yield self._answer(position, SPEAK_QUESTION, "speak", is_yes=speaks, is_kept=speaks)
        for question in list_update_questions(steps, state):
            is_yes = question.update in updates
            yield self._answer(position, question.text, "update", is_yes=is_yes, is_kept=is_yes or self._had_update)
        self._had_update = bool(updates)

    def _answer(self, position: int, text: str, signal: Signal, *, is_yes: bool, is_kept: bool) -> TrainingBranch:
        ids = self._encode(text)
        targets = (*(IGNORE_INDEX for _ in ids[1:]), self._answers[is_yes])
        return TrainingBranch(
            position=position, ids=ids, targets=targets, signal=signal, is_positive=is_yes, is_kept=is_kept
        )


def find_contexts(
    clip: TrainingClip, prompt: StreamPrompt, rules: ContextRules, *, tokens_per_frame: int = 1
) -> list[TrainingSequence]:
    """Return a clip as the sequences of consecutive contexts."""
    contexts, first = list[TrainingSequence](), 0
    while first < clip.num_frames:
        contexts.append(build_sequence(clip, prompt, rules, tokens_per_frame=tokens_per_frame, first_frame=first))
        first += len(contexts[-1].ends)
    return contexts


def collate(sequences: Sequence[TrainingSequence], name: str) -> Tensor:
    """Pad the list ``name`` of every sequence to a tensor ``[B, L]``; ids with 0, labels with -100."""
    lists = [torch.tensor(getattr(sequence, name)) for sequence in sequences]
    return nn.utils.rnn.pad_sequence(lists, batch_first=True, padding_value=0 if name == "ids" else IGNORE_INDEX)
