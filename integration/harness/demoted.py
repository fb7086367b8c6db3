"""Servers that refuse to run as root: they run as a user with fewer rights."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import sys
from collections.abc import Iterable, Sequence

from integration.harness.throwaway import ServerUnavailable

__all__ = ["demoted", "unprivileged"]


def unprivileged(*names: str) -> pwd.struct_passwd | None:
    """Return the user as whom a server of root's runs, the first of ``names`` there is; None if not root."""
    if os.geteuid() != 0:
        return None
    for name in (*names, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerUnavailable(f"does not run as root, and there is no user {' or '.join(names)} or nobody")


def demoted(
    user: pwd.struct_passwd | None, words: Iterable[object], *, tether: str | None = None
) -> Sequence[str]:
    """Return what runs a command as a user, if it has to be another.

    Args:
        user: The user, as `unprivileged` returned it.
        words: The command.
        tether: The signal that the command gets when the thread that starts it ends. A change of user
            drops the one that was set before.
    """
    command = [str(word) for word in words]
    if user is None:
        return command
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise ServerUnavailable("does not run as root, and there is no setpriv to change user")
    change = [setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    if tether is not None and sys.platform == "linux":
        change += ["--pdeathsig", tether]
    return [*change, *command]
