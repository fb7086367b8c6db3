"""A MySQL server, in the place of MariaDB."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from integration.harness.demoted import demoted
from integration.harness.mariadb import FIRST, MariaDb

__all__ = ["OWN_UUID", "MySql"]

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
        options = [
            "--secure-file-priv=NULL",
            f"--datadir={folder / 'data'}",
            f"--tmpdir={folder}",
            f"--init-file={first}",
        ]
        self.run([*self._program, "--initialize-insecure", *options], folder=folder)
        (folder / "data" / OWN_UUID).unlink()  # each copy makes its own

    def command(self) -> Sequence[str]:
        settings = {**self.wanted, "mysqlx": "OFF", "secure-file-priv": "NULL"}
        del settings["innodb-log-file-size"]  # gone since 9.0
        options = [f"--{name}={value}" for name, value in settings.items()]
        return demoted(self.user, [*self._program, *options], tether="KILL")

    @property
    def _program(self) -> list[str]:
        return [str(self.programs), "--no-defaults", f"--basedir={self.programs.parent.parent}"]
