"""``python -m vinecast`` is the command ``vinecast``."""

import sys

from vinecast.cli import main

sys.exit(main())
