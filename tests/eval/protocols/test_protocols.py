"""Each protocol against hand-worked cases, and at its extremes."""

import math
from typing import Any

import pytest

from stepscope.eval.protocols import PROTOCOLS, score_protocol
from stepscope.eval.protocols.registry import to_markdown
from tests.support.paths import ROOT

SPANS = {"pauc", "livestar", "omnimmi", "coin-step", "coin-next", "coin-task"}
EVERY_SECOND = [(float(second), 1.0) for second in range(40)]
LATE_SPOT = math.exp(-0.25 / (2 * 1.11**2))  # of SPG and SI, 0.5 s outside of the window
EARLY_SPOT = math.exp(-0.25 / (2 * 2.22**2))
RARE = 2 * 0.05 / 1.05  # precision 2 / 40, recall 1
EXPECTED = {
    # always silent, always speaking, one of two 2 s late, one of two said again 1 s later
    "streampro-ou": (0.0, RARE, 0.75, 0.8),  # late: S = 1 - 2/4, so (0.5 + 1) / 2; twice: P = 2/3, R = 1
    "streampro-eu": (0.0, RARE, 0.75, 0.8),
    "streampro-tp": (0.0, RARE, 0.75, 0.8),
    "streampro-aa": (0.0, RARE, 5 / 6, 0.8),  # S = 1 - 2/6
    "streampro-gp": (0.0, RARE, 0.5, 0.8),  # outside of the window
    "streampro-rf": (0.0, RARE, 0.75, 0.8),
    # speaking: 4 replies in reach of each reference, so 32 are false alarms: P = 2 / 34
    "spot-pnr": (0.0, 2 * (2 / 34) / (1 + 2 / 34), 0.5, 1.0),  # 2 s late is out of reach, 1 s late is not
    "spot-ui": (0.0, 2 * (2 / 34) / (1 + 2 / 34), 0.5, 1.0),
    # speaking: 7 in reach, of which K = 5 are taken: P = 2 / 32; late: T = exp(-1 / (2 * 0.74**2))
    "spot-abd": (0.0, 2 * (2 / 32) / (1 + 2 / 32), (1 + math.exp(-1 / (2 * 0.74**2))) / 2, 1.0),
    "spot-sqa": (0.0, 2 * (2 / 32) / (1 + 2 / 32), (1 + math.exp(-1 / (2 * 0.74**2))) / 2, 1.0),
    # speaking: the first 5 in reach fill the slot, the best is 2 s early
    "spot-spg": (0.0, 2 * EARLY_SPOT * (2 / 32) / (1 + 2 / 32), (1 + LATE_SPOT) / 2, 1.0),
    "spot-si": (0.0, 2 * EARLY_SPOT * (2 / 32) / (1 + 2 / 32), (1 + LATE_SPOT) / 2, 1.0),
    # silent: F1 of silent 2*3 / (2*3 + 2); speaking: F1 of interrupt 2*2 / (2*2 + 3)
    "egoproactive": (0.75 / 2, (4 / 7) / 2, 1.0, 1.0),
    "qevd-tf": (0.0, RARE, 0.5, 0.8),
    "interactive-cooking": (0.0, 1.0, 1.0, 1.0),
    "interactive-cooking-mistakes": (0.0, RARE, 1.0, 0.8),
    "omnipro": (0.0, RARE, 1.0, 0.8),
    "ipibench-single": (0.0, 0.0, 0.0, 1.0),
    "ipibench-repeated": (0.0, 0.0, 0.0, 0.0),
    "streamingbench-po": (0.0, 0.0, 1.0, 1.0),
    "ovo-timing": (0.0, RARE, 1.0, 0.8),
    "pauc": (25.0, 100.0, (100 + 81.25) / 2, 100.0),  # late: (1 * 0.5 + 3 * 2) / (2 * 4), with w 0.5
    "livestar": (0.0, 1.0, 1.0, 1.0),
    "omnimmi": (0.0, 0.0, 1.0, 1.0),
    "coin-step": (0.0, 1.0, 1.0, 1.0),  # all replies are right, and one inside each segment is enough
    "coin-next": (0.0, 1.0, 1.0, 1.0),
    "coin-task": (0.0, 1.0, 1.0, 1.0),
}


def score(name: str, replies: list[tuple[float, float]], *, speaks: bool = False) -> float:
    """Return the main score of replies, given by their time after the ideal time of the first reference.

    The references are at 10 and 30 s, or at 10 s alone, and last 4 s where the protocol is of spans.
    """
    protocol = PROTOCOLS[name]
    length = 4.0 if name in SPANS else 0.0
    references = [(10.0, 10.0 + length), (30.0, 30.0 + length)][: 1 if protocol.has_one_reference else 2]
    shift = protocol.parameters["shift_s"].default if "shift_s" in protocol.parameters else 0.0
    said = [(time_s + shift, accuracy) for time_s, accuracy in replies if time_s < 20 or len(references) == 2]
    return score_protocol(name, references, EVERY_SECOND if speaks else said, durations_s=40.0)[protocol.main]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_replies_at_the_right_times_have_the_best_score(name: str) -> None:
    assert score(name, [(10.0, 1.0), (30.0, 1.0)]) == pytest.approx(100.0 if name == "pauc" else 1.0)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_silence_constant_talk_a_late_and_a_repeated_reply_have_their_hand_worked_scores(name: str) -> None:
    silent, speaking, late, twice = EXPECTED[name]
    assert score(name, []) == pytest.approx(silent)
    assert score(name, [], speaks=True) == pytest.approx(speaking)
    assert score(name, [(12.0, 1.0), (30.0, 1.0)]) == pytest.approx(late)
    assert score(name, [(10.0, 1.0), (11.0, 1.0), (30.0, 1.0)]) == pytest.approx(twice)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_without_references_a_score_is_undefined(name: str) -> None:
    assert all(map(math.isnan, score_protocol(name, [], []).values()))


def test_streampro_ou_as_in_the_paper() -> None:
    # Reply 9 has S = (1 - 1/4) * 1 = 0.75, reply 12 has (1 - 2/4) * 0.5 = 0.25, both for the answer at 10; 30 has none.
    found = score_protocol("streampro-ou", [(10, 10), (20, 20)], [(9, 1), (12, 0.5), (30, 1)])
    assert found == pytest.approx({"precision": 0.75 / 3, "recall": 0.75 / 2, "f1": 0.3})


@pytest.mark.parametrize(
    ("name", "reply_s", "expected"),
    [
        ("streampro-eu", 14.0, 1.0),  # inside the interval from 10 to 20
        ("streampro-tp", 22.0, 0.5),  # 2 s after it: 1 - 2/4
        ("streampro-tp", 9.9, 0.0),  # before its window
        ("streampro-aa", 25.0, 1 / 6),  # 1 - 5/6
        ("streampro-gp", 8.0, 0.5),
        ("streampro-gp", 20.1, 0.0),
    ],
)
def test_streampro_rates_an_interval_by_the_distance_from_it(name: str, reply_s: float, expected: float) -> None:
    assert score_protocol(name, [(10, 20)], [(reply_s, 1)])["f1"] == pytest.approx(expected)


@pytest.mark.parametrize(("reply_s", "expected"), [(7, 1.0), (6, 0.5), (5.9, 0.0), (9, 0.5), (10, 0.25), (10.1, 0.0)])
def test_streampro_rf_is_around_3_s_before_the_hazard(reply_s: float, expected: float) -> None:
    # The hazard is at 10, the instant at 7: 1 s early is 1 - 1/2, 2 s late 1 - 2/4, 3 s late 1 - 3/4.
    assert score_protocol("streampro-rf", [(10, 10)], [(reply_s, 1)])["f1"] == pytest.approx(expected)


@pytest.mark.parametrize(("k", "expected"), [(5, 0.667), (1, 0.318)])
def test_spot_pnr_as_in_the_published_program(k: int, expected: float) -> None:
    # K = 5: 9.0, 10.2 and 11.0 are in reach, the best T is 1; 14.0 is a false alarm: P = 1/2, R = 1.
    # K = 1: 9.0 fills the slot with T = exp(-0.5**2 / (2 * 0.74**2)) = 0.796; P = 0.796 / 4, R = 0.796.
    replies = [(9.0, 1), (10.2, 1), (11.0, 1), (14.0, 1)]
    assert score_protocol("spot-pnr", [(10, 10)], replies, k=k)["f1"] == pytest.approx(expected, abs=5e-4)


def test_spot_lets_a_reply_enter_several_slots_and_skips_videos_without_references() -> None:
    replies: Any = [[(10.5, 1)], [(3, 1)]]
    assert score_protocol("spot-si", [[(10, 10), (11, 11)], []], replies)["f1"] == 1.0


def test_a_wrong_reply_is_no_match_of_spot_and_only_a_match_in_time_of_omnipro() -> None:
    assert score_protocol("spot-sqa", [(10, 10)], [(10, 0.5)])["f1"] == 0.0
    found = score_protocol("omnipro", [(10, 10)], [(10, 0.4)])
    assert (found["f1"], found["time_f1"], found["content_accuracy"]) == (0.0, 1.0, 0.0)


def test_an_accuracy_can_differ_between_the_references() -> None:
    references = [(20, 20), (10, 10)]
    found = score_protocol("omnipro", references, [(11, (0, 1)), (21, (0, 1))])  # right for 10 s alone
    assert (found["f1"], found["time_f1"]) == (0.5, 1.0)


def test_omnipro_pairs_the_nearest_first() -> None:
    # 10.5 is nearest to 10, which leaves 8.5 to 7.5; in order of time 8.5 would be paired with 10.
    assert score_protocol("omnipro", [(10, 10), (7.5, 7.5)], [(8.5, 1), (10.5, 1)])["f1"] == 1.0
    # 9 is nearest to 10 (1 s), so that 12.5 is left with 6, out of reach: one pair of two.
    assert score_protocol("omnipro", [(10, 10), (6, 6)], [(9, 1), (12.5, 1)])["f1"] == 0.5


def test_egoproactive_as_in_the_published_scorer() -> None:
    # 10 chunks: tp 3, fp 1, fn 1, tn 5: F1 6/8 and 10/12, mean 0.7917, geometric mean 0.7906.
    references = [(0, 0), (8, 8), (16, 16), (24, 24)]
    found = score_protocol("egoproactive", references, [(1, 1), (9, 1), (17, 1), (33, 1)], durations_s=80)
    assert (found["macro_f1"], found["g_mean"]) == pytest.approx((0.7917, 0.7906), abs=5e-5)
    assert score_protocol("egoproactive", references, [], durations_s=80)["g_mean"] == 0.0


def test_egoproactive_leaves_out_chunks_after_the_end() -> None:
    found = score_protocol("egoproactive", [(0, 0), (90, 90)], [(1, 1), (99, 1)], durations_s=80)
    assert found["macro_f1"] == 1.0


def test_qevd_as_in_the_published_code() -> None:
    # 6.4 is 1.4 s from 5, 10.2 is 0.2 s from 10, 20 has no reference: R = 1, P = 2/3.
    found = score_protocol("qevd-tf", [(5, 5), (10, 10)], [(6.4, 1), (10.2, 1), (20, 1)])
    assert found == pytest.approx({"precision": 2 / 3, "recall": 1.0, "f1": 0.8})
    assert score_protocol("qevd-tf", [(5, 5)], [(6.5, 1)])["f1"] == 0.0  # less than 1.5 s


def test_interactive_cooking_needs_the_right_instruction_within_15_s() -> None:
    references = [(20, 20), (60, 60)]
    assert score_protocol("interactive-cooking", references, [(35, (1, 0)), (61, (1, 0))]) == {"ic_acc": 0.5}
    assert score_protocol("interactive-cooking", references, [(35.1, 1), (61, 1)]) == {"ic_acc": 0.5}


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([(9.5, 1), (20.9, 1)], (1.0, 1.0)),
        ([(9.5, 1), (20.9, 0.5)], (0.0, 1.0)),
        ([(9.5, 1), (21.1, 1)], (0.0, 0.0)),
        ([(9.5, 1)], (0.0, 0.0)),
        ([(9.5, 1), (10.2, 1), (20, 1)], (0.0, 0.0)),
    ],
)
def test_ipibench_repeated_needs_every_reply(replies: Any, expected: tuple[float, float]) -> None:
    found = score_protocol("ipibench-repeated", [(10, 10), (20, 20)], replies)
    assert (found["accuracy"], found["time_accuracy"]) == expected


def test_streamingbench_takes_the_first_yes_until_4_s_after_the_reference() -> None:
    assert score_protocol("streamingbench-po", [(10, 10)], [(12, 1), (10, 1)])["accuracy"] == 1.0
    assert score_protocol("streamingbench-po", [(10, 10)], [(7, 1), (10, 1)])["accuracy"] == 0.0
    assert score_protocol("streamingbench-po", [(10, 10)], [(14.5, 1)])["time_accuracy"] == 0.0
    assert score_protocol("streamingbench-po", [(10, 10)], [(10, 0.5)]) == {"accuracy": 0.0, "time_accuracy": 1.0}


def test_ovo_timing_is_2_s_after_the_start_of_a_span() -> None:
    assert score_protocol("ovo-timing", [(10, 20)], [(14, 0)])["f1"] == 1.0
    assert score_protocol("ovo-timing", [(10, 10)], [(14, 0)])["f1"] == 0.0
    # Means over videos: precision (1 + 0) / 2 and recall (1 + 0) / 2.
    assert score_protocol("ovo-timing", [[(10, 10)], [(10, 10)]], [[(10, 1)], []])["f1"] == 0.5


@pytest.mark.parametrize(("w", "expected"), [(0.0, 62.5), (0.5, 81.25), (1.0, 100.0)])
def test_pauc_discounts_the_delay_inside_a_span(w: float, expected: float) -> None:
    # A right reply in the middle of 10 s, at x = 5 (1 - w): (x * 0.5 + (10 - x) * 2) / 20.
    assert score_protocol("pauc", [(10, 20)], [(15, 1), (30, 0)], w=w)["pauc"] == pytest.approx(expected)


def test_the_rules_of_spans() -> None:
    # Two replies in the first span, none in the second: |1 - 2| and |1 - 0|; delays 1 s and the whole length, 5 s.
    found = score_protocol("livestar", [(10, 14), (20, 25)], [(11, 0), (12, 0), (15, 0)])
    assert found == {"coverage": 0.5, "redundancy": 1.0, "time_diff_s": 3.0}
    # Replies from 12 to 16 against 10 to 14: overlap 2 s of 6 s; one of two is inside.
    found = score_protocol("omnimmi", [(10, 14)], [(12, 0), (16, 0)])
    assert found == {"first_inside": 1.0, "inside_share": 0.5, "iou": pytest.approx(1 / 3)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("streampro-xy", [], []), "there is no protocol 'streampro-xy'; choose one of coin-next, "),
        (("omnipro", [(3, 2)], []), r"a reference must end at or after its start; got \(3.0, 2.0\)"),
        (("omnipro", [(1, 1)], [(1, 1.5)]), "an accuracy must be a number from 0 to 1; got 1.5"),
        (("ipibench-single", [(1, 1), (2, 2)], []), "has one reference for each video; video 0 has 2"),
    ],
)
def test_a_wrong_argument_is_named(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score_protocol(*arguments)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("spot-pnr", {"k": 0}, "k must be a whole number from 1 to 1000; got 0"),
        ("omnipro", {"tolerance_s": math.nan}, "tolerance_s must be a number from 0 to 60; got nan"),
        ("omnipro", {"k": 1}, "omnipro has no parameter 'k'; its parameters are: tolerance_s, right_accuracy"),
    ],
)
def test_a_wrong_parameter_is_named(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score_protocol(name, [(1, 1)], [], **parameters)


def test_the_document_has_the_tables_of_the_rules() -> None:
    text = (ROOT / "docs/protocols.md").read_text(encoding="utf-8")
    assert to_markdown() in text
    assert len(text.replace("|", " ").replace("---", " ").split()) <= 1200
