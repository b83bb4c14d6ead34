"""A sentence encoder and a checkpoint are loaded at the same time, as when scoring begins beside a run."""

import threading
from pathlib import Path

from stepscope.engine.loading import load_model
from stepscope.eval.matching.sentence_encoders import load_encoder


def test_a_checkpoint_is_whole_when_an_encoder_is_loaded_beside_it(tiny_folder: Path) -> None:
    for _ in range(6):
        thread = threading.Thread(target=load_encoder)
        thread.start()
        try:
            load_model(tiny_folder, device="cpu")
        finally:
            thread.join()
