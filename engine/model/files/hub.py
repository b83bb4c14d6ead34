"""Folders of models, downloaded from the hub if need be."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Final

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from huggingface_hub.utils._validators import validate_repo_id
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.io.files import finish_files
from stepscope.engine.io.hub_files import is_reachable
from stepscope.engine.model.files.bundled import BUNDLED_CHECKPOINTS
from stepscope.engine.model.files.checkpoint_files import ADAPTER_FILE

_HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.jinja"]


@contextmanager
def shown_downloads() -> Iterator[None]:
    """Draw the progress of downloads in the ``with`` block, unless ``HF_HUB_DISABLE_PROGRESS_BARS`` is set.

    transformers hides it together with the bar of its weights, and a download of gigabytes would look like a halt.
    """
    was_hidden = are_progress_bars_disabled()
    enable_progress_bars()
    try:
        yield
    finally:
        if was_hidden:
            disable_progress_bars()


@cache  # a process keeps to one version, and asks an unreachable Hub once
def _download_once(repo_id: str, cache_folder: str) -> Path:
    validate_repo_id(repo_id)
    with shown_downloads():
        is_offline = not is_reachable()
        found = snapshot_download(
            repo_id, cache_dir=cache_folder, allow_patterns=_HUB_FILES, local_files_only=is_offline
        )
    return Path(found)


def find_model_folder(path_or_id: str) -> Path:
    """Return the folder of a part of a published assistant."""
    return check_model_folder(download(path_or_id))


def download(path_or_id: str | Path) -> Path:
    """Return a folder, that of a bundled checkpoint, or that of a hub id once it is downloaded; no pickle is."""
    folder = Path(path_or_id)
    if folder.exists():
        finish_files(folder)
        return folder
    if str(path_or_id) in BUNDLED_CHECKPOINTS:
        return BUNDLED_CHECKPOINTS[str(path_or_id)]
    try:
        return _download_once(str(path_or_id), constants.HF_HUB_CACHE)
    except HFValidationError as error:
        raise CheckpointError(
            f"there is no folder {path_or_id}, and a checkpoint of the Hub is named OWNER/NAME"
        ) from error
    except LocalEntryNotFoundError as error:
        raise CheckpointError(
            f"{path_or_id} is neither a folder nor in the cache, and the Hub cannot be reached; check the connection"
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise CheckpointError(
            f"{path_or_id} is neither a folder nor an available checkpoint of the Hub: {first_line(error)}"
        ) from error


def check_model_folder(folder: Path) -> Path:
    """Return a folder that holds a model of transformers. Raises ``CheckpointError`` if it holds none."""
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder} has no config.json; give the folder of a checkpoint")
    for path in folder.iterdir():
        if path.exists() and not path.is_file() and not path.is_dir():
            raise CheckpointError(f"{path} is a pipe or a device, not a file; download it again")
    if not any(folder.glob("model*.safetensors")) and not (folder / ADAPTER_FILE).is_file():
        pickles = sorted(p.name for p in folder.iterdir() if p.suffix in {".bin", ".pt", ".pth", ".pkl", ".ckpt"})
        found = f"{', '.join(pickles)} are pickles, which are never opened; convert them" if pickles else "add it"
        raise CheckpointError(f"{folder} has no model*.safetensors: {found}")
    return folder


LOAD_LOCK: Final = RLock()
"""Held while a model of transformers or sentence-transformers is loaded."""
