"""Text scores: BLEU-1..4, CIDEr and METEOR, as nlg-eval and ProAssist compute them, over PTB tokens.

A pair whose tokenised reference is empty is skipped; an empty hypothesis is kept. Without pairs, or without Java, a
score is nan. Higher is better; BLEU and METEOR are in [0, 1], CIDEr in [0, 10].
"""

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

from pycocoevalcap.bleu.bleu_scorer import BleuScorer
from pycocoevalcap.cider.cider_scorer import CiderScorer

from stepscope.eval.metrics.counts import Counts, Pool, ratio
from stepscope.eval.metrics.text.java import JAVA, NUM_STATISTICS, REPLY_LIMIT_S, JavaError, Meteor, tokenize

T = TypeVar("T")
_BLEU = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4")
_Pair = tuple[str, str]  # tokenised reference and hypothesis


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPairs:
    """The compared texts of one video, pair by pair."""

    references: Sequence[str]
    hypotheses: Sequence[str]
    """Generated texts, one per reference; empty for no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCounts(Counts):
    """Counts of the text pairs of one or many videos."""

    num_pairs: int = 0
    """Pairs whose tokenised reference is not empty; all other counts are of these."""
    hypothesis_tokens: int = 0
    reference_tokens: int = 0
    num_ngrams: tuple[float, ...] = (0.0,) * 4
    """1-grams to 4-grams of the hypotheses."""
    num_shared_ngrams: tuple[float, ...] = (0.0,) * 4
    """1-grams to 4-grams shared with the reference, each at most as often as it occurs there (clipped)."""
    cider_sum: float = 0.0
    """Sum of the pairs' CIDEr-D, with the document frequencies of the whole split; 0 for a split of a single pair."""
    meteor: tuple[float, ...] = (0.0,) * NUM_STATISTICS
    num_without_meteor: int = 0


class TextScorer:
    """Scores texts with one METEOR process for a whole run. A context manager; thread-safe.

    METEOR starts in the background, sooner if all ``references`` are known. ``limit_s`` is the maximum time to wait for
    one of its replies, in seconds.
    """

    def __init__(
        self, *, java: Path = JAVA, limit_s: float = REPLY_LIMIT_S, references: Iterable[str] | None = None
    ) -> None:
        self._java = java
        self._references = None if references is None else list(references)
        self._starter: threading.Thread | None = None
        self._is_closed = False
        self._limit_s = limit_s
        self._meteor = Meteor(java=java, limit_s=limit_s)
        self.problem: str | None = None
        """The latest reason why a score is nan although there were pairs; None if there was no problem."""
        self._tokens: dict[str, str] = {}
        self._statistics: dict[_Pair, tuple[float, ...]] = {}

    def __enter__(self) -> Self:
        self._is_closed = False
        self._starter = threading.Thread(target=self._start, name="METEOR's start", daemon=True)
        self._starter.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        self._meteor.close()  # ends the warm-up
        self._wait_for_start()
        self._meteor.close()

    def score(self, references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, float]:
        """Score the pairs as one corpus: Bleu_1..Bleu_4, CIDEr, METEOR.

        Raises ``ValueError`` if the numbers of references and hypotheses differ.
        """
        (counts,) = self.count([TextPairs(references=references, hypotheses=hypotheses)])
        return self.summarize(counts)

    def count(self, videos: Sequence[TextPairs]) -> tuple[TextCounts, ...]:
        """Count the texts of each video of a split.

        Raises ``ValueError`` if the numbers of references and hypotheses of a video differ.
        """
        for number, video in enumerate(videos):
            if len(video.references) != len(video.hypotheses):
                raise ValueError(
                    f"video {number} has {len(video.references)} references and {len(video.hypotheses)} hypotheses; "
                    "give one hypothesis per reference, empty for no text"
                )
        pairs = self._attempt(lambda: self._tokenize_pairs(videos)) or [[] for _ in videos]
        counts = iter(self._count([pair for of_video in pairs for pair in of_video]))
        return tuple(Pool(list(islice(counts, len(of_video))), TextCounts).total() for of_video in pairs)

    def summarize(self, counts: TextCounts) -> dict[str, float]:
        """Return the scores of counted texts: Bleu_1..Bleu_4, CIDEr, METEOR."""
        if not counts.num_pairs:
            return undefined_texts(counts)
        self._wait_for_start()
        meteor = None if counts.num_without_meteor else self._attempt(lambda: self._meteor.score(counts.meteor))
        return {
            **_bleus(counts),
            "CIDEr": ratio(counts.cider_sum, counts.num_pairs),
            "METEOR": math.nan if meteor is None else meteor,
        }

    def _start(self) -> None:
        """Start METEOR, with the references if they can be tokenised, and compare each with itself."""
        tokens = None
        if self._references is not None:
            with suppress(JavaError):
                tokens = self._tokenize_texts(self._references)
        if not self._is_closed:
            self._meteor.start(tokens)
        if tokens and not self._is_closed:  # the first pairs take METEOR five times as long as later ones
            with suppress(JavaError):
                self._read_statistics([(text, text) for text in tokens if text.split()])

    def _wait_for_start(self) -> None:
        if self._starter is not None:
            self._starter.join()

    def _tokenize_pairs(self, videos: Sequence[TextPairs]) -> list[list[_Pair]]:
        """Return the tokenised pairs of each video; those without a reference are left out. Raises ``JavaError``."""
        self._tokenize_texts([text for video in videos for text in (*video.references, *video.hypotheses)])
        sides = [
            ([self._tokens[text] for text in side] for side in (video.references, video.hypotheses)) for video in videos
        ]
        return [[pair for pair in zip(*both, strict=True) if pair[0].split()] for both in sides]

    def _tokenize_texts(self, texts: Sequence[str]) -> list[str]:
        new = [text for text in dict.fromkeys(texts) if text not in self._tokens]
        if new:
            self._tokens.update(zip(new, tokenize(new, java=self._java, limit_s=self._limit_s), strict=True))
        return [self._tokens[text] for text in texts]

    def _read_statistics(self, pairs: Sequence[_Pair]) -> list[tuple[float, ...]]:
        """Return METEOR's statistics of tokenised pairs, from memory if they are known. Raises ``JavaError``."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._statistics]
        self._statistics.update(zip(new, self._meteor.statistics(new), strict=True))
        return [self._statistics[pair] for pair in pairs]

    def _count(self, pairs: Sequence[_Pair]) -> list[TextCounts]:
        self._wait_for_start()
        found = self._attempt(lambda: self._read_statistics(pairs))
        statistics = [None] * len(pairs) if found is None else found
        bleu = BleuScorer(n=4)
        for reference, hypothesis in pairs:
            bleu += (hypothesis, [reference])
        return [
            TextCounts(
                num_pairs=1,
                hypothesis_tokens=ngrams["testlen"],
                reference_tokens=ngrams["reflen"][0],
                num_ngrams=tuple(ngrams["guess"]),
                num_shared_ngrams=tuple(ngrams["correct"]),
                cider_sum=cider,
                meteor=(0.0,) * NUM_STATISTICS if meteor is None else meteor,
                num_without_meteor=int(meteor is None),
            )
            for ngrams, cider, meteor in zip(bleu.ctest, _ciders(pairs), statistics, strict=True)
        ]

    def _attempt(self, call: Callable[[], T]) -> T | None:
        """Return the result of Java; None, with the reason in ``problem``, if it fails."""
        try:
            return call()
        except JavaError as error:
            self.problem = str(error)
            return None


def undefined_texts(_: TextCounts) -> dict[str, float]:
    """Return nan for every text score, for a report without Java."""
    return dict.fromkeys((*_BLEU, "CIDEr", "METEOR"), math.nan)


def score_text(references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, float]:
    """Score pairs of texts as one corpus: Bleu_1..Bleu_4, CIDEr, METEOR; nan if undefined or without Java.

    It starts METEOR, which takes 5-10 s. For several calls keep a ``TextScorer``, which also has the reason for a nan.
    Raises ``ValueError`` if the numbers of references and hypotheses differ.

    **Source**: ``golden/nlg.json``, ProAssist's scorer.
    """
    with TextScorer() as scorer:
        return scorer.score(references, hypotheses)


def _bleus(counts: TextCounts) -> dict[str, float]:
    scorer = BleuScorer(n=4, special_reflen=counts.reference_tokens)
    scorer.ctest = [
        {"testlen": counts.hypothesis_tokens, "guess": counts.num_ngrams, "correct": counts.num_shared_ngrams}
    ]
    scores, _ = scorer.compute_score(option="closest", verbose=0)
    return dict(zip(_BLEU, map(float, scores), strict=True))


def _ciders(pairs: Sequence[_Pair]) -> list[float]:
    """Return CIDEr-D of each pair with the document frequencies of all pairs; 0 for a single pair by construction."""
    if not pairs:
        return []
    scorer = CiderScorer(n=4, sigma=6.0)
    for reference, hypothesis in pairs:
        scorer += (hypothesis, [reference])
    _, scores = scorer.compute_score()
    return [float(score) for score in scores]
