"""The run as a table: what the assistant said and updated, and the reference dialogue beside it.

Rows are plain text, never markup. A reference turn stands in the row of the prediction at the same frame and of
the same kind, otherwise in a row of its own: nothing is matched here, that is ``eval``'s.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from app.palette import STATE_WORDS, WHO_WORDS
from engine.dialogue import apply_update, initial_state
from engine.records import FrameOutput, UserTurn
from app.runs import Run

HEADERS = ["Time", "Who", "Said by the model", "Prob.", "Reference"]
STATE_HEADERS = ["Step", "Name", "Model", "Reference"]
