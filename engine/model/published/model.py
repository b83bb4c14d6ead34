"""A Llama with a SigLIP tower and a connector: tensors in, tensors out. Layers are those of transformers.

Sizes: ``B`` images, ``I`` tokens per frame, ``F`` width of the tower, ``D`` text width, ``N`` positions.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d
from transformers import LlamaForCausalLM, SiglipVisionModel

from stepscope.engine.model.preprocessing import Framing
from stepscope.engine.model.vision_language import VisionLanguageModel


class LlamaAssistant(VisionLanguageModel):
    """A published assistant. A frame is the tower's pooled token, then a grid of averages over its patches.

    Args:
        llama: The text model, with merged adapters.
        tower: The vision tower.
        connector: Projects features ``[..., F]`` into text space ``[..., D]``.
        grid_size: Side of the grid; 3 gives 1 + 9 tokens per frame, 0 gives 1.
        framing: How frames are brought to the square size of the tower.
        head: ProAssist's decision head: the logit of silence at hidden states ``[..., D]``.
    """

    def __init__(
        self,
        llama: LlamaForCausalLM,
        tower: SiglipVisionModel,
        connector: nn.Module,
        *,
        grid_size: int,
        framing: Framing,
        head: nn.Module | None = None,
    ) -> None:
        super().__init__(llama)
        self.tower, self.connector, self.head = tower, connector, head
        self.grid_size, self.framing = grid_size, framing
        self.tokens_per_frame = 1 + grid_size**2  # 1, 5 or 10 in the published checkpoints
        self.frame_tokens = f"cls+{grid_size}x{grid_size}" if grid_size else "cls"
        self.image_size, self.feature_dim = tower.config.image_size, tower.config.hidden_size
        self.has_heads = head is not None

    def encode_images(self, pixel_values: Tensor) -> Tensor:
        """Encode normalised images ``[B, 3, H, W]`` as features ``[B, I, F]``."""
        output = self.tower(pixel_values=pixel_values.to(self.tower.dtype))
        pooled: Tensor = output.pooler_output[:, None]
        if not self.grid_size:
            return pooled
        patches = output.last_hidden_state.transpose(1, 2)  # [B, F, patches]
        side = int(patches.shape[-1] ** 0.5)
        grid = adaptive_avg_pool2d(patches.unflatten(-1, (side, side)), self.grid_size)
        return torch.cat([pooled, grid.flatten(2).transpose(1, 2)], dim=1)

    def embed_frames(self, features: Tensor) -> Tensor:
        """Project features ``[..., F]`` into text space ``[..., D]``."""
        projected: Tensor = self.connector(features.to(self.device, self.dtype))
        return projected

    def decision_logits(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of speaking at hidden states ``[N, D]``, and ``-inf`` for updates, both ``[N]``.

        The head's label 1 is silence, so speaking has the negative logit.
        """
        if self.head is None:
            return super().decision_logits(hidden)
        speak = -self.head(hidden.float())[:, 0]
        return speak, torch.full_like(speak, -torch.inf)
