import gzip
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from stepscope.eval.metrics.counts import Pool
from stepscope.eval.metrics.score import corpus_metrics
from stepscope.eval.metrics.text import TextCounts, TextPairs, TextScorer, java
from stepscope.eval.metrics.text.java import tokenize
from tests.support.data.shared_data import shared
from tests.support.paths import GOLDEN

REFERENCES = [
    "Attach the red wheel to the chassis!",
    "Now attach the red wheel.",
    "Turn the small screw clockwise.",
    "turn the screw",
    "stop now",
    "stop the car",
    "lift it up now",
    "turn the wheel",
    "lift the red wheel",
    "lift",
]
NAMES = ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "CIDEr", "METEOR"]


def list_references(words: str) -> list[str]:
    """Return the references of the golden figures, so that METEOR reads the part of its table that they need."""
    sets, videos = read_golden(words, "nlg.json")["sets"], read_golden(words, "corpus_metrics.json")["videos"]
    spoken = [text for video in videos for text in dict(video["ref"]).values()]
    return [*spoken, *(text for case in sets for text in case["references"])]


@pytest.fixture(scope="module")
def real_scorer() -> Iterator[TextScorer]:
    with TextScorer(references=list_references("real")) as scorer:
        yield scorer


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextScorer]:
    """Yield a scorer whose METEOR has a table of one pair, which it reads at once."""
    table = tmp_path_factory.mktemp("meteor") / "table.gz"
    table.write_bytes(gzip.compress(b"0.1\nthe box\na box\n"))
    odd = [text for text, _ in ODD_TEXTS.values()]
    scorer = TextScorer(references=[*REFERENCES, *odd, *list_references("invented")])
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(java, "_TABLE", table)
            stack.enter_context(scorer)
            scorer._wait_for_start()
        yield scorer


def read_golden(words: str, name: str) -> Any:
    """Return golden figures: of ``invented`` words, without METEOR; or of ``real`` words, from outside."""
    path = GOLDEN / name if words == "invented" else shared(f"golden/{name}")
    return json.loads(path.read_text(encoding="utf-8"))


def check_scores(scores: Mapping[str, float], expected: Mapping[str, float], *, words: str) -> None:
    """Compare scores; METEOR is golden for real words only."""
    of_meteor = {name for name in scores if name.startswith("METEOR")}
    assert set(scores) - set(expected) == (of_meteor if words == "invented" else set())
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["invented", "real"])
def test_golden_figures_of_the_published_scorer_are_met(request: pytest.FixtureRequest, words: str) -> None:
    scorer = request.getfixturevalue("scorer" if words == "invented" else "real_scorer")
    sets = read_golden(words, "nlg.json")["sets"]
    assert len(sets) == 5
    for case in sets:
        scores = scorer.score(case["references"], case["hypotheses"])
        assert list(scores) == NAMES
        check_scores(scores, case["expected"], words=words)
    assert scorer.problem is None


@pytest.mark.slow
@pytest.mark.parametrize("words", ["invented", "real"])
def test_all_published_scores_come_out(request: pytest.FixtureRequest, words: str) -> None:
    scorer = request.getfixturevalue("scorer" if words == "invented" else "real_scorer")
    golden = read_golden(words, "corpus_metrics.json")
    videos = [
        tuple([dict(video[name]).get(frame, "") for frame in range(video["num_frames"])] for name in ("gen", "ref"))
        for video in golden["videos"]
    ]
    settings = {name: golden[name] for name in ("fps", "dist_func_factor", "dist_func_power", "semantic_threshold")}
    scores = corpus_metrics(
        videos,  # type: ignore[arg-type]
        encode=lambda texts: np.array([golden["embeddings"][text] for text in texts]),
        match_window=tuple(golden["match_window"]),
        score_texts=scorer.score,
        **settings,
    )
    check_scores(scores, golden["expected"], words=words)


def test_bleu_is_the_geometric_mean_of_clipped_precisions_times_the_brevity_penalty(scorer: TextScorer) -> None:
    # reference: attach the red wheel to the chassis (7 words); hypothesis: attach the the wheel (4 words)
    # 1-grams: attach, the x2 (the reference has 2), wheel: 4 / 4.  2-grams: "attach the" of 3: 1 / 3.  3-grams: 0 / 2.
    # brevity: exp(1 - 7 / 4) = 0.472367.  Bleu_1 = 0.472367 * 1;  Bleu_2 = 0.472367 * sqrt(1 * 1 / 3) = 0.272721
    scores = scorer.score(["Attach the red wheel to the chassis!"], ["attach the, the wheel."])
    assert scores["Bleu_1"] == pytest.approx(math.exp(1 - 7 / 4), abs=1e-6)
    assert scores["Bleu_2"] == pytest.approx(0.272721, abs=1e-6)
    assert scores["Bleu_3"] == pytest.approx(0, abs=1e-4)


def test_a_perfect_text_has_bleu_1_and_cider_10(scorer: TextScorer) -> None:
    texts = ["Now attach the red wheel.", "Turn the small screw clockwise."]
    scores = scorer.score(texts, texts)
    assert [scores[f"Bleu_{n}"] for n in (1, 2, 3, 4)] == pytest.approx([1, 1, 1, 1], abs=1e-6)
    # Each 1- to 4-gram vector equals its own: the cosine is 1 at every order, times 10.
    assert scores["CIDEr"] == pytest.approx(10)
    assert scores["METEOR"] > 0.9


def test_no_pairs_score_nan_without_a_problem(scorer: TextScorer) -> None:
    for references in ([], ["", "..."]):
        scores = scorer.score(references, ["some words"] * len(references))
        assert list(scores) == NAMES
        assert all(math.isnan(score) for score in scores.values())
    assert scorer.problem is None


def test_a_pair_without_reference_is_skipped_and_an_empty_hypothesis_counts(scorer: TextScorer) -> None:
    plain = scorer.score(["turn the screw", "stop now"], ["turn the screw", ""])
    assert scorer.score(["turn the screw", "?", "stop now"], ["turn the screw", "hello", ""]) == plain
    # 3 of 3 words are right, but 3 words stand for 5: exp(1 - 5 / 3)
    assert plain["Bleu_1"] == pytest.approx(math.exp(1 - 5 / 3), abs=1e-6)


def test_texts_that_are_not_pairs_are_refused(scorer: TextScorer) -> None:
    with pytest.raises(ValueError, match="video 0 has 2 references and 1 hypotheses"):
        scorer.score(["a", "b"], ["a"])


def test_per_video_cider_knows_the_documents_of_the_whole_split(scorer: TextScorer) -> None:
    one = TextPairs(references=["turn the screw"], hypotheses=["turn the screw"])
    two = TextPairs(references=["stop the car", "lift it up now"], hypotheses=["stop the bus", "lift it down"])
    counts = scorer.count([one, TextPairs(references=[], hypotheses=[]), two])
    corpus = scorer.summarize(Pool(counts, TextCounts).total())
    assert corpus == scorer.score([*one.references, *two.references], [*one.hypotheses, *two.hypotheses])
    first, empty, last = (scorer.summarize(video)["CIDEr"] for video in counts)
    # One to three words are equal, four do not occur: 10 * (1 + 1 + 1 + 0) / 4
    assert first == pytest.approx(7.5)
    assert math.isnan(empty)
    assert (1 * first + 2 * last) / 3 == pytest.approx(corpus["CIDEr"])
    assert scorer.summarize(counts[2])["METEOR"] == scorer.score(two.references, two.hypotheses)["METEOR"]


ODD_TEXTS = {
    "newlines": ("a\nb\r\nc\rd\x0be\x0cf\u2028g\u2029h", "a b c d e f g h"),
    "separator": ("one ||| two|||three", None),
    "command": ("EVAL ||| 1 2 3", None),
    "link with separator": ("http://a|||b.c/||| d", None),
    "5,000 characters": ("x" * 5000, "x" * 5000),
    "5,000 characters of words": ("go on " * 833, ("go on " * 833).strip()),
    "emoji": ("turn \U0001f600 it \U0001f9d1\u200d\U0001f527", None),
    "right to left": ("\u202e\u05e9\u05dc\u05d5\u05dd now", None),
    "empty": ("", ""),
    "blank": (" \t\n", ""),
    "NUL": ("a\0b", "a b"),
    "lone surrogates": ("\ud83d x \udfff", "x"),
    "open tag": ("<a href='", None),
    "closed tag": ("'> y <!--", None),
    "no-break space": ("8\xa01/2 \xa0", None),
    "abbreviation": ("No.", None),
}


def test_odd_texts_keep_to_their_own_line() -> None:
    texts = [text for text, _ in ODD_TEXTS.values()]
    tokens = tokenize([between for text in texts for between in (text, "5 Stop")] + texts[::-1])
    assert len(tokens) == 3 * len(texts)
    assert set(tokens[1 : 2 * len(texts) : 2]) == {"5 stop"}
    assert tokens[0 : 2 * len(texts) : 2] == tokens[: 2 * len(texts) - 1 : -1], "tokens depend on the neighbours"
    for found, (name, (_, expected)) in zip(tokens[::2], ODD_TEXTS.items(), strict=False):
        assert expected in (None, found), name


def test_odd_texts_keep_meteor_in_step(scorer: TextScorer) -> None:
    alone = scorer.score(["lift the red wheel"], ["lift a wheel"])["METEOR"]
    odd = [text for text, _ in ODD_TEXTS.values()]
    counts = scorer.count(
        [
            TextPairs(references=["turn the wheel", "stop now", *odd], hypotheses=[*odd, "stop now", "turn the wheel"]),
            TextPairs(references=["lift the red wheel"], hypotheses=["lift a wheel"]),
        ]
    )
    assert scorer.problem is None
    assert all(math.isfinite(score) for score in scorer.summarize(Pool(counts, TextCounts).total()).values())
    assert scorer.summarize(counts[1])["METEOR"] == alone
    # These go past the tokenizer, straight into METEOR's protocol.
    raw = [("lift", "c ||| d"), ("lift", "b\nSCORE ||| x ||| y"), ("lift", "|||"), ("lift", "lift")]
    meteor = scorer._meteor
    assert meteor.statistics(raw)[-1] == meteor.statistics(raw[-1:])[0]
