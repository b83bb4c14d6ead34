"""Probabilities of silence and of yes, from the logprobs of a served model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenProbs:
    """A token of an answer, with the probabilities of its most likely alternatives by their texts."""

    text: str
    content: bytes
    """Its part of the answer in UTF-8; a token may hold a part of a character."""
    prob: float
    top: Mapping[str, float]


def read_token_probs(choice: Mapping[str, Any]) -> tuple[TokenProbs, ...]:
    """Return the tokens of ``choices[0]``, with those of its reasoning; none without logprobs, or with invalid ones."""
    try:
        content = choice["logprobs"]["content"]
        return tuple(
            TokenProbs(
                text=str(token["token"]),
                content=_read_bytes(token),
                prob=_positive(_prob(token["logprob"])),
                top={str(other["token"]): _prob(other["logprob"]) for other in token["top_logprobs"]},
            )
            for token in content
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return ()


def _read_bytes(token: Mapping[str, Any]) -> bytes:
    given = token.get("bytes")
    return bytes(given) if isinstance(given, list) and given else str(token["token"]).encode(errors="surrogatepass")


def _prob(logprob: object) -> float:
    if not isinstance(logprob, int | float) or not logprob <= 1e-6:  # not for nan either
        raise ValueError("a logprob is a number up to 0")
    return min(1.0, math.exp(logprob))


def _positive(prob: float) -> float:
    if not prob:
        raise ValueError("a token that was chosen has a probability above 0")
    return prob


def read_silence_prob(tokens: Sequence[TokenProbs], silence: str) -> float:
    """Return the probability that an answer is the words of silence; nan if it is unknown.

    It is the product over the tokens up to the one that leaves these words; there, it is the sum over the alternatives
    that go on with them. Later tokens of the alternatives are unknown, so that it is at most that.

    Worked example, for ``SILENT`` and the answer ``SIn``: .4 for ``SI`` and, at ``n``, .1 for ``LENT`` and .05 for
    ``L`` give .4 * (.1 + .05) = .06.
    """
    if not tokens:
        return math.nan
    words, prob = silence.strip().casefold(), 1.0
    rest = words
    for token in tokens:
        match = partial(_match_start, rest=rest, is_first=rest == words)
        text = match(token.text)
        if not text:
            others = [other for name, other in token.top.items() if match(name)]
            return prob * min(1.0, sum(others)) if token.top else math.nan
        prob *= token.prob
        rest = rest[len(text) :]
        if not rest:
            break
    return prob


def _match_start(text: str, *, rest: str, is_first: bool) -> str:
    """Return the folded text of a token if it starts the rest of the words, or has all of it; else an empty text."""
    text = text.casefold().lstrip() if is_first else text.casefold()
    return text if rest.startswith(text) or text.startswith(rest) else ""


def read_yes_prob(tokens: Sequence[TokenProbs]) -> float:
    """Return P(yes) / (P(yes) + P(no)) at the first token, over all spellings; nan if neither is known."""
    words = [(text.strip().casefold(), prob) for text, prob in (tokens[0].top.items() if tokens else ())]
    yes, no = (sum(prob for text, prob in words if text == word) for word in ("yes", "no"))
    return yes / (yes + no) if yes + no > 0 else math.nan
