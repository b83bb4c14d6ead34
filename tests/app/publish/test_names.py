import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.app.publish.folder import file_stem


@pytest.mark.parametrize(
    ("video_id", "name"),
    [("boat", "0003-boat"), ("../Böat #1", "0003-boat-1"), ("日本", "0003"), ("", "0003"), ("a/b\\c", "0003-a-b-c")],
)
def test_names_are_plain(video_id: str, name: str) -> None:
    assert file_stem(3, video_id) == name


@given(st.lists(st.text(), max_size=20))
def test_names_of_any_ids_are_short_safe_and_unique_ignoring_case(ids: list[str]) -> None:
    names = [file_stem(number, video_id) for number, video_id in enumerate(ids, start=1)]
    assert all(re.fullmatch(r"\d{4}(-[a-z0-9]+)*", name) and len(name) < 60 for name in names)
    assert len({name.lower() for name in names}) == len(names)
