"""``python -m recipes`` is the command ``recipes``."""

from __future__ import annotations

import sys

from recipes.cli import main

if __name__ == "__main__":
    sys.exit(main())
