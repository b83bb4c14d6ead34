"""Runs under a protocol: which turns are read, and how contents become accuracies."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest

from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.matching.grading import Reply
from stepscope.eval.protocols.benchmarks.categories import NearestCategory, as_answer
from stepscope.eval.protocols.rules import parse_rule, read_video
from tests.support.data.records import make_output
from tests.support.data.replies import grade as fixed_grade
from tests.support.data.replies import scores as metric_scores
from tests.support.data.replies import spans


def make_sample(*turns: Turn) -> Sample:
    """Return a sample of 60 s at 2 frames/s."""
    return Sample(
        video_id="v", video_path=None, fps=2.0, num_frames=120, goal="", steps=(), turns=turns, initial_state={}
    )


def make_outputs(
    texts: Mapping[int, str], *, num_frames: int = 120, updates: Mapping[int, tuple[str, ...]] = MappingProxyType({})
) -> list[FrameOutput]:
    """Return outputs with these responses and updates by frame."""
    return [
        make_output(index, speak_prob=0.5, update_prob=0.5, response=texts.get(index), updates=updates.get(index, ()))
        for index in range(num_frames)
    ]


def grade(replies: Sequence[Reply]) -> list[int]:
    """Grade by the first letter: right if it is that of the reference, partly right for the next letter."""
    return [max(0, 2 - abs(ord(reply.text[0]) - ord(reply.gold[0]))) for reply in replies]


def spoken(*turns: tuple[float, str], end_s: float | None = None) -> Sample:
    """Return a sample of 60 s at 2 frames/s with these references."""
    return make_sample(*(Turn(time_s=time_s, role="assistant", text=text, end_s=end_s) for time_s, text in turns))


def test_a_rule_is_named_by_its_protocol_and_its_own_parameters() -> None:
    rule = parse_rule("spot-pnr:k=1,offset_s=0.5")
    assert rule.name == "spot-pnr:k=1"
    assert parse_rule(rule.name) == rule
    assert "k 1, offset_s 0.5" in rule.describe()
    assert "SPOT (arXiv 2604.24317)" in rule.describe()


def test_a_reply_has_the_time_of_its_frame_and_an_accuracy_for_each_reference_in_reach() -> None:
    sample = spoken((10.2, "b"), (20.0, "c"), (50.0, "b"))
    outputs = make_outputs({20: "b", 41: "a"}, num_frames=100)
    video, positions = read_video(parse_rule("omnipro"), sample, outputs, grade=grade)
    assert video.times_s == (10.0, 20.5)
    assert video.accuracies == ((1.0, 0.5, 0.0), (0.5, 0.0, 0.0))  # 50 s is out of reach
    assert video.duration_s == 50.0
    assert positions == (0, 1, 2)


def test_texts_are_not_graded_where_the_protocol_reads_none() -> None:
    def refuse(_: Sequence[Reply]) -> list[int]:
        raise AssertionError

    video, _ = read_video(parse_rule("qevd-tf"), spoken((10.0, "b")), make_outputs({20: "x"}), grade=refuse)
    assert video.accuracies == ((1.0,),)


def test_words_that_spot_counts_as_silence_are_no_replies() -> None:
    long = f"no{'!' * 500_000}a"  # would take a quarter of an hour if it took quadratic time
    outputs = make_outputs({20: "No response.", 25: "...", 30: "none", 40: "no idea", 50: long})
    sample = spoken((10.0, "n"))
    assert read_video(parse_rule("spot-sqa"), sample, outputs, grade=grade).video.times_s == (12.5, 20.0, 25.0)
    assert read_video(parse_rule("omnipro"), sample, outputs, grade=grade).video.times_s == (10, 12.5, 15, 20, 25)


def test_pauc_of_a_run_grades_all_replies_of_a_span_together() -> None:
    rule, sample = parse_rule("pauc:w=0"), spoken((10.0, "b"), end_s=20.0)
    # At 15 s the joined text "a b" begins with a, which is partly right: the grade stays 1.
    # (5 * 1 + 5 * 1) / 20 = 0.5
    outputs = make_outputs({20: "a", 30: "b", 60: "b"})
    assert rule.summarize(rule.count_outputs(sample, outputs, grade=grade)) == {"pauc": 50.0}
    assert rule.summarize(rule.count_outputs(sample, make_outputs({}), grade=grade)) == {"pauc": 25.0}


def test_interactive_cooking_reads_the_completions_of_a_run() -> None:
    rule = parse_rule("interactive-cooking")
    turns = (
        Turn(time_s=5.0, role="update", text="S1->start"),
        Turn(time_s=20.0, role="update", text="S1->complete"),
        Turn(time_s=40.0, role="update", text="S2->complete"),
    )
    sample = make_sample(*turns)
    updates = {70: ("S1->complete",), 90: ("S2->start", "S1->complete")}  # at 35 s, and the wrong step at 45 s
    outputs = make_outputs({}, updates=updates)
    assert rule.summarize(rule.count_outputs(sample, outputs, grade=grade)) == {"ic_acc": 0.5}
    assert read_video(rule, sample, outputs, grade=grade).positions == (1, 2)


def test_coin_takes_the_last_reply_of_a_segment_as_the_nearest_category_of_the_split() -> None:
    updates = ((5, "S1->start"), (10, "S1->complete"), (10, "S2->start"), (20, "S2->complete"), (30, "S3->start"))
    sample = replace(
        make_sample(*(Turn(time_s=time_s, role="update", text=text) for time_s, text in updates)),
        goal="PutOnHair",
        steps=tuple(Step(id=f"S{n}", name=name) for n, name in enumerate(("comb hair", "pin hair", "fix hair"), 1)),
    )
    other = replace(sample, video_id="other", goal="make tea", turns=())
    # S1 5-10 s: right, then "Pin hair." (the next step) at 10 s, the last inside; S2 10-20 s: "pin har" is 3 from
    # "Pin hair." and 5 from "Fix hair."; S3 30 s to the end: no reply
    outputs = make_outputs({12: "comb hair", 20: "Pin hair.", 38: "pin har", 50: "put in hair"})
    samples = [sample, other]

    def score(text: str) -> tuple[float, float]:
        rule = parse_rule(text)
        found = rule.summarize(rule.count_outputs(sample, outputs, grade=rule.choose_grade(samples, grade)))
        return found["accuracy"], found["answered"]

    assert score("coin-step") == (1 / 3, 2 / 3)
    assert score("coin-next") == (1 / 2, 1)  # of S1 and S2: "Pin hair." is the next of S1, "Fix hair." that of S2
    assert score("coin-task") == (1, 1)  # the last reply, of "Put on hair." and "Make tea."
    assert score("coin-step:wait_s=60") == (1 / 3, 2 / 3)  # 25 s is then of S1 and S2: nearest is "Pin hair."
    assert read_video(parse_rule("coin-next"), sample, outputs, grade=grade).positions == (0, 2)
    assert parse_rule("coin-task").explain_undefined([spoken((1.0, "a"))], has_states=True) == (
        "the split has no references for goals"
    )


def test_categories_are_written_as_the_published_answers() -> None:
    names = ("PutOnHair", "InstallSSD", "ReplaceSIMCard", "MakeRJ45Cable", "crop and fold paper")
    assert [as_answer(name) for name in names] == [
        "Put on hair.",
        "Install ssd.",
        "Replace sim card.",
        "Make rj45 cable.",
        "Crop and fold paper.",
    ]
    long = Reply(question="", gold="a", text="a" * 500_000)  # only its first characters count
    assert NearestCategory(["a", "b"])([long]) == [2]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("omnipro", ""),
        ("ipibench-single", "it has one reference for each video; a video of the split has 2"),
        ("pauc", "the split has no references for replies in spans"),
    ],
)
def test_a_rule_that_does_not_fit_a_split_says_why(name: str, reason: str) -> None:
    samples = [spoken((10.0, "a"), (20.0, "b"))]
    assert parse_rule(name).explain_undefined(samples, has_states=False) == reason


def test_rules_that_are_metrics_too_have_the_scores_of_the_metrics() -> None:
    sample = spans((10.0, 20.0), (30.0, 45.0))
    said = ((12.0, "half"), (17.0, "right"), (31.0, "wrong"), (32.0, "gold"), (50.0, "gold"))
    scores = metric_scores(sample, *said)
    outputs = make_outputs({int(time_s): text for time_s, text in said}, num_frames=60)
    for name, metric in (("pauc", "PAUC_w0.5"), ("pauc:w=0", "PAUC_w0"), ("ovo-timing", "OVO_timing_F1_2s")):
        rule = parse_rule(name)
        found = rule.summarize(rule.count_outputs(sample, outputs, grade=fixed_grade))[rule.protocol.main]
        assert found == pytest.approx(scores[metric])
    rule = parse_rule("livestar")
    livestar = rule.summarize(rule.count_outputs(sample, outputs, grade=fixed_grade))
    assert livestar == {
        "coverage": scores["span_coverage"],
        "redundancy": scores["span_redundancy"],
        "time_diff_s": scores["span_first_reply_delay_s"],
    }
