"""Gives the samples of a split ids that differ: several clips or dialogues of one video may be published as one id.

The first keeps the id that its record gives. A later clip of other frames gets them as a suffix, ``v_193-451``, and a
later dialogue of the same frames its number, ``v_2``. An id that another record gives is never taken for a suffix.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from eval.data.clips import Extent
from eval.data.samples import Sample


class SampleIds:
    """The ids of a split that are taken so far.

    Args:
        given: The ids that the records of the split give themselves.
    """

    def __init__(self, given: frozenset[str]) -> None:
        self._given = given
        self._taken: dict[str, Extent | None] = {}
        self._samples: list[Sample] = []

    def reserve(self, video_id: str) -> None:
        """Take an id for a record that cannot be used."""
        self._taken[video_id] = None

    def assign(self, sample: Sample, extent: Extent | None) -> Sample:
        """Return a sample under an id of its own; ``extent`` is that of a published clip.

        Raises ``ValueError`` for a second sample of one id in a manifest, and for the same clip twice.
        """
        if sample.video_id in self._taken:
            if extent is None or any(replace(one, video_id=sample.video_id) == sample for one in self._samples):
                raise ValueError(f"two videos have one video_id, {sample.video_id}; name each differently")
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
