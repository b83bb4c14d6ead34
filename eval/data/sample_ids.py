"""Assigns unique ids to the samples of a split: published clips or dialogues of a video may share one id.

The first sample keeps the id of its record. A later clip of different frames becomes ``v_193-451``, a later dialogue of
the same frames ``v_2``. An id with a suffix never equals the id of a record.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from stepscope.eval.data.clips import Extent
from stepscope.eval.data.samples import Sample


class SampleIds:
    """The ids assigned so far in a split, whose records have the ids ``given``."""

    def __init__(self, given: frozenset[str]) -> None:
        self._given = given
        self._taken: dict[str, Extent | None] = {}
        self._samples: list[Sample] = []

    def reserve(self, video_id: str) -> None:
        """Reserve the id of an invalid record."""
        self._taken[video_id] = None

    def assign(self, sample: Sample, extent: Extent | None) -> Sample:
        """Return the sample with a unique id; ``extent`` is None for a sample of a manifest.

        Raises ``ValueError`` for a duplicate id in a manifest, and for a duplicate clip.
        """
        if sample.video_id in self._taken:
            if extent is None or any(replace(one, video_id=sample.video_id) == sample for one in self._samples):
                raise ValueError(f"two videos share the video_id {sample.video_id}; rename one of them")
            candidates = _candidates(extent, has_other_frames=self._taken[sample.video_id] != extent)
            free = next(name for name in candidates if name not in self._taken and name not in self._given)
            sample = replace(sample, video_id=free)
        self._taken[sample.video_id] = extent
        self._samples.append(sample)
        return sample


def _candidates(extent: Extent, *, has_other_frames: bool) -> Iterator[str]:
    name = extent.video_id
    if has_other_frames:
        name += f"_{extent.start_frame}-{extent.start_frame + extent.num_frames}"
        yield name
    for number in count(2):
        yield f"{name}_{number}"
