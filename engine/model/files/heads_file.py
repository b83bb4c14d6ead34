"""Reads the heads file: StepScope's additions to a SmolVLM checkpoint, in one ``.safetensors`` file.

It holds both heads, the projector if there is one, and embeddings of ``[DST]`` and ``[ASST]`` (``token_embeddings``) if
the tokenizer lacks them. Its metadata has ``pooling``, for the token policies ``silent_token``, and ``decision_policy``
for a model whose heads are not trained.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from torch import Tensor

from stepscope.engine.decisions.policies import find_policy
from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.files.checkpoint_files import open_tensors

HEADS_FILE: Final = "heads.safetensors"
SILENT_TOKEN: Final = "silent_token"
DECISION_POLICY: Final = "decision_policy"


def find_heads(folder: Path, heads: str | Path | None, *, allow_untrained: bool) -> Path | None:
    """Return the heads file to load; None to use random heads. Raises ``CheckpointError`` if it is missing."""
    path = Path(heads) if heads is not None else folder / HEADS_FILE
    if path.is_file():
        if path.suffix != ".safetensors":
            raise CheckpointError(f"{path} is not a .safetensors file; pickles are never opened")
        return path
    if heads is None and allow_untrained:
        return None
    raise CheckpointError(
        f"{path} is missing: without trained heads the model cannot decide; give --heads FILE, "
        "or --allow-untrained-heads to use random ones"
    )


def read_heads(path: Path | None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and settings of a heads file; both are empty if ``path`` is None."""
    if path is None:
        return {}, {}
    with open_tensors(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def read_trained_policy(settings: Mapping[str, str]) -> str | None:
    """Return the policy that the settings of a heads file name; None for that of the heads.

    Raises ``CheckpointError`` for a policy that does not exist, or that reads a silent token which they do not name.
    """
    name = settings.get(DECISION_POLICY)
    if name is None:
        return None
    try:
        policy = find_policy(name)
    except ValueError as error:
        raise CheckpointError(f"the heads file's metadata: {error}") from error
    if policy.has_theta and SILENT_TOKEN not in settings:
        raise CheckpointError(f"the heads file names the policy {name}, but no {SILENT_TOKEN}, which that policy reads")
    return name
