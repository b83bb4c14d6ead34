"""Samples of a split: loading, writing and the published data formats.

``read_samples`` is the public interface. It loads on first use and needs no torch.
"""

from typing import TYPE_CHECKING

from engine.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from eval.data.loading import read_samples as read_samples
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        read_samples="eval.data.loading",
    )
