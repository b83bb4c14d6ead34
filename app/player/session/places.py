"""Places that a reload, Back or a link comes back to: which video and run the page shows, as parameters of its address.

A bundled video and its run are made again from their parameters. An upload, and a run of another task than the video's
own, exist on this server alone: they are kept in ``Recent`` as long as there is room.
"""

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Final, TypeVar

from app.player.session.references import digest_reference
from app.player.session.run import Run
from app.videos import Clip
from engine.config import format_threshold
from eval.data.samples import Sample

MAX_CLIPS: Final = 100
MAX_FRAMES: Final = 200_000
"""Outputs that are kept over all runs, about 100 MB."""
Place = Mapping[str, str]
Key = TypeVar("Key")
Kept = TypeVar("Kept")


def place_of(clip: Clip) -> Place:
    """Return the parameters that name a video; nothing for one of a split that is not bundled."""
    if clip.content_digest:
        return {"upload": clip.video_id}
    return {"video": clip.name} if clip.is_bundled else {}


def place_of_run(run: Run) -> Place:
    """Return the parameters that name a run: of a run folder its name, of all others their digest and thresholds."""
    if run.name:
        return {"video": run.clip.video_id, "saved": run.name}
    clip = place_of(run.clip)
    if not clip or (not run.outputs and run.is_finished):
        return clip
    return {
        **clip,
        "run": run.digest,
        "speak": format_threshold(run.config.speak_threshold),
        "update": format_threshold(run.config.update_threshold),
    }


def has_own_task(run: Run) -> bool:
    """Return whether a run has the task that belongs to its bundled video, so that it can be made again anywhere."""
    sample = run.clip.sample
    if sample is None or not run.clip.is_bundled:
        return False
    return (sample.goal, sample.steps, sample.user_turns) == (run.task.goal, run.task.steps, run.task.user_turns)


class Recent:
    """Uploads and runs that cannot be made again from an address; the ones used longest ago are forgotten first.

    A reference of an upload is kept for itself: another window may show the upload with another one, or without.
    """

    def __init__(self) -> None:
        self._clips = OrderedDict[str, Clip]()
        self._runs = OrderedDict[str, Run]()
        self._references = OrderedDict[tuple[str, str], Sample]()
        self._lock = Lock()

    def keep_clip(self, clip: Clip) -> None:
        """Keep an upload, with the reference that it has now."""
        if clip.content_digest:
            with self._lock:
                _keep(self._clips, clip.video_id, clip)
                if clip.sample is not None:
                    _keep(self._references, (clip.video_id, digest_reference(clip)), clip.sample)
                while len(self._clips) > MAX_CLIPS:
                    self._clips.popitem(last=False)
                while len(self._references) > MAX_CLIPS:
                    self._references.popitem(last=False)

    def keep_run(self, run: Run) -> None:
        """Keep a run, unless it can be made again."""
        if run.outputs and not has_own_task(run):
            with self._lock:
                _keep(self._runs, run.digest, run)
                while len(self._runs) > 1 and sum(len(kept.outputs) for kept in self._runs.values()) > MAX_FRAMES:
                    self._runs.popitem(last=False)

    def find_clip(self, video_id: str) -> Clip:
        """Return an upload. Raises ``ValueError`` when this server has it no more."""
        with self._lock:
            clip = self._clips.get(video_id)
            if clip is None or not clip.path.is_file():
                raise ValueError(f"this server does not have the upload {video_id} any more; upload it again")
            self._clips.move_to_end(video_id)
            return clip

    def find_reference(self, video_id: str, digest: str | None = None) -> Sample | None:
        """Return the reference that an upload was given, by its digest or the last one; None without one."""
        with self._lock:
            if digest is not None:
                return self._references.get((video_id, digest))
            given = (sample for (name, _), sample in reversed(self._references.items()) if name == video_id)
            return next(given, None)

    def find_run(self, digest: str | None, clip: Clip) -> Run | None:
        """Return the run of a digest and video; None when it is not kept."""
        with self._lock:
            run = self._runs.get(digest or "")
            return run if run is not None and run.clip.video_id == clip.video_id else None


def _keep(kept: "OrderedDict[Key, Kept]", key: Key, value: Kept) -> None:
    kept[key] = value
    kept.move_to_end(key)
