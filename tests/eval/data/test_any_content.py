"""Reading a file of any content gives samples or one clear error."""

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.engine.dialogue import initial_state
from stepscope.eval.data.loading import SampleWarning, read_samples
from tests.support.data.published import (
    CLIP,
    DIALOGUE,
    EGOPROACTIVE,
    MANIFEST,
    OMNIPRO,
    QEVD,
    changed,
    write,
    write_qevd,
)
from tests.support.data.shared_data import shared

anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["", "S1", "user", "1. a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "time", "id", "S1", "videos", "dst"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(value: object) -> list[tuple[str | int, ...]]:
    """Return the way to each place inside a JSON value."""
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [(key, *rest) for key, part in inner for rest in [(), *places(part)]]


def read_or_refuse(path: Path, *, strict: bool) -> None:
    """Read samples that keep their promises, or see one error that names the file."""
    samples, reason = [], None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SampleWarning)
            samples = read_samples(path, strict=strict)
    except ValueError as error:
        reason = str(error)
    assert reason is None or ("data.txt" in reason and len(reason) < 20_000)
    for sample in samples:
        initial_state(sample.steps, sample.initial_state)
        assert all(0 <= math.floor(turn.time_s * sample.fps) < sample.num_frames for turn in sample.turns)
        assert [turn.time_s for turn in sample.turns] == sorted(turn.time_s for turn in sample.turns)


SOURCES: dict[str, Callable[[], dict[str, Any]]] = {
    "drawn clip": lambda: CLIP,
    "drawn dialogue": lambda: DIALOGUE,
    "manifest": lambda: MANIFEST,
    "EgoProactive": lambda: EGOPROACTIVE,
    "OmniPro": lambda: OMNIPRO,
    "QEVD": lambda: QEVD,
    "real clip": lambda: dict(json.loads(shared("data/dst_clip.json").read_text())),
    "real dialogue": lambda: dict(json.loads(shared("data/proassist_dialogues.jsonl").read_text().splitlines()[1])),
}


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), strict=st.booleans())
def test_a_mutated_record_gives_samples_or_one_clear_error(
    tmp_path: Path, source: str, data: st.DataObject, strict: bool
) -> None:
    record = SOURCES[source]()
    write_qevd(tmp_path)  # its times are beside the split
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(record)))
        record = changed(record, *place, to=data.draw(anything | st.just(...)))
        if not record:
            break
    read_or_refuse(write(tmp_path, record), strict=strict)
    read_or_refuse(write(tmp_path, f"{json.dumps(record)}\n{json.dumps(CLIP)}"), strict=strict)


@pytest.mark.parametrize("field", ["fps", "dst", "conversation", "video_uid", "initial_dst_state", "metadata"])
def test_deeply_nested_json_is_one_clear_error(tmp_path: Path, field: str) -> None:
    for depth in (500, 900, 100_000):
        content = json.dumps({**CLIP, field: "DEEP"}).replace('"DEEP"', "[" * depth + "]" * depth)
        with pytest.raises(ValueError, match=r"data\.txt"):
            read_samples(write(tmp_path, content))
