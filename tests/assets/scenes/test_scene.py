from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.assets.scenes.annotate import QUESTIONS, USER_GAP_S, annotate, prompt_state
from stepscope.assets.scenes.draw import draw_frame
from stepscope.assets.scenes.scene import Difficulty, Scene, make_scene
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
def test_turns_lie_on_the_grid_inside_a_video_of_40_to_60_s(scene: Scene) -> None:
    assert 40 <= scene.duration_s <= 60
    for turn in annotate(scene):
        assert (turn.time_s * 2).is_integer()
        assert 0 <= turn.time_s <= scene.duration_s - 0.5


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


def test_the_prompt_state_excludes_the_updates_of_its_own_frame() -> None:
    scene = make_scene(3, difficulty=CALM)
    first = next(turn for turn in annotate(scene) if turn.role == "update")
    step_id = first.text.split("->")[0]
    assert prompt_state(scene, first.time_s)[step_id] == "not_started"
    assert prompt_state(scene, first.time_s + 0.5)[step_id] == "in_progress"
    assert list(prompt_state(scene, 0.0)) == [step.id for step in scene.steps]


@few
@given(scenes)
def test_every_labelled_event_falls_well_before_the_frame_that_shows_it(scene: Scene) -> None:
    for event in scene.events:
        if event.kind != "hover":
            assert 0.05 < event.time_s % 0.5 < 0.31
