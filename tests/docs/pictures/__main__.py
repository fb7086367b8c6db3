"""Write all pictures to a folder: ``python -m tests.docs.pictures docs/images``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs.pictures import PICTURES

for name, draw in PICTURES.items():
    Path(sys.argv[1], name).write_text(draw(), encoding="utf-8")
