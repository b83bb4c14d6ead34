"""Probabilities from the ``logprobs`` of a served model's answer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

TOP_LOGPROBS: Final = 20
"""Alternatives of each token that are asked for, the most that OpenAI-compatible servers give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenProbs:
    """A token of an answer, with the probabilities of its most likely alternatives by their texts."""

    text: str
    prob: float
    top: Mapping[str, float]


def read_token_probs(choice: Mapping[str, Any]) -> tuple[TokenProbs, ...]:
    """Return the tokens of an answer's ``choices[0]``; none if the server gives no logprobs, or invalid ones."""
    try:
        content = choice["logprobs"]["content"]
        return tuple(
            TokenProbs(
                text=str(token["token"]),
                prob=_prob(token["logprob"]),
                top={str(other["token"]): _prob(other["logprob"]) for other in token["top_logprobs"]},
            )
            for token in content
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return ()


def _prob(logprob: object) -> float:
    if not isinstance(logprob, int | float) or not logprob <= 1e-6:  # not for nan either
        raise ValueError("a logprob is a number up to 0")
    return min(1.0, math.exp(logprob))


def read_silence_prob(tokens: Sequence[TokenProbs], silence: str) -> float:
    """Return the probability that an answer is the words of silence; nan if it is unknown.

    It is the product over the tokens up to the one that leaves these words; there, it is the sum over the alternatives
    that go on with them. Later tokens of the alternatives are unknown, so that it is at most that.

    Worked example, for ``SILENT`` and the answer ``SIn``: .4 for ``SI`` and, at ``n``, .1 for ``LENT`` and .05 for
    ``L`` give .4 * (.1 + .05) = .06.
    """
    if not tokens:
        return math.nan
    rest, prob = silence.strip().casefold(), 1.0
    for number, token in enumerate(tokens):

        def clean(text: str, is_first: bool = number == 0) -> str:
            return text.casefold().lstrip() if is_first else text.casefold()

        def goes_on(text: str, rest: str = rest) -> bool:
            return bool(text) and (rest.startswith(text) or text.startswith(rest))

        if not goes_on(clean(token.text)):
            return prob * min(1.0, sum(one for text, one in token.top.items() if goes_on(clean(text))))
        prob *= token.prob
        rest = rest[len(clean(token.text)) :]
        if not rest:
            break
    return prob


def read_yes_prob(tokens: Sequence[TokenProbs]) -> float:
    """Return P(yes) / (P(yes) + P(no)) at the first token, over all spellings; nan if neither is known."""
    words = [(text.strip().casefold(), prob) for text, prob in (tokens[0].top.items() if tokens else ())]
    yes, no = (sum(prob for text, prob in words if text == word) for word in ("yes", "no"))
    return yes / (yes + no) if yes + no > 0 else math.nan
