"""Files of the Hugging Face Hub, downloaded once into its cache.

``hf://datasets/OWNER/NAME/FILE`` names a file or a folder of a data set, ``hf://OWNER/NAME/FILE`` one of a model, and
without ``FILE`` the whole repository; ``NAME@COMMIT`` fixes its version.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final

from huggingface_hub import (
    constants,
    get_hf_file_metadata,
    get_session,
    hf_hub_download,
    hf_hub_url,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from stepscope.engine.io.hub_cache import HubFile, find_hub_file, parse_address

_PICKLES: Final = ["*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt"]
"""Never opened, so not downloaded with a folder."""
MAX_FILE_BYTES: Final = 8 * 2**30
"""Largest file that is downloaded because a split or a run folder, which may be another person's, names it."""
_ANSWER_S: Final = 4.0
"""Time in which the Hub must answer a first request."""
MIN_FREE_BYTES: Final = 2**30
"""Space of the disk that a download leaves free."""


def fetch_missing(path: Path) -> None:
    """Download a missing file of a repository whose other files are in the cache, such as a video of a split.

    Other paths are left alone: a split of others may name one that only looks like a cache. Raises ``ValueError`` if
    it cannot be downloaded, has more than ``MAX_FILE_BYTES``, or would fill the disk.
    """
    found = None if os.path.exists(path) else find_hub_file(path)
    if found is not None and (found.cache == Path(constants.HF_HUB_CACHE) or found.repository.is_dir()):
        with _explain(found.address):
            _check_connection()
            if (size := _check_space(found)) > MAX_FILE_BYTES:
                raise ValueError(
                    f"{found.address} has {size / 2**30:.1f} GiB; a file that a split names is downloaded up to "
                    f"{MAX_FILE_BYTES // 2**30} GiB. If you trust it, download it with: hf download"
                )
            file = hf_hub_download(
                found.repo_id, found.name, repo_type=found.repo_type, revision=found.revision, cache_dir=found.cache
            )
            if not path.exists():  # the cache has it under the commit of a branch
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(file)


def _check_space(file: HubFile) -> int:
    """Return the size of a file in bytes; raise ``ValueError`` if the disk of the cache has no space for it.

    The error names no folder: users of a page on another machine read it.
    """
    url = hf_hub_url(file.repo_id, file.name, repo_type=file.repo_type, revision=file.revision)
    size = get_hf_file_metadata(url).size or 0
    free = shutil.disk_usage(next(folder for folder in (file.cache, *file.cache.parents) if folder.exists())).free
    if size > free - MIN_FREE_BYTES:
        sizes = f"needs {size / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free in the cache of the Hub"
        raise ValueError(
            f"{file.address} {sizes}, of which {MIN_FREE_BYTES // 2**30} stays free; free some space, or set "
            "HF_HOME to another disk"
        )
    return size


def fetch(address: str) -> Path:
    """Return the local path of an address of the Hub; raise ``ValueError`` if it cannot be downloaded."""
    repo_type, repo_id, name, revision, _ = parsed = parse_address(address)
    with _explain(address):
        if name:
            is_cached = isinstance(try_to_load_from_cache(repo_id, name, repo_type=repo_type, revision=revision), str)
            if not is_cached:
                _check_connection()
            try:
                if not is_cached:
                    _check_space(parsed)
                return Path(hf_hub_download(repo_id, name, repo_type=repo_type, revision=revision))
            except LocalEntryNotFoundError:
                raise
            except EntryNotFoundError:  # it may be a folder
                pass
        patterns = [f"{name}/*"] if name else None
        folder = snapshot_download(
            repo_id,
            repo_type=repo_type,
            revision=revision,
            allow_patterns=patterns,
            ignore_patterns=_PICKLES,
            local_files_only=not is_reachable(),
        )
    path = Path(folder) / name
    if not path.exists():
        raise ValueError(f"{address} is not in the repository; it has no such file or folder")
    return path


def is_reachable() -> bool:
    """Return whether the Hub answers within seconds; the library tries for minutes."""
    answers = list[object]()

    def ask() -> None:
        with suppress(Exception):  # of httpx or httpx2, by the version of the library
            answers.append(get_session().head(constants.ENDPOINT, timeout=_ANSWER_S))

    asking = Thread(target=ask, daemon=True)  # the search for its address takes as long as the system likes
    asking.start()
    asking.join(_ANSWER_S)
    return bool(answers)


def _check_connection() -> None:
    if not is_reachable():
        raise LocalEntryNotFoundError(f"no answer within {_ANSWER_S:g} s")


@contextmanager
def _explain(address: str) -> Iterator[None]:
    """Raise ``ValueError`` with one sentence for an error of a download."""
    try:
        yield
    except LocalEntryNotFoundError as error:
        raise ValueError(
            f"{address} is not in the cache, and the Hub cannot be reached; check the connection"
        ) from error
    except (HfHubHTTPError, HFValidationError, EntryNotFoundError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{address} cannot be downloaded from the Hub: {reason}") from error
