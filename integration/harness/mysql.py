"""A MySQL server, in the place of MariaDB."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from integration.harness.demoted import demoted
from integration.harness.mariadb import FIRST, MariaDb

__all__ = ["OWN_UUID", "MySql"]

SMALL = {
    "loose-innodb-redo-log-capacity": "8M",
    "loose-mysqlx": "OFF",
    "performance-schema": "OFF",
    "secure-file-priv": "NULL",
}
"""What its data and its start cost less by; the first two are unknown to the oldest."""
OWN_UUID = "auto.cnf"
"""The file among its data that names the server; an operator leaves it out of a copy."""

ADMINISTRATOR = """
CREATE USER root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
GRANT PROXY ON ''@'' TO root@'127.0.0.1' WITH GRANT OPTION;
"""


class MySql(MariaDb):
    """One MySQL 8.0 or newer on loopback; its user ``root`` needs no password."""

    def initialise(self, folder: Path) -> None:
        first = folder / "first.sql"
        first.write_text(ADMINISTRATOR + FIRST)
        settings = {**SMALL, "datadir": folder / "data", "tmpdir": folder, "init-file": first}
        options = [f"--{name}={value}" for name, value in settings.items()]
        self.run([*self._program, "--initialize-insecure", *options], folder=folder)
        (folder / "data" / OWN_UUID).unlink()  # each copy makes its own

    def command(self) -> Sequence[str]:
        settings = {**SMALL, **self.wanted}
        del settings["innodb-log-file-size"]  # unknown since 9.0
        options = [f"--{name}={value}" for name, value in settings.items()]
        return demoted(self.user, [*self._program, *options], tether="KILL")

    @property
    def _program(self) -> list[str]:
        return [str(self.programs), "--no-defaults", f"--basedir={self.programs.parent.parent}"]
