"""The recorded sessions: run folders whose split is in the folder itself."""

from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

from stepscope.engine.errors import EngineError
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Split
from stepscope.eval.runs.folder import OWN_SPLIT
from stepscope.eval.runs.live_recording import SESSION_NAME, recover_recording
from stepscope.eval.runs.output_folder import FolderRefusedError


def add_recorded(splits: MutableMapping[str, Split], folder: Path) -> None:
    """Add the split of a recorded session, named after its folder. Raises ``ValueError`` if it cannot be read."""
    splits[folder.name] = read_split(folder / OWN_SPLIT)


def read_recorded(splits: MutableMapping[str, Split], runs: Path) -> list[str]:
    """Add the splits of all recorded sessions; return one message per unreadable session.

    A session whose process was killed is completed first.
    """
    problems = []
    for path in sorted(runs.glob(f"*/{SESSION_NAME}")):
        try:
            with suppress(FolderRefusedError):  # another program records it
                recover_recording(path.parent)
        except (EngineError, ValueError, OSError) as error:
            problems.append(f"The recorded session {path.parent.name} cannot be completed: {error}.")
    for path in sorted(runs.glob(f"*/{OWN_SPLIT}")):
        try:
            if path.parent.name not in splits:
                add_recorded(splits, path.parent)
        except ValueError as error:
            problems.append(f"The recorded session {path.parent.name} is skipped: {error}.")
    return problems
