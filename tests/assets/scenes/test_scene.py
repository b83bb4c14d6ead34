from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.assets.scenes.annotate import QUESTIONS, USER_GAP_S, annotate, prompt_state
from stepscope.assets.scenes.draw import draw_frame
from stepscope.assets.scenes.labels import HAND_STATES, PART_STATES, frame_labels
from stepscope.assets.scenes.recipes import FAMILIES, NOUNS, RECIPES
from stepscope.assets.scenes.scene import Difficulty, Scene, hand_at, make_scene, part_at
from stepscope.assets.scenes.shapes import DRAWINGS
from stepscope.engine.dialogue import apply_update, initial_state

CALM = Difficulty(drop=0, decoy=0, hover=0, swap=0, light=0, noise=0)
STORM = Difficulty(drop=1, decoy=1, hover=1, swap=1, light=1, noise=1)
KNOBS = ("drop", "decoy", "hover", "swap", "light", "noise")

seeds = st.integers(0, 2**32)
levels = st.floats(0, 1)
difficulties = st.builds(Difficulty, drop=levels, decoy=levels, hover=levels, swap=levels, light=levels, noise=levels)
scenes = st.builds(
    lambda seed, difficulty, permute: make_scene(seed, difficulty=difficulty, permute_ids=permute),
    seeds,
    difficulties | st.just(STORM) | st.just(CALM),
    st.booleans(),
)
few = settings(max_examples=60)


def causes_of(scene: Scene) -> set[str]:
    """Return all difficulties of a scene, with or without an affected turn."""
    named = {event.cause for event in scene.events} | {spell.cause for spell in scene.spells}
    return {cause for cause in named if cause is not None}


@few
@given(scenes)
def test_a_replayed_dialogue_is_legal_and_completes_every_step(scene: Scene) -> None:
    state = initial_state(scene.steps)
    for turn in annotate(scene):
        if turn.role == "update":
            change = apply_update(state, turn.text)
            assert change.legality == "legal"
            state = dict(change.state)
    assert set(state.values()) == {"completed"}


@few
@given(scenes)
def test_every_step_starts_at_least_a_frame_before_it_completes(scene: Scene) -> None:
    times = {turn.text: turn.time_s for turn in annotate(scene) if turn.role == "update"}
    assert len(times) == 2 * len(scene.steps)
    for step in scene.steps:
        assert times[f"{step.id}->start"] < times[f"{step.id}->complete"]


@few
@given(scenes)
def test_turns_lie_on_the_grid_inside_a_video_of_40_to_60_s(scene: Scene) -> None:
    assert 40 <= scene.duration_s <= 60
    for turn in annotate(scene):
        assert (turn.time_s * 2).is_integer()
        assert 0 <= turn.time_s <= scene.duration_s - 0.5


@few
@given(scenes)
def test_the_assistant_says_one_sentence_a_frame_at_most(scene: Scene) -> None:
    times = [turn.time_s for turn in annotate(scene) if turn.role == "assistant"]
    assert len(times) == len(set(times))
    assert times[0] == 0


@few
@given(scenes)
def test_turns_are_in_order_of_time_then_updates_user_assistant(scene: Scene) -> None:
    kinds = {"update": 0, "user": 1, "assistant": 2}
    keys = [(t.time_s, kinds[t.role], t.role == "update" and t.text.endswith("start")) for t in annotate(scene)]
    assert keys == sorted(keys)


@few
@given(scenes)
def test_a_question_is_answered_at_once_and_far_from_every_other_turn(scene: Scene) -> None:
    turns = annotate(scene)
    for asked in (turn for turn in turns if turn.role == "user"):
        together = [turn for turn in turns if turn.time_s == asked.time_s]
        others = [turn for turn in turns if turn.time_s != asked.time_s]
        assert asked.text in QUESTIONS
        assert [turn.role for turn in together] == ["user", "assistant"]
        assert min(abs(turn.time_s - asked.time_s) for turn in others) >= USER_GAP_S


@few
@given(scenes)
def test_hand_keys_never_go_back_in_time(scene: Scene) -> None:
    for keys in scene.hands:
        times = [key.time_s for key in keys]
        assert times == sorted(times)


@few
@given(scenes)
def test_a_hand_that_holds_a_part_is_closed(scene: Scene) -> None:
    for time_s in np.arange(0, scene.duration_s, 0.5):
        held_by = [pose.hand for part in scene.parts if (pose := part_at(scene, part, time_s)).state == "held"]
        assert len(held_by) == len(set(held_by))
        closed = [hand for hand in (0, 1) if (grip := hand_at(scene, hand, time_s)) and grip.is_closed]
        assert sorted(hand for hand in held_by if hand is not None) == closed


@few
@given(seeds, difficulties)
def test_permuted_ids_are_unique_and_change_nothing_else(seed: int, difficulty: Difficulty) -> None:
    plain = make_scene(seed, difficulty=difficulty)
    permuted = make_scene(seed, difficulty=difficulty, permute_ids=True)
    assert [step.id for step in plain.steps] == [f"S{i + 1}" for i in range(len(plain.steps))]
    assert sorted(step.id for step in permuted.steps) == [step.id for step in plain.steps]
    assert [step.name for step in permuted.steps] == [step.name for step in plain.steps]
    assert replace(permuted, steps=plain.steps) == plain


@settings(max_examples=10)
@given(seeds, difficulties)
def test_the_same_seed_gives_the_same_scene_turns_and_pixels(seed: int, difficulty: Difficulty) -> None:
    one, two = (make_scene(seed, difficulty=difficulty) for _ in range(2))
    assert one == two
    assert annotate(one) == annotate(two)
    first, again = (draw_frame(scene, 20.5, height=90, width=120) for scene in (one, two))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("knob", KNOBS)
def test_a_knob_at_0_gives_none_of_its_events_and_at_1_some_in_every_scene(knob: str) -> None:
    for seed in range(12):
        off = make_scene(seed, difficulty=replace(STORM, **{knob: 0.0}))
        only = make_scene(seed, difficulty=replace(CALM, **{knob: 1.0}))
        assert knob not in causes_of(off)
        assert causes_of(only) == {knob}


def test_a_calm_scene_has_no_causes_and_says_neither_careful_nor_back() -> None:
    for seed in range(12):
        scene = make_scene(seed, difficulty=CALM)
        assert causes_of(scene) == set()
        assert not any(turn.text.startswith(("Careful", "Put the")) for turn in annotate(scene))


def test_about_half_the_scenes_have_two_hands_and_some_hand_over_on_one_frame() -> None:
    made = [make_scene(seed, difficulty=Difficulty.easy()) for seed in range(100)]
    assert 35 <= sum(bool(scene.hands[1]) for scene in made) <= 65
    assert any("You already have" in turn.text for scene in made for turn in annotate(scene))


def test_about_half_the_scenes_have_questions() -> None:
    made = [make_scene(seed, difficulty=Difficulty.easy()) for seed in range(100)]
    counts = [sum(turn.role == "user" for turn in annotate(scene)) for scene in made]
    assert 35 <= sum(count > 0 for count in counts) <= 65
    assert set(counts) == {0, 1, 2}


def test_the_prompt_state_excludes_the_updates_of_its_own_frame() -> None:
    scene = make_scene(3, difficulty=CALM)
    first = next(turn for turn in annotate(scene) if turn.role == "update")
    step_id = first.text.split("->")[0]
    assert prompt_state(scene, first.time_s)[step_id] == "not_started"
    assert prompt_state(scene, first.time_s + 0.5)[step_id] == "in_progress"
    assert list(prompt_state(scene, 0.0)) == [step.id for step in scene.steps]


def test_nouns_are_unique_in_a_recipe_and_all_are_drawn() -> None:
    for recipe in RECIPES:
        nouns = [part.noun for part in recipe.parts]
        assert len(nouns) == len(set(nouns))
        assert 4 <= recipe.num_required <= len(nouns) <= 7
    assert set(DRAWINGS) == set(NOUNS)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_can_be_asked_for(family: str) -> None:
    assert make_scene(1, difficulty=CALM, family=family).family == family


def test_an_unknown_family_and_a_knob_beyond_1_are_refused() -> None:
    with pytest.raises(ValueError, match="rocket"):
        make_scene(1, difficulty=CALM, family="rocket")
    with pytest.raises(ValueError, match="drop"):
        replace(CALM, drop=1.5)


def test_a_small_square_frame_is_the_large_one_squeezed_with_no_shift() -> None:
    scene = make_scene(7, difficulty=CALM)
    large = draw_frame(scene, 15.0, height=288, width=384)
    small = draw_frame(scene, 15.0, height=96, width=96).astype(np.float64)
    assert large.shape == (288, 384, 3)
    assert large.dtype == np.uint8
    squeezed = large.reshape(96, 3, 96, 4, 3).mean(axis=(1, 3))
    here = np.abs(squeezed - small).mean()
    moved = [np.abs(squeezed - np.roll(small, by, axis)).mean() for axis in (0, 1) for by in (-1, 1)]
    assert here < 0.75 * min(moved)


def test_labels_follow_a_part_from_the_tray_through_the_hand_to_its_place() -> None:
    scene = make_scene(3, difficulty=CALM)
    start, complete = (next(e for e in scene.events if e.kind == kind) for kind in ("start", "complete"))
    number = 1 + NOUNS.index(scene.parts[start.part].noun)
    before, held, after = (
        frame_labels(scene, time_s) for time_s in (0.0, (start.time_s + complete.time_s) / 2, complete.time_s + 0.01)
    )
    for labels, state in ((before, "tray"), (held, "held"), (after, "placed")):
        assert PART_STATES.index(state) in labels.patch_state[labels.patch_noun == number]
    assert list(held.hand_noun) == [number, 0]
    assert held.hand_closed[0] == 1
    assert HAND_STATES.index("closed") in held.patch_hand
    assert (before.num_placed, held.num_placed, after.num_placed) == (0, 0, 1)
    assert after.placed[number - 1] == 1


def test_a_dropped_part_is_labelled_loose() -> None:
    scene = make_scene(3, difficulty=replace(CALM, drop=1.0))
    drop = next(event for event in scene.events if event.kind == "drop")
    assert frame_labels(scene, drop.time_s + 0.1).is_loose
    assert not frame_labels(scene, drop.time_s - 0.1).is_loose


@few
@given(scenes)
def test_every_labelled_event_falls_well_before_the_frame_that_shows_it(scene: Scene) -> None:
    for event in scene.events:
        if event.kind != "hover":
            assert 0.05 < event.time_s % 0.5 < 0.31


def test_a_swap_starts_two_neighbours_in_the_other_order_and_a_calm_scene_none() -> None:
    for seed in range(12):
        for difficulty, num_moved in ((CALM, 0), (replace(CALM, swap=1.0), 2)):
            events = make_scene(seed, difficulty=difficulty).events
            order = [event.part for event in events if event.kind == "start"]
            assert sum(part != place for place, part in enumerate(order)) == num_moved


def test_the_steps_left_are_counted_from_the_state_before_the_question() -> None:
    words = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven")
    answers = 0
    for seed in range(60):
        scene = make_scene(seed, difficulty=STORM)
        turns = annotate(scene)
        for asked, answer in pairwise(turns):
            if asked.text == "How many steps are left?":
                state = prompt_state(scene, asked.time_s)
                assert answer.text.split()[0] == words[sum(value != "completed" for value in state.values())]
                answers += 1
    assert answers > 5
