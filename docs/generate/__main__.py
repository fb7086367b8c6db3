"""Write every generated part of the pages, and the pictures beside them."""

from __future__ import annotations

from docs.generate.parts import PARTS, PICTURES, write

for name in PARTS | PICTURES:
    if write(name):
        print(f"{name}: written anew")
