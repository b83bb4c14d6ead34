"""Recorded sound of a system's answers: WAV files that an import copies into the run folder.

``audio`` in ``run.json`` lists per video ``time_s``, ``from`` and ``path``. The paths of imported files and of a
``run.json`` are not trusted: a sound is a regular WAV file of bounded size inside its folder.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from stepscope.engine.io.files import find_real_path
from stepscope.eval.data.json_fields import MAX_DURATION_S
from stepscope.eval.runs.folder import RunFolder, output_path

MAX_BYTES: Final = 20 * 2**20
_FOLDER: Final = "audio"

Sound = Mapping[str, float | str]


def copy_sounds(sounds: Sequence[Sound], source: Path, run: Path, video_id: str) -> list[Sound]:
    """Copy the answers among the sounds that lie in ``source`` into a run folder; return all with their paths there.

    A file that several answers name is copied once: a record of some kB could fill the disk.
    """
    kept, copies = list[Sound](), dict[Path, Path]()
    for number, sound in enumerate(sounds):
        found = _find_wav(source, str(sound["path"])) if sound["from"] == "assistant" else None
        if found is not None:
            if found not in copies:
                copies[found] = output_path(run / _FOLDER, video_id).with_suffix(f".{number}.wav")
                copies[found].parent.mkdir(exist_ok=True)
                shutil.copyfile(found, copies[found])
            sound = {**sound, "path": copies[found].relative_to(run).as_posix()}
        kept.append(sound)
    return kept


def list_answers(settings: Mapping[str, Any], video_id: str) -> list[tuple[float, int]]:
    """Return time in seconds and number of each answer of a video whose sound an import has copied, by time."""
    audio = settings.get("audio")
    sounds = audio.get(video_id) if isinstance(audio, Mapping) else None
    return sorted(
        (float(time_s), number)
        for number, sound in enumerate(sounds if isinstance(sounds, list) else ())
        if isinstance(sound, dict)
        and sound.get("from") == "assistant"
        and isinstance(time_s := sound.get("time_s"), int | float)
        and 0 <= time_s <= MAX_DURATION_S  # neither nan nor an integer that no float holds
        and str(sound.get("path")).startswith(f"{_FOLDER}/")
    )


def find_answer(run: RunFolder, video_id: str, number: int) -> Path | None:
    """Return the file of an answer of ``list_answers``; None for any other, or for a file that is no longer safe."""
    settings = run.settings() or {}
    if number not in (known for _, known in list_answers(settings, video_id)):
        return None
    return _find_wav(run.path, settings["audio"][video_id][number]["path"], part=_FOLDER)


def _find_wav(folder: Path, name: str, *, part: str = "") -> Path | None:
    """Return a WAV file inside a folder, or the part of it; None if it does not exist or has over ``MAX_BYTES``."""
    try:
        path = find_real_path(folder / name)
        if not path.is_relative_to(folder.resolve() / part) or not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        with path.open("rb") as file:
            head = file.read(12)
    except (OSError, ValueError):  # missing, unreadable, or a name with a null byte
        return None
    return path if head[:4] == b"RIFF" and head[8:] == b"WAVE" else None
