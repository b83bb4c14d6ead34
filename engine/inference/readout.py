"""Reads decisions (probabilities of the two heads, or of the silent token) and the next tokens from hidden states."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import Branch, Decision
from stepscope.engine.decisions.policies import convert_theta
from stepscope.engine.decisions.signals import SILENCE, parse_states
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.prompt import find_answer_ids
from stepscope.engine.model.vision_language import VisionLanguageModel

_MAX_ROWS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadoutSpec:
    """How decisions and tokens are read from hidden states."""

    silent_id: int | None = None
    """The token that means silence; None to read the heads."""
    needs_most_likely: bool = False
    """Whether silence must be the most likely token; else the probability of speaking is 1."""
    answer_ids: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """The tokens of yes and of no, whose share of yes is the probability of speaking; None to read no answer."""
    scored_after: int | None = None
    """Tokens at the start of a branch whose own probability is not read, before those of a state; None to read the
    answer behind a branch."""
    needs_most_likely_text: bool = False
    """Whether a state has a probability only if each of its tokens is the most likely one."""
    silence_id: int | None = None
    """The token that a reply has only above a threshold that changes with its length; None for no such token."""
    suppress_tokens: tuple[int, ...] = ()
    suppress_at_images: tuple[int, ...] = ()
    """Token ids that open no turn: they are not generated where a decision is read, too."""


def make_readout_spec(checkpoint: Checkpoint, config: StreamConfig) -> ReadoutSpec:
    """Return how the policy of a stream reads a checkpoint. Raises ``ValueError`` if it cannot."""
    policy, prompt = config.policy, checkpoint.prompt
    answer_ids = scored_after = silence_id = None
    if policy.source == "answer":
        prompt.question("")  # raises for a model that answers none
        answer_ids = find_answer_ids(prompt.tokenizer)
    if policy.reads_states:
        silence = prompt.state(parse_states(config.states)[SILENCE])
        scored_after = len(prompt.response_opening)
        silence_id = silence[-1] if policy.reads_reserved_text and config.theta_step else None
    return ReadoutSpec(
        silent_id=checkpoint.token_to_read(policy),
        needs_most_likely=policy.source == "most-likely-token",
        answer_ids=answer_ids,
        scored_after=scored_after,
        needs_most_likely_text=policy.source == "most-likely-text",
        silence_id=silence_id,
        suppress_tokens=prompt.suppress_tokens,
        suppress_at_images=() if checkpoint.silent_id is None else (checkpoint.silent_id,),
    )


def read_decisions(model: VisionLanguageModel, hidden: Tensor, spec: ReadoutSpec) -> list[Decision]:
    """Return the decisions at ``N`` positions from last hidden states ``[N, D]``."""
    speak, update = decision_probs(model, hidden, spec)
    pairs = zip(speak.tolist(), update.tolist(), strict=True)
    return [Decision(speak_prob=s, update_prob=u) for s, u in pairs]


def decision_probs(
    model: VisionLanguageModel, hidden: Tensor, spec: ReadoutSpec, *, logits: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the probabilities of speaking and of an update at hidden states ``[N, D]``, both ``[N]`` in float64.

    ``logits [N, V]`` are those of the next tokens, if they are known.
    """
    if spec.answer_ids is not None:
        logits = model.token_logits(hidden) if logits is None else logits
        yes, no = (logits[:, list(ids)].double().logsumexp(-1) for ids in spec.answer_ids)
        return (yes - no).sigmoid(), torch.zeros_like(yes)
    if spec.silent_id is None:
        speak, update = model.decision_logits(hidden)
        return speak.sigmoid().double(), update.sigmoid().double()
    logits = model.token_logits(hidden) if logits is None else logits
    silent = 1 - logits.softmax(-1)[:, spec.silent_id].double()
    if spec.needs_most_likely:
        silent = torch.where(logits.argmax(-1) == spec.silent_id, silent, torch.ones_like(silent))
    return silent, torch.zeros_like(silent)


def read_branches(
    model: VisionLanguageModel, hidden: Tensor, branches: Sequence[Branch], spec: ReadoutSpec
) -> list[float]:
    """Return for each branch the probability of yes behind it, or the log-probability of its state.

    ``hidden [N, D]`` are the last hidden states at ``find_reads`` of each branch, in order.
    """
    if spec.scored_after is None:
        return decision_probs(model, hidden, spec)[0].tolist()
    ids = [list(branch.ids[spec.scored_after :]) for branch in branches]
    targets = torch.tensor([token for one in ids for token in one], device=hidden.device)
    logprobs = []
    # a few rows at a time: the vocabularies of the hub have 150,000 tokens
    for rows, wanted in zip(hidden.split(_MAX_ROWS), targets.split(_MAX_ROWS), strict=True):
        logits = model.token_logits(rows)
        logprob = logits.gather(-1, wanted[:, None])[:, 0].double() - logits.logsumexp(-1).double()
        if spec.needs_most_likely_text:
            logprob[logits.argmax(-1) != wanted] = -torch.inf
        logprobs.append(logprob)
    return [float(part.sum()) for part in torch.cat(logprobs).cpu().split(list(map(len, ids)))]


def find_reads(branch: Branch, spec: ReadoutSpec) -> tuple[tuple[int, ...], list[int]]:
    """Return the ids of a branch to feed, and the positions among them that are read.

    Example: the state ``8, 9`` behind the opening ``5, 6`` is read at 6 and 8; 9 is not fed.
    """
    if spec.scored_after is None:
        return branch.ids, [len(branch.ids) - 1]
    return branch.ids[:-1], list(range(spec.scored_after - 1, len(branch.ids) - 1))


def read_silence(model: VisionLanguageModel, hidden: Tensor, *, silent_id: int | None) -> list[tuple[float, float]]:
    """Return the probabilities of silence and of its strongest rival at ``N`` positions.

    The rival is speech, or with a silent token the most likely one of all other tokens. ``silent_id`` is None to read
    the heads.
    """
    if silent_id is None:
        decisions = read_decisions(model, hidden, ReadoutSpec())
        return [(1 - decision.speak_prob, decision.speak_prob) for decision in decisions]
    probs = model.token_logits(hidden).softmax(-1)
    silent = probs[:, silent_id].tolist()
    probs[:, silent_id] = 0
    return list(zip(silent, probs.amax(-1).tolist(), strict=True))


class Sampler:
    """Samples the tokens of one stream. The same seed and logits give the same tokens.

    ``suppress_tokens`` are never sampled. A reply has the token ``silence_id`` only where its probability exceeds
    ``theta + step * theta_step``.

    **Source**: ``ThresholdLogitsProcessor`` of LiveCC (demo/infer.py).
    """

    def __init__(
        self, config: StreamConfig, *, suppress_tokens: Sequence[int] = (), silence_id: int | None = None
    ) -> None:
        self._config, self._silence_id = config, silence_id
        self._suppress_tokens = list(suppress_tokens)
        self._random = torch.Generator().manual_seed(config.seed)

    def sample(self, logits: Tensor, steps: Sequence[int] = ()) -> tuple[int, ...]:
        """Return one token id for each row of logits ``[N, V]``, in order.

        ``steps`` are the tokens of the reply before each row's, -1 outside a reply; none if no threshold needs them.
        """
        if self._silence_id is not None and steps:
            logits = self._suppress_silence(logits, torch.tensor(steps, device=logits.device))
        if self._config.do_sample:
            return tuple(self._sample_row(row) for row in logits)
        return tuple(self._suppress(logits).argmax(-1).tolist())

    def _suppress_silence(self, logits: Tensor, steps: Tensor) -> Tensor:
        thetas = convert_theta(self._config.speak_threshold) + self._config.theta_step * steps
        is_refused = (steps >= 0) & (logits.softmax(-1)[:, self._silence_id] <= thetas)
        allowed = logits.clone()
        allowed[is_refused, self._silence_id] = -torch.inf
        return allowed

    def _sample_row(self, logits: Tensor) -> int:
        probs = torch.softmax(self._suppress(logits).cpu().double() / self._config.temperature, dim=-1)
        return int(torch.multinomial(self._apply_top_p(probs), 1, generator=self._random))

    def _suppress(self, logits: Tensor) -> Tensor:
        allowed = logits.clone()
        allowed[..., self._suppress_tokens] = -torch.inf
        return allowed

    def _apply_top_p(self, probs: Tensor) -> Tensor:
        """Zero all tokens outside the smallest set that reaches ``top_p``; the most likely token always stays."""
        ordered, order = probs.sort(descending=True)
        is_outside = ordered.cumsum(-1) - ordered >= self._config.top_p
        kept = probs.clone()
        kept[order[is_outside]] = 0
        return kept
