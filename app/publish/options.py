"""The options of ``stepscope publish``."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from tyro.conf import Positional, UseAppendAction

from stepscope.engine.cli.program import Options

VideoFiles = Literal["copy", "link", "none"]


@dataclass(frozen=True, kw_only=True)
class PublishOptions(Options):
    """Write a read-only player of a run, for any web server or a static Space."""

    run: Positional[Path]
    """Run folder of a split."""
    out: Path
    """Folder to write; one that this command wrote before is replaced."""
    video: UseAppendAction[tuple[str, ...]] = ()
    """Only the video with this id."""
    videos: VideoFiles = "copy"
    """copy: copies that every browser plays; link: symbolic links where the file is playable; none: no pictures."""
    data: Path | None = None
    """File of the references (default: the split of the run)."""
    title: str = ""
    """Title of the page (default: that of the story, else the name of the run)."""
    story: Path | None = None
    """Story file of the page: its moments come first, and only its videos and those of --video are published. Its
    other runs lie beside this one."""

    stop_message: ClassVar[str] = "stopped; {0.out} is as it was"
