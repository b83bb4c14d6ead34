"""The parameters of a checkpoint that training changes, and the folder that holds the result.

``full`` trains the text model, the projector and both heads; ``lora`` a LoRA adapter instead of the text model;
``heads`` the projector and both heads alone. The vision tower and the connector stay fixed, so that
features stay valid.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from stepscope.engine.errors import CheckpointError
from stepscope.engine.io.files import atomic_write, replace_files, write_json
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.files.checkpoint_files import HEADS_FILE, read_object
from stepscope.engine.model.files.image_processors import PROCESSOR_FILES
from stepscope.engine.model.files.loading import load_tokenizer
from stepscope.engine.model.heads import save_heads
from stepscope.engine.model.hub.families import TRAINING_FILE
from stepscope.engine.model.hub.model import HubModel
from stepscope.engine.model.prompt import RESPONSE_TOKEN, UPDATE_TOKEN
from stepscope.engine.model.saving import save_inputs, save_model
from stepscope.engine.model.smolvlm import StreamingModel
from stepscope.engine.training.config import Method

if TYPE_CHECKING:
    from peft import PeftModel

LORA_FROM: Final = 500_000_000
"""Parameters of a model from which ``auto`` is ``lora``."""


def choose_method(checkpoint: Checkpoint, method: Method) -> Method:
    """Return ``lora`` for ``auto`` and 500 M parameters or more, ``full`` for ``auto`` and fewer."""
    if method != "auto":
        return method
    return "lora" if sum(one.numel() for one in checkpoint.model.parameters()) >= LORA_FROM else "full"


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """A model prepared for training in place."""

    checkpoint: Checkpoint
    method: Method
    silent_id: int | None
    """The token that means silence, to record in the heads file."""
    decision_policy: str | None = None
    """The policy that the model is trained for, to record there too; None for that of the heads."""
    adapter: "PeftModel | None" = None
    new_tokens: tuple[int, ...] = ()
    """Ids of [DST] and [ASST] if the base's tokenizer lacks them."""

    @property
    def num_trained(self) -> int:
        """Number of parameters that training changes."""
        return sum(one.numel() for one in self.checkpoint.model.parameters() if one.requires_grad)

    @property
    def saved_bytes(self) -> int:
        """Upper estimate of the size of the result folder and a saved training state, in bytes."""
        model = self.checkpoint.model
        result = self.num_trained if self.adapter is not None else sum(one.numel() for one in model.parameters())
        return 4 * (3 * self.num_trained + result)

    def save(self, folder: Path) -> None:
        """Write the checkpoint folder that ``load_model`` reads; all files are replaced together."""
        checkpoint = self.checkpoint
        with replace_files(folder) as new:
            if isinstance(checkpoint.model, HubModel):
                self._save_hub_model(new, checkpoint.model)
            elif self.adapter is None:
                save_model(
                    new,
                    checkpoint.smolvlm,
                    checkpoint.smolvlm_prompt.tokenizer,
                    normalization=checkpoint.normalization,
                    silent_id=self.silent_id,
                    decision_policy=self.decision_policy,
                    base=checkpoint.base or checkpoint.folder,
                )
            else:
                self._save_heads(new)
            if self.adapter is not None:
                from stepscope.engine.model.files.adapters import save_adapter  # noqa: PLC0415 - peft takes seconds

                save_adapter(new, self.adapter)

    def _save_hub_model(self, folder: Path, model: HubModel) -> None:
        """Write the published layout, and the policy of the training."""
        checkpoint = self.checkpoint
        if self.adapter is None:
            model.vlm.save_pretrained(folder)
        else:
            shutil.copy(checkpoint.folder / "config.json", folder)
        checkpoint.prompt.tokenizer.save_pretrained(folder)
        for path in filter(Path.is_file, (checkpoint.folder / name for name in PROCESSOR_FILES)):
            shutil.copy(path, folder)
        write_json(folder / TRAINING_FILE, {"decision_policy": self.decision_policy})

    def _save_heads(self, folder: Path) -> None:
        """Write the files beside an adapter of a SmolVLM."""
        checkpoint, model = self.checkpoint, self.checkpoint.smolvlm
        tokenizer = checkpoint.smolvlm_prompt.tokenizer
        silent = None if self.silent_id is None else tokenizer.convert_ids_to_tokens(self.silent_id)
        rows: Tensor | None = None
        if self.new_tokens:
            with torch.no_grad():
                rows = model.embed_tokens(torch.tensor(self.new_tokens, device=model.device))
        policy = self.decision_policy
        save_heads(folder / HEADS_FILE, model, silent_token=silent, decision_policy=policy, token_rows=rows)
        with atomic_write(folder / "config.json") as file:
            json.dump(read_object(checkpoint.folder / "config.json"), file, indent=2)
        save_inputs(folder, model, load_tokenizer(checkpoint.folder), normalization=checkpoint.normalization)


def prepare(checkpoint: Checkpoint, method: Method, *, rank: int = 16, silent_token: str | None = None) -> Adaptation:
    """Choose the trained parameters of a model, in place, and return how to save them.

    Raises ``CheckpointError`` for an adapter with a mode other than ``full``, for a silent token that the tokenizer
    lacks, and for the mode ``heads`` without heads.
    """
    method = choose_method(checkpoint, method)
    if checkpoint.base is not None and method != "full":
        raise CheckpointError(f"{checkpoint.name} is an adapter already; train its base, or choose --method full")
    is_hub, silent_id, new = isinstance(checkpoint.model, HubModel), None, tuple[int, ...]()
    if is_hub and method == "heads":
        raise CheckpointError(f"{checkpoint.name} has no heads to train; choose --method lora or full")
    model = checkpoint.model if is_hub else checkpoint.smolvlm
    model.float().requires_grad_(requires_grad=False)
    if isinstance(model, StreamingModel):
        silent_id = checkpoint.silent_id if silent_token is None else _find_silent(checkpoint, silent_token)
        for part in (model.vision_projector, model.speaking_decision_head, model.dst_update_head):
            part.requires_grad_(True)
    if method == "full":
        model.text_model.requires_grad_(True)
        model.lm_head.requires_grad_(True)
    adapter = None
    if method == "lora":
        from stepscope.engine.model.files.adapters import add_adapter  # noqa: PLC0415 - peft takes seconds to import

        if not is_hub:
            known, prompt = load_tokenizer(checkpoint.folder).get_vocab(), checkpoint.smolvlm_prompt
            pairs = ((UPDATE_TOKEN, prompt.update_id), (RESPONSE_TOKEN, prompt.response_id))
            new = tuple(token_id for token, token_id in pairs if token not in known)
        device = model.device
        adapter = add_adapter(model.vlm, rank=rank, base=_name_base(checkpoint), new_tokens=new).to(device)
    return Adaptation(checkpoint=checkpoint, method=method, silent_id=silent_id, adapter=adapter, new_tokens=new)


def _name_base(checkpoint: Checkpoint) -> str:
    """Return the hub id, or the absolute path of a folder."""
    return str(checkpoint.folder.resolve()) if Path(checkpoint.name).exists() else checkpoint.name


def _find_silent(checkpoint: Checkpoint, token: str) -> int:
    ids = checkpoint.smolvlm_prompt.words(token)
    if len(ids) != 1:
        raise CheckpointError(f"the silent token {token!r} is not one token of {checkpoint.name}; choose another")
    return ids[0]
