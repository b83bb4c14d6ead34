"""The verdicts of reviewers."""

from typing import Literal, get_args

Verdict = Literal["correct", "false alarm", "missed", "early or late", "wrong content", "reference wrong", "unclear"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
