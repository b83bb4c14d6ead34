from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from stepscope.engine.video.writer import write_h264
from tests.support.streams.videos import grey


@pytest.fixture(scope="package")
def ntsc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 pictures at 29.97 a second, 10.01 s, grey from 0 to 199, each with a red corner at the top left."""

    def picture(index: int) -> np.ndarray:
        image = grey(index * 2 // 3)
        image[:8, :8] = (255, 0, 0)
        return image

    path = tmp_path_factory.mktemp("ntsc") / "ntsc.mp4"
    write_h264(path, map(picture, range(300)), fps=Fraction(30000, 1001))
    return path
