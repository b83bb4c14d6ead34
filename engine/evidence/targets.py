"""How the log-odds of a decision, or of two texts, are read behind a context."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.questions import (
    COMPLETE_QUESTION,
    SPEAK_QUESTION,
    START_QUESTION,
    StateReader,
    list_update_questions,
)
from stepscope.engine.control.requests import Branch
from stepscope.engine.decisions.signals import RESPONSE, list_states
from stepscope.engine.dialogue import parse_update
from stepscope.engine.evidence.records import Contrast
from stepscope.engine.inference.readout import ReadoutSpec, find_reads, make_readout_spec, read_branches
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.vision_language import VisionLanguageModel
from stepscope.engine.records import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The log-odds of a target behind one context."""

    log_odds: float
    margin: float
    """Positive where the decision is made, or where the written text is preferred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Tokens behind a context, and the positions among them that are read; -1 is the last token of the context."""

    ids: tuple[int, ...] = ()
    reads: tuple[int, ...] = (-1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The tokens that are read behind a context, and how they become log-odds."""

    tails: tuple[Tail, ...]
    read: Callable[[VisionLanguageModel, Sequence[Tensor]], Reading]
    """Reads the hidden states ``[R, D]`` of each tail."""
    threshold: float = 0.0


def make_decision_probe(
    checkpoint: Checkpoint, config: StreamConfig, signal: str, *, steps: Sequence[Step], state: dict[str, str]
) -> Probe:
    """Return the probe of ``speak``, ``update`` or ``silence`` at an image, with the steps and their state before it.

    Raises ``ValueError`` for an update that the policy does not decide.
    """
    policy, spec, prompt = config.policy, make_readout_spec(checkpoint, config), checkpoint.prompt
    if signal == "update" and not policy.has_updates:
        raise ValueError(f"the policy {policy.name} decides no updates; choose speak or silence")
    threshold = _logit(config.threshold("update" if signal == "update" else "speak"))
    branches = list[Branch]()
    if policy.reads_states:
        branches = [Branch(position=0, ids=ids) for ids in StateReader(config, prompt).branches]
    elif policy.source == "answer":
        questions = [question.text for question in list_update_questions(steps, state)]
        texts = questions if signal == "update" else [SPEAK_QUESTION]
        branches = [Branch(position=0, ids=(*prompt.question(text), *prompt.without_thought)) for text in texts]
        if not branches:
            raise ValueError("no update is possible at this frame: all steps are completed")
    names = list(list_states(policy, config.states))

    def read(model: VisionLanguageModel, hidden: Sequence[Tensor]) -> Reading:
        if policy.reads_states:
            log_odds, best = _read_states(model, hidden, branches, spec, names), -math.inf
        elif branches:
            log_odds, best = max(_read_answer(model, states, spec) for states in hidden), -math.inf
        else:
            log_odds, best = _read_image(model, hidden[0], spec, signal)
        margin = max(log_odds - threshold, best)
        sign = -1 if signal == "silence" else 1
        return Reading(log_odds=sign * log_odds, margin=sign * margin)

    sign = -1 if signal == "silence" else 1
    return Probe(tails=_list_tails(branches, spec), read=read, threshold=sign * threshold)


def make_answer_probe(
    checkpoint: Checkpoint, config: StreamConfig, contrast: Contrast, *, steps: Sequence[Step]
) -> Probe:
    """Return the probe of two updates of a model that answers: the log-odds of yes to one less those to the other."""
    spec = make_readout_spec(checkpoint, config)
    names = {step.id: step.name for step in steps}
    branches = list[Branch]()
    for text in (contrast.written, contrast.expected):
        update = parse_update(text)
        if update is None or update.step_id not in names:
            raise ValueError(f"an update of a step of the task is needed; got {text!r}")
        question = START_QUESTION if update.transition == "start" else COMPLETE_QUESTION
        ids = checkpoint.prompt.question(question.format(name=names[update.step_id]))
        branches.append(Branch(position=0, ids=(*ids, *checkpoint.prompt.without_thought)))

    def read(model: VisionLanguageModel, hidden: Sequence[Tensor]) -> Reading:
        written, expected = (_read_answer(model, states, spec) for states in hidden)
        return Reading(log_odds=written - expected, margin=written - expected)

    return Probe(tails=_list_tails(branches, spec), read=read)


def make_text_probe(written: Sequence[int], expected: Sequence[int], *, eos_id: int) -> Probe:
    """Return the probe of two texts behind their opening: the difference of their log-probabilities, with their end."""
    texts = [(*ids, eos_id) for ids in (written, expected)]

    def read(model: VisionLanguageModel, hidden: Sequence[Tensor]) -> Reading:
        logprobs = [
            model.token_logits(states).double().log_softmax(-1)[range(len(ids)), list(ids)].sum()
            for states, ids in zip(hidden, texts, strict=True)
        ]
        difference = float(logprobs[0] - logprobs[1])
        return Reading(log_odds=difference, margin=difference)

    return Probe(tails=tuple(Tail(ids=ids[:-1], reads=tuple(range(-1, len(ids) - 1))) for ids in texts), read=read)


def _list_tails(branches: Sequence[Branch], spec: ReadoutSpec) -> tuple[Tail, ...]:
    found = [find_reads(branch, spec) for branch in branches]
    return tuple(Tail(ids=ids, reads=tuple(reads)) for ids, reads in found) or (Tail(),)


def _read_image(model: VisionLanguageModel, hidden: Tensor, spec: ReadoutSpec, signal: str) -> tuple[float, float]:
    """Return the log-odds at an image, and the margin by which silence is not the most likely token, if that counts."""
    if spec.silent_id is None:
        return float(model.decision_logits(hidden)[1 if signal == "update" else 0]), -math.inf
    logits = model.token_logits(hidden)[0].double()
    silence = logits[spec.silent_id].clone()
    logits[spec.silent_id] = -torch.inf
    return float(logits.logsumexp(-1) - silence), float(logits.max() - silence) if spec.needs_most_likely else -math.inf


def _read_answer(model: VisionLanguageModel, hidden: Tensor, spec: ReadoutSpec) -> float:
    assert spec.answer_ids is not None
    logits = model.token_logits(hidden)[0].double()
    yes, no = (logits[list(ids)].logsumexp(-1) for ids in spec.answer_ids)
    return float(yes - no)


def _read_states(
    model: VisionLanguageModel,
    hidden: Sequence[Tensor],
    branches: Sequence[Branch],
    spec: ReadoutSpec,
    names: Sequence[str],
) -> float:
    """Return the log-odds of a response: against its strongest rival, or of all that is not the text of silence."""
    likely = replace(spec, needs_most_likely_text=False)  # the decision, without a jump where it begins
    logprobs = dict(zip(names, read_branches(model, torch.cat(list(hidden)), branches, likely), strict=True))
    if RESPONSE in logprobs:
        return logprobs.pop(RESPONSE) - max(logprobs.values())
    (silence,) = logprobs.values()
    return math.log(max(-math.expm1(silence), 1e-300)) - silence


def _logit(prob: float) -> float:
    return -math.inf if prob <= 0 else math.inf if prob >= 1 else math.log(prob / (1 - prob))
