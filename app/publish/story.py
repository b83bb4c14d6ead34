"""A story: up to ten moments of runs in an order, each with a caption, as JSON and as Markdown with pictures."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field

from stepscope.app.core.videos import read_moment
from stepscope.app.formatting import format_clock
from stepscope.engine.io.files import atomic_write, read_text, replace_surrogates, show_turns
from stepscope.engine.io.json_records import parse_record, reading
from stepscope.engine.video.stills import encode_jpeg
from stepscope.eval.data.samples import Sample

MAX_MOMENTS: Final = 10
MAX_CAPTION: Final = 500
MAX_SENTENCE: Final = 2000
NEAR_S: Final = 0.5
"""A moment is that of a mistake if a failure of it is at most this far away."""
MAX_STORY_BYTES: Final = 64 * 2**10
"""Maximum size of a story file: ten moments of the longest captions and names need about half of it."""
PICTURES: Final = "story"
MARKDOWN: Final = "story.md"
_PICTURE_SIDE: Final = 960
_Name = Annotated[str, Field(min_length=1, max_length=1000)]


class StoryMoment(BaseModel):
    """One moment of a story."""

    model_config = ConfigDict(frozen=True)

    run: _Name
    video: _Name
    time_s: Annotated[float, Field(ge=0, le=1e6)]
    caption: Annotated[str, Field(max_length=MAX_CAPTION)] = ""
    sentence: Annotated[str, Field(max_length=MAX_SENTENCE)] = ""
    """The mistake in a sentence, as the player showed it; where the field is missing, that of the run is written."""
    evidence: Annotated[str, Field(max_length=MAX_SENTENCE)] = ""
    """The sentence of the evidence for the decision, if the run had it."""
    event: Annotated[str, Field(max_length=1000)] | None = None
    """Key of the event that the player selects; None for that at the time."""

    def tell(self, mistakes: Mapping[float, str]) -> Self:
        """Return the moment with the sentence of the nearest mistake, if one is near; ``mistakes`` are by time."""
        time_s = min(mistakes, key=lambda time_s: abs(time_s - self.time_s), default=None)
        if time_s is None or abs(time_s - self.time_s) > NEAR_S:
            return self
        return self.model_copy(update={"sentence": mistakes[time_s]})


class Story(BaseModel):
    """A story; texts are shown as they are, never as HTML or Markdown."""

    model_config = ConfigDict(frozen=True)

    title: Annotated[str, Field(max_length=120)] = ""
    moments: Annotated[tuple[StoryMoment, ...], Field(min_length=1, max_length=MAX_MOMENTS)]

    def videos(self) -> Mapping[str, Sequence[str]]:
        """Return the ids of the videos by run, in the order of the moments."""
        videos = dict[str, list[str]]()
        for moment in self.moments:
            videos.setdefault(moment.run, []).append(moment.video)
        return videos


def parse_story(text: str) -> Story:
    """Read a story from JSON. Raises ``ValueError`` with one sentence that names the field."""
    if len(text.encode(errors="replace")) > MAX_STORY_BYTES:
        raise ValueError(f"a story has at most {MAX_STORY_BYTES // 2**10} KiB; shorten its captions")
    return parse_record(Story, text)


def read_story(path: Path) -> Story:
    """Read a story file. Raises ``ValueError`` as ``parse_story``, or if there is no such file."""
    if not path.is_file():
        raise ValueError(f"there is no story {path}; save one on the page")
    with reading(path):
        return parse_story(read_text(path))


def write_story(
    folder: Path, story: Story, find_sample: Callable[[StoryMoment], Sample | None], *, has_pictures: bool = True
) -> Sequence[str | None]:
    """Write ``story.md`` and its pictures into a folder.

    Return the path of the picture of each moment in the folder; None for a moment whose video cannot be read.
    Raises ``ValueError`` for a moment after the end of its video.
    """
    pictures = list[str | None]()
    for number, moment in enumerate(story.moments, start=1):
        sample = find_sample(moment)
        if sample is not None and moment.time_s > (end_s := sample.num_frames / sample.fps):
            raise ValueError(
                f"moment {number} of the story is at {format_clock(moment.time_s, digits=1)}, but {moment.video} "
                f"ends at {format_clock(end_s, digits=1)}"
            )
        image = read_moment(sample, moment.time_s) if sample is not None and has_pictures else None
        pictures.append(None if image is None else f"{PICTURES}/{number}.jpg")
        if image is not None:
            (folder / PICTURES).mkdir(exist_ok=True)
            with atomic_write(folder / PICTURES / f"{number}.jpg", binary=True) as picture:
                picture.write(encode_jpeg(image, max_side=_PICTURE_SIDE))
    with atomic_write(folder / MARKDOWN) as file:
        file.write(replace_surrogates(_write_markdown(story, pictures)))
    return pictures


def _write_markdown(story: Story, pictures: Sequence[str | None]) -> str:
    lines = [f"# {escape_markdown(story.title) or 'Story'}"]
    for number, (moment, picture) in enumerate(zip(story.moments, pictures, strict=True), start=1):
        lines.append(f"## {number}. {escape_markdown(moment.video)}, {format_clock(moment.time_s, digits=1)}")
        lines.append(f"![Picture of moment {number}]({picture})" if picture else "No picture")
        texts = (moment.caption, moment.sentence, moment.evidence)
        lines += [escape_markdown(text) for text in texts if text.strip()]
        lines.append(f"Run {escape_markdown(moment.run)}")
    return "\n\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    line = re.sub(r"([\\`*_\[\]<>!|~&$])", r"\\\1", " ".join(show_turns(text).split()))
    return re.sub(r"^(\d*)([-+#=.)])", r"\1\\\2", line)  # no list or heading
