"""Align the connector's output with the word embeddings that the text model has learned to look up.

After the lookup stage, the text model expects a frame to be the image token's embedding plus that of the noun in the
hand. One ridge regression over cached frames finds the mapping, since the connector is linear.
"""

import torch
from torch import Tensor

from stepscope.assets.scenes.recipes import NOUNS
from stepscope.assets.training.lookups import embed_nouns
from stepscope.assets.training.pretrain import project
from stepscope.engine.model.prompt import Prompt
from stepscope.engine.model.smolvlm import StreamingModel

RIDGE = 10.0


@torch.no_grad()
def align_connector(model: StreamingModel, prompt: Prompt, means: Tensor, held: Tensor) -> None:
    """Replace the connector's weight.

    ``means`` are cached frames ``[N, C]`` (see ``assets.training.pretrain.shuffled_mean``), ``held [N, 2]`` has per
    frame and hand 1 + the index of the noun held, 0 for none.
    """
    words = embed_nouns(model, prompt, torch.arange(len(NOUNS)))
    image = model.embed_tokens(torch.tensor(prompt.image_id))
    nouns = torch.cat([torch.zeros_like(words[:1]), words - image])
    wanted = image + nouns[held].sum(1)
    gram = means.T @ means + RIDGE * torch.eye(means.shape[1])
    fitted = torch.linalg.solve(gram, means.T @ wanted).T
    weight = model.vlm.model.connector.modality_projection.proj.weight
    size = wanted.norm(dim=1).mean() / project(model, means).norm(dim=1).mean()
    weight.copy_(fitted + size * weight)
