"""``python -m stepscope.app`` that also offers sweeps of 21 thresholds per axis, for a benchmark of 441 points."""

import sys
from unittest.mock import patch

from stepscope.app.__main__ import main
from stepscope.eval.sweeps.grid import GRID_SIZES

SIZE = 21

if __name__ == "__main__":
    sizes = (*GRID_SIZES, SIZE)
    with (
        patch("stepscope.app.tabs.batch.sweeps.panel.GRID_SIZES", sizes),
        patch("stepscope.app.tabs.batch.sweeps.folders.GRID_SIZES", sizes),
    ):
        sys.exit(main(sys.argv[1:]))
