"""A sentence encoder in a process of its own gives the embeddings of one in this process, and its end has a reason."""

from multiprocessing import active_children

import numpy as np
import pytest

from eval.matching.sentence_encoders import load_encoder
from eval.matching.turns import DEFAULT_ENCODER
from eval.reports.encoder_process import EncoderProcess

TEXTS = ["Attach the wheel.", "The wheel is on; \ud800 well done!", "", "Attach the wheel."]


def test_texts_and_pairs_are_those_of_an_encoder_in_this_process() -> None:
    ours = load_encoder()
    with EncoderProcess() as process:
        theirs = process.load(DEFAULT_ENCODER)
        assert theirs.settings() == ours.settings()
        np.testing.assert_allclose(theirs.encode(TEXTS), ours.encode(TEXTS), atol=1e-6)
        pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[0], TEXTS[3])]
        np.testing.assert_allclose(
            theirs.encode.compare_pairs(pairs),  # type: ignore[attr-defined] # a ComparesPairs
            ours.encode.compare_pairs(pairs),  # type: ignore[attr-defined]
            atol=1e-6,
        )
        (child,) = [child for child in active_children() if child.name == "stepscope text encoder"]
        child.kill()
        with pytest.raises(ValueError, match=r"ended: signal 9 \(Killed; out of memory.*score the run with stepscope"):
            theirs.encode(TEXTS)


def test_an_encoder_that_cannot_be_loaded_has_one_line() -> None:
    with EncoderProcess() as process, pytest.raises(ValueError, match=r"^the text encoder /nowhere cannot be loaded: "):
        process.load("/nowhere")
    with pytest.raises(ValueError, match=r"^the process of the text encoder ended$"):
        process.load(DEFAULT_ENCODER)
