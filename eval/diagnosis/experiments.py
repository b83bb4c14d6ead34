"""The experiments of a diagnosis: one change of the task, the settings or the frames each, on top of gold history.

An experiment returns the sample and the settings of its gold pass, or None for a video in which it changes nothing.
Each kind has a *placebo*: a change of the same kind that gives the model nothing it lacked. If the placebo helps, too,
then any change does, and the kind explains nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, get_args

from stepscope.engine.config import StreamConfig
from stepscope.engine.config_files import parse_yaml, read_yaml
from stepscope.engine.dialogue import parse_update
from stepscope.engine.io.json_records import short_repr
from stepscope.eval.data.samples import Sample

Kind = Literal[
    "forgetting",
    "prompt: ids",
    "prompt: order",
    "prompt: wording",
    "prompt: system prompt",
    "thresholds",
    "frames: rate",
    "frames: phase",
    "own",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""In the order in which they are tried: the first that explains a root is its class."""
THRESHOLD_MOVES: Final = (-0.2, 0.2)
NOTHING: Final = 1e-9
"""A move of the thresholds that changes no decision, apart from exact ties."""
SYSTEM_PROMPT: Final = "You watch a video of a task and help with its steps as they are done."
_SECTION_KEYS: Final = ("goal", "steps")
_FILE_KEYS: Final = (*_SECTION_KEYS, *(field.name for field in fields(StreamConfig)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The sample and the settings of one gold pass."""

    sample: Sample
    config: StreamConfig
    shift_s: float = 0.0
    """Seconds by which every frame is taken later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Facts of the run of a video that an experiment may need."""

    has_cuts: bool
    max_tokens: int = 0
    """At least the tokens of its whole stream, without cuts."""


Vary = Callable[[Variant, Situation], Variant | None]
"""A function of a module, or a partial of one, so that workers can receive it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One change, or the placebo of its kind."""

    name: str
    kind: Kind
    vary: Vary
    """Returns the changed variant; None if nothing changes in a video."""
    is_placebo: bool = False
    cost: float = 2.0
    """Estimated cost in runs of a video in which something changes, as measured on the bundled model."""
    steps: tuple[str, ...] = ()
    """Ids or names of the steps that the user's own change names."""


def list_experiments(own: Sequence[Experiment] = ()) -> tuple[Experiment, ...]:
    """Return all experiments, each kind with its placebo, in the order of ``KINDS``, and the user's own last."""
    placebo = partial(Experiment, is_placebo=True)
    prompt, mixed = ({"system_prompt": text} for text in (SYSTEM_PROMPT, _mix_words(SYSTEM_PROMPT, "")))
    moves = [
        Experiment(name=f"thresholds {move:+g}", kind="thresholds", vary=partial(_move_thresholds, move), cost=1.1)
        for move in THRESHOLD_MOVES
    ]
    by_nothing = partial(_move_thresholds, NOTHING)
    ids, steps = partial(_vary_if_changed, _number_ids, _mix_ids), partial(_vary_if_changed, _sort_steps, _mix_steps)
    return (
        Experiment(name="a context that is never cut", kind="forgetting", vary=_keep_all),
        placebo(name="cuts elsewhere", kind="forgetting", vary=_cut_elsewhere),
        Experiment(name="ids in listing order", kind="prompt: ids", vary=_number_ids),
        placebo(name="ids at random", kind="prompt: ids", vary=ids),
        Experiment(name="steps in the order done", kind="prompt: order", vary=_sort_steps),
        placebo(name="steps at random", kind="prompt: order", vary=steps),
        Experiment(name="other words for the goal", kind="prompt: wording", vary=_reword_goal),
        placebo(name="the words of the goal mixed", kind="prompt: wording", vary=_mix_goal),
        Experiment(name="another system prompt", kind="prompt: system prompt", vary=partial(_change, prompt)),
        placebo(name="the words of that prompt mixed", kind="prompt: system prompt", vary=partial(_change, mixed)),
        *moves,
        placebo(name="thresholds moved by nothing", kind="thresholds", vary=by_nothing, cost=1.1),
        Experiment(name="twice the frame rate", kind="frames: rate", vary=_double_rate, cost=8.0),
        placebo(name="frames 5 % later", kind="frames: rate", vary=partial(_shift, 0.05)),
        Experiment(name="frames half an interval later", kind="frames: phase", vary=partial(_shift, 0.5), cost=5.0),
        placebo(name="frames 10 % later", kind="frames: phase", vary=partial(_shift, 0.1)),
        *own,
    )


def choose_affordable(
    experiments: Sequence[Experiment], costs: Mapping[str, float], *, budget: float, base_cost: float = 0.0
) -> tuple[Experiment, ...]:
    """Return the user's own experiments, whatever they cost, and the cheapest others that fit a budget in runs.

    ``costs`` are by name, ``base_cost`` is what all of them need. A kind is run with its placebo or not at all.
    """
    by_kind = {
        kind: sum(costs[experiment.name] for experiment in experiments if experiment.kind == kind) for kind in KINDS
    }
    budget -= base_cost + by_kind.pop("own")
    chosen: set[Kind] = {"own"}
    for kind in sorted(by_kind, key=by_kind.__getitem__):
        if by_kind[kind] <= budget:
            budget -= by_kind[kind]
            chosen.add(kind)
    return tuple(experiment for experiment in experiments if experiment.kind in chosen)


def read_experiments(path: Path) -> tuple[Experiment, ...]:
    """Return the experiments of a YAML file, each with a placebo if it changes texts.

    The file maps names to changes: ``goal`` (in which ``{goal}`` is the old one), ``steps`` (new names by step id or by
    old name), and any settings of a stream apart from ``fps``, such as ``system_prompt``. Raises ``ValueError`` naming
    the key.
    """
    return _make_experiments(read_yaml(path, keys=_FILE_KEYS), name=str(path))


def parse_experiments(text: str) -> tuple[Experiment, ...]:
    """Return the experiments of the text of a file, as ``read_experiments``; none for an empty text."""
    if not text.strip():
        return ()
    return _make_experiments(parse_yaml(text, name="the experiments", keys=_FILE_KEYS), name="the experiments")


def _make_experiments(content: Any, *, name: str) -> tuple[Experiment, ...]:
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{name} must map names of experiments to their changes; got {short_repr(content)}")
    found = list[Experiment]()
    for title, change in content.items():
        place = f"{name}: {title}"
        if not isinstance(change, dict) or not change:
            raise ValueError(f"{place} must map goal, steps or settings to values; got {short_repr(change)}")
        _check_change(place, change)
        steps = tuple(change.get("steps", ()))
        found.append(Experiment(name=str(title), kind="own", vary=partial(_change, change), steps=steps))
        mixed = {key: _mix_value(change[key]) for key in ("goal", "steps", "system_prompt") if key in change}
        if mixed:
            placebo = partial(_change, {**change, **mixed})
            found.append(Experiment(name=f"{title}, words mixed", kind="own", vary=placebo, is_placebo=True))
    if len({experiment.name for experiment in (*found, *list_experiments())}) < len(found) + len(list_experiments()):
        raise ValueError(f"{name}: an experiment has the name of another one; rename it")
    return tuple(found)


def _check_change(place: str, change: Mapping[Any, Any]) -> None:
    """Raise ``ValueError`` for an unknown key or an invalid value."""
    settings = {key: value for key, value in change.items() if key not in _SECTION_KEYS}
    known = {field.name for field in fields(StreamConfig)} - {"fps"}
    if unknown := sorted(str(key) for key in settings if key not in known):
        raise ValueError(f"{place}.{unknown[0]} is no change; use goal, steps or a setting of a stream other than fps")
    if not isinstance(change.get("goal", ""), str):
        raise ValueError(f"{place}.goal must be text; got {short_repr(change['goal'])}")
    steps = change.get("steps", {})
    if not isinstance(steps, dict) or not all(isinstance(part, str) for item in steps.items() for part in item):
        raise ValueError(f"{place}.steps must map ids or names to new names; got {short_repr(steps)}")
    try:
        StreamConfig(**settings)
    except ValueError as error:
        raise ValueError(f"{place}.{error}") from error


def _change(change: Mapping[str, Any], variant: Variant, _: Situation) -> Variant | None:
    settings = {key: value for key, value in change.items() if key not in _SECTION_KEYS}
    names, sample = change.get("steps", {}), variant.sample
    steps = tuple(replace(step, name=names.get(step.id, names.get(step.name, step.name))) for step in sample.steps)
    goal = change.get("goal", sample.goal).replace("{goal}", sample.goal)
    changed = replace(
        variant, sample=replace(sample, goal=goal, steps=steps), config=replace(variant.config, **settings)
    )
    return None if changed == variant else changed


def _vary_if_changed(first: Vary, then: Vary, variant: Variant, situation: Situation) -> Variant | None:
    """Vary the videos in which the change of a kind changes something, for its placebo."""
    return None if first(variant, situation) is None else then(variant, situation)


def _keep_all(variant: Variant, situation: Situation) -> Variant | None:
    if not situation.has_cuts:
        return None
    config = variant.config
    length = max(config.max_seq_len, situation.max_tokens + 2 * config.reserved_seq_len)
    return replace(variant, config=replace(config, max_seq_len=length))


def _cut_elsewhere(variant: Variant, situation: Situation) -> Variant | None:
    config = variant.config
    length = config.max_seq_len - config.refresh_at // 8
    if not situation.has_cuts or length <= config.reserved_seq_len or config.kept_tokens >= length // 2:
        return None
    return replace(variant, config=replace(config, max_seq_len=length))


def _number_ids(variant: Variant, _: Situation) -> Variant | None:
    return _rename(variant, sorted((step.id for step in variant.sample.steps), key=_id_order))


def _mix_ids(variant: Variant, _: Situation) -> Variant | None:
    return _rename(variant, _mix([step.id for step in variant.sample.steps], variant.sample.video_id))


def _id_order(step_id: str) -> tuple[int, str]:
    digits = "".join(filter(str.isdecimal, step_id))
    return int(digits or 0), step_id


def _change_sample(variant: Variant, **changes: Any) -> Variant | None:
    """Return a variant with other fields of its sample; None if they are equal."""
    sample = replace(variant.sample, **changes)
    return None if sample == variant.sample else replace(variant, sample=sample)


def _rename(variant: Variant, new_ids: Sequence[str]) -> Variant | None:
    """Return a variant with other ids of the steps, in the updates of the reference as well; None if all are equal."""
    sample = variant.sample
    ids = dict(zip((step.id for step in sample.steps), new_ids, strict=True))
    if list(ids) == list(new_ids):  # so that no update is written otherwise
        return None
    turns = []
    for turn in sample.turns:
        update = parse_update(turn.text) if turn.role == "update" else None
        is_known = update is not None and update.step_id in ids
        turns.append(replace(turn, text=f"{ids[update.step_id]}->{update.transition}") if update and is_known else turn)
    return _change_sample(
        variant,
        steps=tuple(replace(step, id=ids[step.id]) for step in sample.steps),
        turns=tuple(turns),
        initial_state={ids.get(step_id, step_id): state for step_id, state in sample.initial_state.items()},
    )


def _sort_steps(variant: Variant, _: Situation) -> Variant | None:
    """List the steps in the order of their first updates in the reference; those without one keep the end."""
    first_s: dict[str, float] = {}
    for turn in variant.sample.turns:
        update = parse_update(turn.text) if turn.role == "update" else None
        if update is not None:
            first_s.setdefault(update.step_id, turn.time_s)
    steps = sorted(variant.sample.steps, key=lambda step: first_s.get(step.id, math.inf))
    return _change_sample(variant, steps=tuple(steps))


def _mix_steps(variant: Variant, _: Situation) -> Variant | None:
    return _change_sample(variant, steps=tuple(_mix(variant.sample.steps, variant.sample.video_id)))


def _reword_goal(variant: Variant, _: Situation) -> Variant | None:
    goal = variant.sample.goal
    return _change_sample(variant, goal=f"show the user how to {goal[:1].lower()}{goal[1:]}") if goal else None


def _mix_goal(variant: Variant, _: Situation) -> Variant | None:
    return _change_sample(variant, goal=_mix_words(variant.sample.goal, variant.sample.video_id))


def _move_thresholds(move: float, variant: Variant, _: Situation) -> Variant:
    config = variant.config
    speak, update = (min(max(value + move, 0), 1) for value in (config.speak_threshold, config.update_threshold))
    return replace(variant, config=replace(config, speak_threshold=speak, update_threshold=update))


def _shift(share: float, variant: Variant, _: Situation) -> Variant:
    return replace(variant, shift_s=share / variant.sample.fps)


def _double_rate(variant: Variant, _: Situation) -> Variant | None:
    sample = replace(variant.sample, fps=2 * variant.sample.fps, num_frames=2 * variant.sample.num_frames)
    return replace(variant, sample=sample, config=replace(variant.config, fps=sample.fps))


def _mix(items: Sequence[Any], seed: str) -> list[Any]:
    """Return the items in another order, which a seed fixes."""
    mixed = list(items)
    Random(seed).shuffle(mixed)
    return mixed if mixed != list(items) else mixed[1:] + mixed[:1]


def _mix_words(text: str, seed: str) -> str:
    return " ".join(_mix(text.split(), seed))


def _mix_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _mix_words(text, "") for key, text in value.items()}
    return _mix_words(value, "")
