"""Files of the Hugging Face Hub, downloaded once into its cache.

``hf://datasets/OWNER/NAME/FILE`` names a file or a folder of a data set, ``hf://OWNER/NAME/FILE`` one of a model, and
without ``FILE`` the whole repository.
"""

import os
from pathlib import Path
from typing import Final

from huggingface_hub import hf_hub_download, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

PREFIX: Final = "hf://"
_PICKLES: Final = ["*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt"]
"""Never opened, so not downloaded with a folder."""


def fetch(address: str) -> Path:
    """Return the local path of an address of the Hub; raise ``ValueError`` if it cannot be downloaded."""
    words = address.removeprefix(PREFIX).strip("/").split("/")
    repo_type = "dataset" if words[0] == "datasets" else "model"
    words = words[repo_type == "dataset" :]
    if len(words) < 2 or not all(words) or ".." in words:
        raise ValueError(f"{address} is no address; write hf://datasets/OWNER/NAME/FILE or hf://OWNER/NAME/FILE")
    repo_id, name = "/".join(words[:2]), "/".join(words[2:])
    endpoint = os.environ.get("HF_ENDPOINT")
    try:
        if name:
            try:
                return Path(hf_hub_download(repo_id, name, repo_type=repo_type, endpoint=endpoint))
            except LocalEntryNotFoundError:
                raise
            except EntryNotFoundError:  # it may be a folder
                pass
        patterns = [f"{name}/*"] if name else None
        folder = snapshot_download(
            repo_id, repo_type=repo_type, allow_patterns=patterns, ignore_patterns=_PICKLES, endpoint=endpoint
        )
    except LocalEntryNotFoundError as error:
        raise ValueError(
            f"{address} is not in the cache, and the Hub cannot be reached; check the connection"
        ) from error
    except (HfHubHTTPError, HFValidationError, EntryNotFoundError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{address} cannot be downloaded from the Hub: {reason}") from error
    path = Path(folder) / name
    if not path.exists():
        raise ValueError(f"{address} is not in the repository; it has no such file or folder")
    return path
