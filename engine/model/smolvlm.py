"""SmolVLM2 with two binary heads: tensors in, tensors out.

``vision_projector`` is the identity if features are already in text space. Sizes: ``B`` images or rows, ``I`` tokens
per frame, ``F`` feature width, ``D`` text width, ``L`` tokens, ``V`` vocabulary.
"""

from typing import Literal, get_args

from torch import Tensor, nn
from transformers import SmolVLMForConditionalGeneration

from stepscope.engine.model.vision_language import VisionLanguageModel

Pooling = Literal["mean", "first", "none"]


class StreamingModel(VisionLanguageModel):
    """A SmolVLM model that also decides when to speak and when to update the dialogue state.

    ``pooling`` chooses the tokens that represent a frame: the ``mean`` over the image's tokens, the ``first`` of them
    (the published code's [CLS]), or all of them (``none``). ``feature_dim`` is ``F`` of the stored features when they
    are not in text space; it adds the projector.
    """

    def __init__(
        self, vlm: SmolVLMForConditionalGeneration, *, pooling: Pooling = "mean", feature_dim: int | None = None
    ) -> None:
        super().__init__(vlm)
        if pooling not in get_args(Pooling):
            raise ValueError(f"pooling must be one of {', '.join(get_args(Pooling))}; got {pooling!r}")
        self.pooling: Pooling = pooling
        self.frame_tokens = pooling
        self.image_size = vlm.config.vision_config.image_size
        # an image of 384 pixels in patches of 14 with scale factor 3 has (384 // 14)**2 // 3**2 = 81 tokens
        side = self.image_size // vlm.config.vision_config.patch_size
        self.tokens_per_frame = side**2 // vlm.config.scale_factor**2 if pooling == "none" else 1
        width = self.hidden_size
        self.feature_dim = feature_dim or width
        self.vision_projector: nn.Module = nn.Identity()
        if self.feature_dim != width:
            self.vision_projector = nn.Sequential(
                nn.Linear(self.feature_dim, width), nn.GELU(), nn.Linear(width, width)
            )
        self.speaking_decision_head = nn.Linear(width, 1)
        self.dst_update_head = nn.Linear(width, 1)

    def encode_images(self, pixel_values: Tensor) -> Tensor:
        """Encode normalised images ``[B, 3, H, W]`` as features ``[B, I, D]``.

        The tower and the connector are called directly: ``get_image_features`` drops images whose pixels are
        all exactly zero, which would shift every later frame.
        """
        patches = self.vlm.model.vision_model(pixel_values=pixel_values.to(self.dtype)).last_hidden_state
        tokens: Tensor = self.vlm.model.connector(patches)
        if self.pooling == "none":
            return tokens
        return tokens.mean(1, keepdim=True) if self.pooling == "mean" else tokens[:, :1]

    def embed_frames(self, features: Tensor) -> Tensor:
        """Project features ``[..., F]`` into text space ``[..., D]``."""
        projected: Tensor = self.vision_projector(features.to(self.device, self.dtype))
        return projected

    def decision_logits(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of both heads at hidden states ``[N, D]``: speaking ``[N]``, update ``[N]``, in float32."""
        states = hidden.float()
        return self.speaking_decision_head(states)[:, 0], self.dst_update_head(states)[:, 0]
