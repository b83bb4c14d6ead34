"""BLEU, CIDEr and METEOR, with the Java that comes along."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.nlg import TextScorer
from tests.shared_data import shared

KEYS = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "CIDEr", "METEOR")


@pytest.fixture(scope="module")
def scorer() -> Iterator[TextScorer]:
    with TextScorer() as scorer:
        yield scorer


def test_the_published_scores_come_out(scorer: TextScorer) -> None:
    for case in json.loads(shared("golden/nlg.json").read_text(encoding="utf-8"))["sets"]:
        scores = scorer.score(case["references"], case["hypotheses"])
        assert scores == pytest.approx(case["expected"], abs=1e-5)


def test_bleu_of_a_pair_by_hand(scorer: TextScorer) -> None:
    # Hypothesis "attach the red wheel", reference "attach the wheel": 3 of 4 words, 1 of 3 word pairs, no brevity
    # penalty: Bleu_1 = 3/4, Bleu_2 = sqrt(3/4 * 1/3) = 0.5. One pair has no document frequencies: CIDEr 0.
    scores = scorer.score(["Attach the wheel."], ["Attach the red wheel!"])
    assert scores["Bleu_1"] == pytest.approx(0.75, abs=1e-6)
    assert scores["Bleu_2"] == pytest.approx(0.5, abs=1e-6)
    assert scores["CIDEr"] == 0


def test_no_pairs_have_no_scores(scorer: TextScorer) -> None:
    scores = scorer.score([], [])
    assert set(scores) == set(KEYS)
    assert all(math.isnan(value) for value in scores.values())


@pytest.mark.parametrize(
    "text",
    [
        "a\nb",
        "a ||| b ||| c",
        "x" * 5000,
        "\U0001f600",
        "\u05e9\u05dc\u05d5\u05dd",
        "",
        "a\x00b",
        "\ud800",
        "EVAL ||| 1",
    ],
)
def test_no_text_puts_the_next_pair_out_of_step(scorer: TextScorer, text: str) -> None:
    before = scorer.score(["Attach the wheel."], ["Attach the red wheel."])
    scorer.score([text, "fine"], ["fine", text])
    assert scorer.problem is None
    assert scorer.score(["Attach the wheel."], ["Attach the red wheel."]) == before


def test_unequal_numbers_of_texts_are_refused(scorer: TextScorer) -> None:
    with pytest.raises(ValueError, match="give one hypothesis for each reference"):
        scorer.score(["a"], [])


def test_without_java_scores_are_nan_with_the_reason(tmp_path: Path) -> None:
    with TextScorer(java=tmp_path / "java") as scorer:
        scores = scorer.score(["Attach the wheel."], ["Attach the wheel."])
        assert math.isnan(scores["METEOR"])
        assert scorer.problem
