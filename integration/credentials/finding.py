"""Where a secret shows: in text, plain or in the encodings that it meets on its way."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

__all__ = ["disguises", "shown"]


def disguises(secret: str) -> dict[str, str]:
    """Return how a secret may be written, by the name of the encoding."""
    found = {
        "plain": secret,
        "quoted": quote(secret, safe=""),
        "quoted with slashes": quote(secret),
        "quoted as a form": quote_plus(secret),
        "JSON": json.dumps(secret)[1:-1],
        "ASCII": ascii(secret)[1:-1],
    }
    for charset in ("utf-8", "latin-1"):
        raw = secret.encode(charset)
        found |= {
            f"bytes in {charset}": repr(raw)[2:-1],
            f"read back from {charset}": raw.decode("latin-1"),
            f"hex of {charset}": raw.hex(),
            f"spaced hex of {charset}": raw.hex(" "),
        }
        for offset in range(3):  # what stands before it shifts it
            middle = base64.b64encode(b"\0" * offset + raw).decode()
            # The first and the last group mix with the neighbours'.
            found[f"base64 of {charset} at {offset}"] = middle[4 if offset else 0 :].rstrip("=")[:-2]
    return found


def shown(secrets: Iterable[str], text: str) -> list[str]:
    """Return in which ways any of the secrets is in the text."""
    lower = text.lower()
    return [
        name
        for secret in secrets
        for name, written in disguises(secret).items()
        if (written.lower() in lower if "hex" in name else written in text)
    ]
