"""Records of annotations: the segments of a video, the recipe of its task, and the videos of a data set."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from stepscope.eval.data.samples import Turn


def normalise(text: str) -> str:
    """Return letters and digits alone, in lower case: ``Coat -Coat a cup`` and ``coat-coat A cup`` are equal."""
    return re.sub(r"[\W_]", "", text.casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One annotated part of a video."""

    label: str
    start_s: float = -1.0
    """-1 for a step that was never done, as is then ``end_s``."""
    end_s: float = -1.0
    step_id: str = ""
    cause: str = ""
    """Description of the error if the step was done wrongly; empty if it was done right."""
    is_continued: bool = False
    """Whether it is a later part of a step that was interrupted."""

    @property
    def is_done(self) -> bool:
        """Whether the step was done."""
        return self.start_s >= 0

    @property
    def key(self) -> str:
        """Text that two segments of the same step share."""
        return self.step_id or normalise(self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeStep:
    """One step of a recipe."""

    name: str
    step_id: str = ""
    after: tuple[int, ...] = ()
    """Places in the recipe of the steps that must be completed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedVideo:
    """The annotations of one video."""

    video_id: str
    file_names: tuple[str, ...] = ()
    """Names, without suffix, of the video's file."""
    goal: str = ""
    recipe: str = ""
    """Normalised name of its recipe."""
    subset: str = ""
    duration_s: float | None = None
    segments: tuple[Segment, ...] = ()
    turns: tuple[Turn, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=Counter)
    """Number of annotations that are no steps, by the reason."""
    problem: str = ""
    """Reason why the annotations cannot be used; empty if they can."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names, without suffix, by which the video's file is looked up, best first."""
        return tuple(dict.fromkeys((*self.file_names, self.video_id)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """The content of annotation files."""

    videos: tuple[AnnotatedVideo, ...]
    datasets: tuple[str, ...]
    """Titles of the data sets, or of the forms, with a note on the licence."""
    recipes: Mapping[str, tuple[RecipeStep, ...]]
    """By normalised name."""
    not_read: tuple[str, ...]
    """Files of a folder that have no known form."""
