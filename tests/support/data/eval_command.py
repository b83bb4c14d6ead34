"""``python -m eval`` without Java and the sentence encoder, which tests of signals do not need."""

import sys
from unittest.mock import patch

from eval.__main__ import main
from tests.support.data.batches import load_letters, no_java

if __name__ == "__main__":
    with patch("eval.cli.run_command.TextScorer", no_java), patch("eval.cli.run_command.import_encoder", load_letters):
        sys.exit(main(sys.argv[1:]))
