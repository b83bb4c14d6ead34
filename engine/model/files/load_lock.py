"""A lock for loading models.

While transformers loads a model, it replaces methods of its classes for the whole process. A model that another thread
loads at the same time would lack its tied weights.
"""

from threading import RLock
from typing import Final

LOAD_LOCK: Final = RLock()
"""Held while a model of transformers or sentence-transformers is loaded."""
