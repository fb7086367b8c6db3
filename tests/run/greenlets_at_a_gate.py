"""Two greenlets of gevent at one file gate. ``python -m tests.run.greenlets_at_a_gate FILE``."""

# ruff: noqa: E402 - patching comes first

from gevent import monkey

monkey.patch_all()

import sys

import gevent

from recipes.fencing import FileGate


def main(path: str) -> None:
    """Have one go on in the block of another: the lock of the file would stop both, being in one thread."""
    gate = FileGate(path)
    said: list[str] = []

    def later() -> None:
        try:
            gate.write(2, b"later")
        except RuntimeError as refused:
            said.append(str(refused))

    with gate.admit(1):
        gevent.spawn(later).join()
    gate.write(2, b"behind it")
    print(said[0])


if __name__ == "__main__":
    main(sys.argv[1])
