"""Reads JSON files with segments, also those with a ``database``, by the paths of a mapping."""

from collections.abc import Iterator, Mapping
from typing import Any

from stepscope.eval.datasets.mappings import DatasetMapping, find_value
from stepscope.eval.datasets.rows import Row, make_video
from stepscope.eval.datasets.segments import AnnotatedVideo, RecipeStep, normalise


def read_segments(
    content: Any, name: Mapping[str, str], mapping: DatasetMapping, *, level: int
) -> list[AnnotatedVideo]:
    """Return the videos of a JSON file. Raises ``ValueError`` if they are not at the path of the mapping."""
    videos = []
    for number, record in enumerate(list_records(content, mapping.videos)):
        place = f"video number {number}"
        rows = list_rows(record, mapping)
        videos.append(make_video({**name, **record}, [*_nest(rows, mapping, place, 1)], mapping, level=level))
    return videos


def list_records(content: Any, path: str, group: str = "") -> Iterator[dict[str, Any]]:
    """Yield the records of an object or a list at a path, with their keys. Raises ``ValueError`` for anything else."""
    first, _, rest = path.partition(".")
    if first and first != "*":
        if not isinstance(content, dict) or first not in content:
            raise ValueError(f"there is no {first} in the file; correct the path of the videos")
        yield from list_records(content[first], rest, group)
        return
    if not isinstance(content, dict | list):
        raise ValueError("the videos must be a list or an object")
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        if first:
            yield from list_records(value, rest, str(key))
        elif isinstance(value, dict):
            yield {"@key": str(key), "@group": group, **value}
        else:
            raise ValueError(f"video {str(key)[:40]} must be an object")


def list_rows(record: Mapping[str, Any], mapping: DatasetMapping) -> list[dict[str, Any]]:
    """Return the segments of a video: a list of objects, or the rows of lists of equal length."""
    value = record if mapping.segments == "." else find_value(record, mapping.segments)
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"{mapping.segments} of a video must be a list of objects, or an object of lists")
    lists = {name: items for name, items in value.items() if isinstance(items, list)}
    if len({len(items) for items in lists.values()}) > 1:
        raise ValueError(f"the lists {', '.join(lists)} of a video must be equally long")
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def read_taxonomy(content: Any, mapping: DatasetMapping) -> dict[str, tuple[RecipeStep, ...]]:
    """Return the recipes of a file by normalised name: the leaves of its taxonomy."""
    recipes = {}
    found = find_value(content, mapping.taxonomy) if mapping.taxonomy and isinstance(content, dict) else None
    for name, steps in found.items() if isinstance(found, dict) else ():
        leaves = [step for step in list_records(steps, "") if step.get("is_leafnode") is not False]
        recipes[normalise(name)] = tuple(
            RecipeStep(name=str(step.get("name", step["@key"])), step_id=str(step.get("unique_id", step.get("id", ""))))
            for step in leaves
        )
    return recipes


def _nest(rows: list[dict[str, Any]], mapping: DatasetMapping, place: str, level: int) -> Iterator[Row]:
    for number, row in enumerate(rows):
        here = f"{place}, segment number {number}"
        yield Row(place=here, fields=row, level=level)
        children = find_value(row, mapping.children) if mapping.children else None
        if isinstance(children, list) and level < 10 and all(isinstance(child, dict) for child in children):
            yield from _nest(children, mapping, here, level + 1)
