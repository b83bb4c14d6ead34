"""URL parameters of the displayed video and run, for reload, Back and links.

A bundled video and its run are reproduced from their parameters. An upload, and a run with a custom task, exist only on
this server: ``RecentSessions`` keeps them up to a limit.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import urlencode

from stepscope.app.core.references import digest_reference
from stepscope.app.core.run import Run
from stepscope.app.core.videos import Clip
from stepscope.engine.config import format_threshold
from stepscope.engine.io.files import atomic_write
from stepscope.engine.io.json_records import reading
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.folder import OWNER

MAX_CLIPS: Final = 100
MAX_OPENED: Final = 10_000
MAX_FRAMES: Final = 200_000
"""Maximum number of frames over all kept runs, about 100 MB of outputs."""
NO_RUN: Final = "none"
"""The parameter ``run`` of a bundled video's reference that is shown without a run."""
MAX_LINKED_CHANGES: Final = 1500
"""Most characters of the changes of a branch in an address."""
UrlParams = Mapping[str, str]


def make_link(params: UrlParams) -> str:
    """Return the query of a link, which follows the address of the page."""
    return f"?{urlencode(params, errors='replace')}"


def url_params(clip: Clip) -> UrlParams:
    """Return the URL parameters of a video; empty if it is of no split of this page."""
    if clip.content_digest:
        return {"upload": clip.video_id}
    if clip.is_bundled:
        return {"video": clip.name}
    return {"video": clip.name, "split": clip.split} if clip.split else {}


def run_url_params(run: Run, other: Run | None = None) -> UrlParams:
    """Return the URL parameters of a run: the name of its run folder, or its digest and thresholds.

    ``other`` is the saved run below it. Of two saved runs, ``saved`` is A and ``other`` is B; ``above`` names the upper
    one. With other thresholds the upper run is not a saved one; ``other`` is then the lower run, A or B.
    """
    if run.branch is not None:
        return {**run_url_params(run.branch.root), **_branch_params(run)}
    first, second = (other, run) if other is not None and run.name and run.letter == "B" else (run, other)
    return _add_lower(_params_of(first), second, above=run)


def _params_of(run: Run) -> UrlParams:
    if run.name:
        return {"video": run.clip.video_id, "saved": run.name}
    clip = url_params(run.clip)
    if not clip or (not run.outputs and run.is_finished):
        return {**clip, "run": NO_RUN} if "video" in clip else clip
    return {
        **clip,
        "run": run.digest,
        **{name: format_threshold(value) for name, value in run.known_thresholds.items()},
        "context": run.config.context_strategy,
    }


def _branch_params(run: Run) -> UrlParams:
    """Return the parameter of the changes of a branch; none if they are too long for an address."""
    changes = "" if run.branch is None else run.branch.changes
    return {"branch": changes} if 0 < len(changes) <= MAX_LINKED_CHANGES else {}


def _add_lower(params: UrlParams, lower: Run | None, *, above: Run) -> UrlParams:
    """Return the parameters with those of the lower of two runs of a video."""
    if lower is None or "video" not in params:
        return params
    return {**params, "other": lower.name, **({"above": "B"} if above.letter == "B" else {})}


def link_params(run: Run, other: Run | None = None) -> UrlParams | None:
    """Return the URL parameters of a link to a run's video; None if a link cannot lead to the run.

    ``other`` is as in ``run_url_params``.
    """
    if run.branch is not None:
        link, changes = link_params(run.branch.root), _branch_params(run)
        return {**link, **run_url_params(run.branch.root), **changes} if link and changes else None
    if other is not None and run.name:
        return run_url_params(run, other)
    link = _link_params(run)
    return link and _add_lower(link, other, above=run)


def _link_params(run: Run) -> UrlParams | None:
    is_of_clip = run.clip.content_digest or has_own_task(run)
    if run.name and not is_of_clip:
        return _params_of(run)
    if is_of_clip or (run.clip.split and _has_task_of_sample(run)):
        return {**url_params(run.clip), "context": run.config.context_strategy}  # a server may have another default
    return None


def has_own_task(run: Run) -> bool:
    """Return whether a run has the original task of its bundled video, so that any server can reproduce it."""
    return run.branch is None and run.clip.is_bundled and _has_task_of_sample(run)


def _has_task_of_sample(run: Run) -> bool:
    sample = run.clip.sample
    return sample is not None and (sample.goal, sample.steps, sample.user_turns, ()) == (
        run.task.goal,
        run.task.steps,
        run.task.user_turns,
        run.task.questions,
    )


class RecentSessions:
    """Least-recently-used caches of uploads and runs that cannot be reproduced from URL parameters.

    References are kept separately from their uploads: two windows may show one upload with different references.
    ``name_visitor`` returns the user or window whose event is handled; empty on a page of one person.
    """

    def __init__(self, name_visitor: Callable[[], str] = str) -> None:
        self._name_visitor = name_visitor
        self._opened = OrderedDict[tuple[str, str], None]()
        self._clips = OrderedDict[str, Clip]()
        self._runs = OrderedDict[str, Run]()
        self._references = OrderedDict[tuple[str, str], Sample]()
        self._run_files = set[Path]()
        self._lock = Lock()

    def keep_clip(self, clip: Clip) -> None:
        """Keep an upload and its current reference."""
        if clip.content_digest:
            with self._lock:
                _keep(self._clips, clip.video_id, clip)
                self._keep_opened(clip.video_id)
                if clip.sample is not None:
                    _keep(self._references, (clip.video_id, digest_reference(clip)), clip.sample)

    def keep_run(self, run: Run) -> None:
        """Keep a run unless it can be reproduced; without outputs, only its task and settings."""
        if run.clip.content_digest:
            self._run_files.add(run.clip.path.resolve())
        if not has_own_task(run) and (run.outputs or self.find_run(run.digest, run.clip) is None):
            with self._lock:
                _keep(self._runs, run.digest, run, limit=math.inf)
                while len(self._runs) > 1 and sum(kept.clip.num_frames for kept in self._runs.values()) > MAX_FRAMES:
                    self._runs.popitem(last=False)

    def has_run(self, path: Path) -> bool:
        """Return whether an upload was run, or shown with results."""
        return path in self._run_files

    def find_clip(self, video_id: str) -> Clip:
        """Return an upload. Raises ``ValueError`` if it is no longer on this server."""
        with self._lock:
            clip = self._clips.get(video_id)
            if clip is None or not clip.path.is_file():
                raise ValueError(f"the upload {video_id} is no longer on this server; upload it again")
            self._clips.move_to_end(video_id)
            self._keep_opened(video_id)
            return clip

    def _keep_opened(self, video_id: str) -> None:
        _keep(self._opened, (self._name_visitor(), video_id), None, limit=MAX_OPENED)

    @property
    def has_visitors(self) -> bool:
        """Whether several people use the page."""
        return self._name_visitor() != ""

    def is_listed(self, opened: str) -> bool:
        """Return whether a list may show an upload, by its id, to the visitor, who has uploaded it or opened a link."""
        visitor = self._name_visitor()
        return not visitor or (visitor, opened) in self._opened

    def own_split(self, split: Path, user: str) -> None:
        """List a split for the visitor; on a page of several people, keep its first user or address beside it."""
        self._keep_opened(str(split))
        if self.has_visitors and not (owner := split.with_suffix(OWNER)).exists():
            with atomic_write(owner) as file:
                file.write(user or "unknown")

    def is_split_listed(self, split: Path) -> bool:
        """Return whether a list may show a split and its runs: it is the page's, or the visitor's own."""
        with suppress(ValueError):  # without a readable owner it is in no list
            return self.is_listed(str(split)) or read_owner(split) in ("", self._name_visitor())
        return False

    def find_reference(self, video_id: str, digest: str | None = None) -> Sample | None:
        """Return the reference of an upload by digest, or its latest one; None if there is none."""
        with self._lock:
            if digest is not None:
                return self._references.get((video_id, digest))
            latest = (sample for (name, _), sample in reversed(self._references.items()) if name == video_id)
            return next(latest, None)

    def find_run(self, digest: str | None, clip: Clip) -> Run | None:
        """Return the run with a digest and video; None if it is not kept."""
        with self._lock:
            run = self._runs.get(digest or "")
            return run if run is not None and run.clip.video_id == clip.video_id else None


def read_owner(split: Path) -> str:
    """Return the first owner of a split; empty for one of the page. Raises ``ValueError`` if unreadable."""
    with suppress(FileNotFoundError), reading(split.with_suffix(OWNER)):
        return split.with_suffix(OWNER).read_text(encoding="utf-8")
    return ""


def _keep(kept: OrderedDict[Any, Any], key: object, value: object, *, limit: float = MAX_CLIPS) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > limit:
        kept.popitem(last=False)
