import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from stepscope.engine.loading import load_model
from stepscope.eval.matching import sentence_encoders as encoders
from stepscope.eval.matching.sentence_encoders import load_encoder


def test_equal_texts_have_one_embedding_in_whatever_company(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = load_encoder().encode
    alone = encode(["Now put on the roof."])
    among = encode(["Careful, pick up the wheel again.", "Now put on the roof.", "Now put on the roof."])
    assert among.shape == (3, 384)
    assert (among[1] == alone[0]).all()
    assert (among[1] == among[2]).all()
    assert (encode(["Turn \ud83d"]) == encode(["Turn ?"])).all(), "half a surrogate pair"
    monkeypatch.setattr(encoders, "MAX_CACHED_TEXTS", 2)
    assert np.allclose(encode(["a", "b", "Now put on the roof."])[2], alone[0], atol=1e-5), "forgotten, and made again"


def test_several_threads_may_encode_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "MAX_CACHED_TEXTS", 4)
    encode = load_encoder().encode

    def work(name: str) -> bool:
        return all(encode(["Good.", f"{name} {number}"]).shape == (2, 384) for number in range(30))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, "abcd"))


def test_an_encoder_that_is_not_to_be_had_is_named() -> None:
    with pytest.raises(ValueError, match="the text encoder /nowhere/x cannot be loaded"):
        load_encoder("/nowhere/x")


def test_a_checkpoint_is_whole_when_an_encoder_is_loaded_beside_it(tiny_folder: Path) -> None:
    for _ in range(6):
        thread = threading.Thread(target=load_encoder)
        thread.start()
        try:
            load_model(tiny_folder, device="cpu")
        finally:
            thread.join()
