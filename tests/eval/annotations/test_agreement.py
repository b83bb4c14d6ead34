import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from stepscope.eval.annotations.agreement import Agreement, Disagreement, Rating, list_disagreements, measure_agreement
from tests.support.data.strategies import few

VERDICTS = ("good", "bad", "odd")


def rate(**said: str) -> list[Rating]:
    """Return ratings written as one letter per item, ``.`` for none: rate(ann="gb.", bob="gg.")."""
    words = {verdict[0]: verdict for verdict in VERDICTS}
    return [
        Rating(item=str(number), reviewer=reviewer, verdict=words[letter])
        for reviewer, letters in said.items()
        for number, letter in enumerate(letters)
        if letter != "."
    ]


def measured(**said: str) -> dict[str, Agreement]:
    return {agreement.verdict: agreement for agreement in measure_agreement(rate(**said), verdicts=VERDICTS)}


def test_two_reviewers_by_hand() -> None:
    # items 0..9; ann g g g g g g b b b b, bob g g g g g b b b b g: equal on 8 of 10.
    # chance: ann 6 g 4 b, bob 6 g 4 b: .6*.6 + .4*.4 = .52; kappa (.8 - .52) / .48 = .583333
    # alpha: 20 values, 12 g 8 b; observed disagreement 2/10 = .2; expected 2*12*8/(20*19) = 192/380 = .505263;
    # 1 - .2/.505263 = .604167
    found = measured(ann="ggggggbbbb", bob="gggggbbbbg")
    assert (found[""].num_items, found[""].num_reviewers, found[""].raw) == (10, 2, 0.8)
    assert found[""].kappa == pytest.approx(0.28 / 0.48)
    assert found[""].alpha == pytest.approx(1 - 0.2 * 380 / 192)
    assert found["good"].kappa == pytest.approx(0.28 / 0.48)
    assert found["odd"].raw == 1.0  # neither ever said it
    assert math.isnan(found["odd"].kappa)
    assert math.isnan(found["odd"].alpha)


def test_three_reviewers_with_gaps_by_hand() -> None:
    # items: 0 g g g, 1 g b ., 2 b b ., 3 only ann. Pairs: 3 equal, 1 unequal, 1 equal: raw 4/5
    # kappa ann-bob: (g g)(g b)(b b): observed 2/3, chance (2*1 + 1*2)/9 = 4/9, (2/3 - 4/9)/(5/9) = .4
    # with eve one item, all g: nan, left out of the mean
    # alpha: values 7: g 4 b 3. observed: item 1 two values, 2 ordered unequal pairs / (2 - 1) = 2, /7;
    # expected 2*4*3/(7*6) = 24/42; 1 - (2/7)/(24/42) = .5
    found = measured(ann="ggbo", bob="gbb.", eve="g...")[""]
    assert (found.num_items, found.num_reviewers, found.raw) == (3, 3, 0.8)
    assert found.kappa == pytest.approx(0.4)
    assert found.alpha == pytest.approx(0.5)


@pytest.mark.parametrize(("said", "num_items"), [({}, 0), ({"ann": "g.", "bob": ".b"}, 0)])
def test_without_an_item_that_two_rated_all_is_undefined(said: dict[str, str], num_items: int) -> None:
    found = measured(**said)[""]
    assert (found.num_items, found.num_reviewers) == (num_items, 0)
    assert all(math.isnan(value) for value in (found.raw, found.kappa, found.alpha))


@given(st.lists(st.tuples(st.sampled_from("gbo"), st.sampled_from("gbo")), min_size=2, max_size=30))
@few
def test_kappa_is_that_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    ann, bob = "".join(a for a, _ in pairs), "".join(b for _, b in pairs)
    ours = measured(ann=ann, bob=bob)[""].kappa
    if len(set(ann + bob)) > 1:  # otherwise it warns
        assert ours == pytest.approx(float(cohen_kappa_score([*ann], [*bob])))
    else:
        assert math.isnan(ours)


def test_disagreements_are_listed_in_order_with_who_said_what() -> None:
    assert list_disagreements(rate(bob="gbo", ann="ggb")) == (
        Disagreement(item="1", verdicts={"ann": "good", "bob": "bad"}),
        Disagreement(item="2", verdicts={"ann": "bad", "bob": "odd"}),
    )
    assert list_disagreements(rate(ann="gbo", bob="gbo")) == ()


def test_two_ratings_by_one_reviewer_and_an_unknown_verdict_are_refused() -> None:
    with pytest.raises(ValueError, match="ann rated 0 twice"):
        measure_agreement(rate(ann="g") * 2, verdicts=VERDICTS)
    with pytest.raises(ValueError, match=r"\['odd'\] are not among good, bad"):
        measure_agreement(rate(ann="o"), verdicts=("good", "bad"))
