"""The worked cases of steps and updates."""

import math
from dataclasses import replace

import pytest

from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.datasets.recipes import Repeats, build_sample, read_graph
from stepscope.eval.datasets.segments import AnnotatedVideo, RecipeStep, Segment


def seg(
    label: str, start_s: float, end_s: float, *, cause: str = "", step_id: str = "", continued: bool = False
) -> Segment:
    return Segment(label=label, start_s=start_s, end_s=end_s, cause=cause, step_id=step_id, is_continued=continued)


def video(*segments: Segment, duration_s: float | None = None) -> AnnotatedVideo:
    return AnnotatedVideo(video_id="v", segments=segments, duration_s=duration_s)


def updates(sample: Sample) -> list[tuple[float, str]]:
    return [(turn.time_s, turn.text) for turn in sample.turns]


def names(sample: Sample) -> list[str]:
    return [step.name for step in sample.steps]


def test_a_step_completes_before_the_next_starts_and_an_end_at_the_end_of_the_video_is_on_its_last_frame() -> None:
    sample, counts = build_sample(video(seg("A", 0, 10), seg("B", 10, 20)), fps=2, duration_s=20)
    assert updates(sample) == [(0, "S1->start"), (10, "S1->complete"), (10, "S2->start"), (19.5, "S2->complete")]
    assert sample.num_frames == 40
    assert counts == {"clamped": 1}


def test_an_end_after_the_video_is_clamped_and_counted() -> None:
    sample, counts = build_sample(video(seg("A", 28, 30.4)), fps=2, duration_s=30)
    assert updates(sample) == [(28, "S1->start"), (29.5, "S1->complete")]
    assert counts == {"clamped": 1}


def test_a_start_within_the_last_frame_is_not_after_its_clamped_end() -> None:
    sample, _ = build_sample(video(seg("A", 29.8, 30.4)), fps=2, duration_s=30)
    assert updates(sample) == [(29.8, "S1->start"), (29.8, "S1->complete")]


def test_a_start_after_the_video_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'A' starts at 31 s, after the end of the video at 30 s"):
        build_sample(video(seg("A", 31, 32)), fps=2, duration_s=30)


def test_a_segment_without_length_starts_before_it_completes() -> None:
    sample, _ = build_sample(video(seg("A", 3, 3), seg("B", 0, 3)), fps=2, duration_s=10)
    assert updates(sample) == [(0, "S1->start"), (3, "S1->complete"), (3, "S2->start"), (3, "S2->complete")]


def test_an_end_after_the_length_but_on_the_last_frame_stays() -> None:
    sample, counts = build_sample(video(seg("A", 259.2243, 294.4608)), fps=2, duration_s=294.46)
    assert sample.num_frames == 589
    assert updates(sample)[-1] == (294.4608, "S1->complete")
    assert not counts


def test_ids_of_the_form_s3_are_kept_unless_two_steps_share_one() -> None:
    first, second = seg("A", 1, 2, step_id="S2"), seg("B", 2, 3, step_id="S1")
    sample, _ = build_sample(video(second, first), fps=2, duration_s=10)
    assert updates(sample) == [(1, "S2->start"), (2, "S2->complete"), (2, "S1->start"), (3, "S1->complete")]
    again = seg("A", 5, 6, step_id="S2")
    for segments, expected in (((first, second, again), ["S1", "S2", "S3"]), ((first, seg("C", 3, 4)), ["S1", "S2"])):
        sample, _ = build_sample(video(*segments), fps=2, duration_s=10)
        assert [step.id for step in sample.steps] == expected


CUTS = (seg("cut", 2, 5), seg("place", 5, 7), seg("cut", 7, 9), seg("place", 9, 12))


@pytest.mark.parametrize(
    ("repeats", "expected", "counts"),
    [
        ("merge", [(2, "S1->start"), (5, "S2->start"), (9, "S1->complete"), (12, "S2->complete")], {"extended": 2}),
        (
            "first",
            [(2, "S1->start"), (5, "S1->complete"), (5, "S2->start"), (7, "S2->complete")],
            {"repeated": 2},
        ),
    ],
)
def test_repeats_become_one_step_to_the_last_or_the_first_end(
    repeats: Repeats, expected: list[tuple[float, str]], counts: dict[str, int]
) -> None:
    sample, counted = build_sample(video(*CUTS), fps=2, duration_s=20, repeats=repeats)
    assert updates(sample) == expected
    assert counted == counts


def test_without_a_recipe_each_segment_is_a_step() -> None:
    sample, counts = build_sample(video(*CUTS), fps=2, duration_s=20)
    assert names(sample) == ["cut", "place", "cut", "place"]
    assert not counts


STIR_TWICE = (RecipeStep(name="stir"), RecipeStep(name="pour"), RecipeStep(name="Stir ", after=(1,)))


def test_the_kth_segment_fills_the_kth_entry_of_a_recipe_and_surplus_ones_extend_the_last() -> None:
    annotated = video(seg("stir", 1, 2), seg("stir", 4, 5), seg("stir", 6, 8), seg("sing", 6, 7))
    sample, counts = build_sample(annotated, fps=2, duration_s=10, recipe=STIR_TWICE)
    assert updates(sample) == [(1, "S1->start"), (2, "S1->complete"), (4, "S3->start"), (8, "S3->complete")]
    assert names(sample) == ["stir", "pour", "Stir "]
    assert sample.after == {"S3": ("S2",)}
    assert counts == {"extended": 1, "not in the recipe": 1}


def test_a_step_of_a_recipe_is_found_by_its_id_before_its_text() -> None:
    recipe = (RecipeStep(name="pour", step_id="7"), RecipeStep(name="stir", step_id="8"))
    sample, _ = build_sample(video(seg("pour", 1, 2, step_id="8")), fps=2, duration_s=10, recipe=recipe)
    assert updates(sample) == [(1, "S2->start"), (2, "S2->complete")]


def test_a_step_within_another_completes_before_it() -> None:
    sample, _ = build_sample(video(seg("A", 1, 6), seg("B", 4, 5)), fps=2, duration_s=10)
    assert updates(sample) == [(1, "S1->start"), (4, "S2->start"), (5, "S2->complete"), (6, "S1->complete")]


def test_a_segment_that_is_annotated_twice_is_one_step_and_counted() -> None:
    sample, counts = build_sample(video(seg("A", 961.7, 992), seg("A", 961.77, 992.02)), fps=2, duration_s=1000)
    assert updates(sample) == [(961.7, "S1->start"), (992, "S1->complete")]
    assert counts == {"duplicate": 1}


def test_a_step_that_was_never_done_stays_in_the_recipe_without_updates() -> None:
    sample, counts = build_sample(video(seg("A", -1, -1), seg("B", 1, 2)), fps=2, duration_s=10)
    assert names(sample) == ["B", "A"]
    assert updates(sample) == [(1, "S1->start"), (2, "S1->complete")]
    assert counts == {"never done": 1}


def test_a_continued_segment_extends_an_earlier_part_if_there_is_one() -> None:
    parts = (seg("cut", 2, 4, continued=True), seg("wash", 4, 5), seg("cut", 5, 9, continued=True))
    sample, counts = build_sample(video(*parts), fps=2, duration_s=10)
    assert updates(sample) == [(2, "S1->start"), (4, "S2->start"), (5, "S2->complete"), (9, "S1->complete")]
    assert counts == {"extended": 1}


def test_a_step_done_wrongly_completes_with_the_error_as_cause_or_waits_for_a_correct_segment() -> None:
    wrong, right = seg("A", 1, 2, cause="Technique Error"), seg("A", 3, 5)
    sample, _ = build_sample(video(wrong), fps=2, duration_s=10)
    assert sample.turns[1] == Turn(time_s=2, role="update", text="S1->complete", cause="Technique Error")
    sample, counts = build_sample(video(wrong), fps=2, duration_s=10, wrong="open")
    assert updates(sample) == [(1, "S1->start")]
    assert counts == {"left open": 1}
    sample, _ = build_sample(video(wrong, right), fps=2, duration_s=10, wrong="open")
    assert updates(sample) == [(1, "S1->start"), (5, "S1->complete")]


@pytest.mark.parametrize(
    ("end_s", "duration_s", "question"),
    [
        (41000, 410, "the last segment ends at 41,000 s, the video at 410 s: is the unit frames"),
        (410000, 410, "the last segment ends at 410,000 s, the video at 410 s: is the unit ms"),
        (90000, None, "the last segment ends at 90,000 s, more than a day: is the unit frames or ms"),
    ],
)
def test_an_impossible_length_asks_for_the_unit(end_s: float, duration_s: float | None, question: str) -> None:
    with pytest.raises(ValueError, match=question):
        build_sample(video(seg("A", 1, end_s)), fps=2, duration_s=duration_s)


def test_the_length_of_the_file_counts_before_that_of_the_annotations_and_the_last_end() -> None:
    annotated = video(seg("A", 1, 2), duration_s=9.9)
    assert build_sample(annotated, fps=2, duration_s=12)[0].num_frames == 24
    assert build_sample(annotated, fps=2)[0].num_frames == 20
    assert build_sample(replace(annotated, duration_s=None), fps=2)[0].num_frames == 5
    assert build_sample(video(), fps=2)[0].num_frames == 1


@pytest.mark.parametrize(("duration_s", "fps"), [(1e6, 1), (80_000, 100)])
def test_a_length_of_too_many_frames_is_refused(duration_s: float, fps: float) -> None:
    with pytest.raises(ValueError, match="at most a day and 2592000 frames"):
        build_sample(video(duration_s=duration_s), fps=fps)


def test_messages_after_the_video_are_left_out_and_counted() -> None:
    turns = tuple(Turn(time_s=time_s, role="user", text="Hi") for time_s in (1.0, 11.0))
    sample, counts = build_sample(replace(video(duration_s=10), turns=turns), fps=2)
    assert sample.turns == turns[:1]
    assert counts == {"message outside": 1}


def test_a_task_graph_is_a_recipe_in_an_order_that_it_allows() -> None:
    graph = {"steps": {"0": "START", "1": "serve", "2": "cut", "3": "END"}, "edges": [[0, 2], [2, 1], [1, 3]]}
    assert read_graph(graph) == (RecipeStep(name="cut"), RecipeStep(name="serve", after=(0,)))


@pytest.mark.parametrize(
    ("edges", "reason"),
    [
        ([["1", "2"], ["2", "1"]], "has a cycle"),
        ([["1", "9"]], "of the ids of two of its steps"),
        ([7], "of the ids of two"),
    ],
)
def test_a_damaged_task_graph_is_refused(edges: list[object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_graph({"steps": {"1": "a", "2": "b"}, "edges": edges})


def test_ten_thousand_segments_of_one_step_need_no_quadratic_search() -> None:
    """Each is compared with the segments of its step that are still open: 10,000 take about 0.2 s."""
    many = [seg("A", 2 * number, 2 * number + 1) for number in range(10_000)]
    sample, _ = build_sample(video(*many), fps=1)
    assert len(sample.steps) == 10_000
    assert math.isclose(sample.turns[-1].time_s, 19_999)
