"""``python -m stepscope``: the command ``stepscope``."""

import sys

from stepscope.app.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
