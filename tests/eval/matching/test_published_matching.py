"""The matches are those of the published program."""

import json

import numpy as np
import pytest

from stepscope.eval.matching import sentence_encoders as encoders
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.matching.turns import find_match
from tests.eval.matching.test_turns import TableEncoder, said
from tests.support.paths import GOLDEN


@pytest.mark.parametrize("number", range(42))
def test_the_match_is_the_one_of_the_published_program(number: int) -> None:
    golden = json.loads((GOLDEN / "match_cases.json").read_text(encoding="utf-8"))
    assert len(golden["cases"]) == 42
    case = golden["cases"][number]
    expected = case["expected"]
    for zero_cost in ("keep", "drop"):
        match = find_match(
            said(case["num_frames"], dict(case["gen"])),
            said(case["num_frames"], dict(case["ref"])),
            encode=TableEncoder(golden["embeddings"]),
            match_window=tuple(case["match_window"]),
            dist_func_factor=case["dist_func_factor"],
            dist_func_power=case["dist_func_power"],
            zero_cost=zero_cost,
        )
        assert [[pair.gen_frame, pair.ref_frame] for pair in match.pairs] == expected["matched"]
        assert list(match.missed) == expected["missed"]
        assert list(match.redundant) == expected["redundant"]
        assert [pair.cost for pair in match.pairs] == pytest.approx(expected["match_costs"], abs=1e-5)
        assert [pair.semantic_score for pair in match.pairs] == pytest.approx(expected["semantic_scores"], abs=1e-5)


def test_equal_texts_have_one_embedding_in_whatever_company(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = load_encoder().encode
    alone = encode(["Now put on the roof."])
    among = encode(["Careful, pick up the wheel again.", "Now put on the roof.", "Now put on the roof."])
    assert among.shape == (3, 384)
    assert (among[1] == alone[0]).all()
    assert (among[1] == among[2]).all()
    assert (encode(["Turn \ud83d"]) == encode(["Turn ?"])).all(), "half a surrogate pair"
    monkeypatch.setattr(encoders, "MAX_TEXT_CHARS", 20)
    assert (encode(["Now put on the roof. And the rest"]) == alone).all(), "beyond all that is read"
    monkeypatch.setattr(encoders, "MAX_CACHED_TEXTS", 2)
    assert np.allclose(encode(["a", "b", "Now put on the roof."])[2], alone[0], atol=1e-5), "forgotten, and made again"


def test_an_encoder_that_is_not_to_be_had_is_named() -> None:
    with pytest.raises(ValueError, match="the text encoder /nowhere/x cannot be loaded"):
        load_encoder("/nowhere/x")
