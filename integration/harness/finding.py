"""Where the servers of the tests come from: named in the environment, installed, or installed now.

Debian packages bring etcd 3.4, etcdctl, ZooKeeper, PostgreSQL, PgBouncer, MariaDB and Redis (as root,
never with a service started), and what the clients of other kinds are compiled with; a wheel brings etcd 3.5.
``integration/README.md`` says it for people.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from integration.harness.process import ServerUnavailable
from integration.harness.throwaway import etcd_version, find_etcd
from integration.harness.zookeeper import Java

__all__ = [
    "Go",
    "Javac",
    "find_curator",
    "find_etcd_34",
    "find_etcd_35",
    "find_etcdctl",
    "find_faketime",
    "find_go",
    "find_mariadb",
    "find_memcached",
    "find_pgbouncer",
    "find_postgres",
    "find_redis",
    "find_zookeeper",
    "main",
    "may_install",
]

T = TypeVar("T")

JARS = Path("/usr/share/java")
"""Where Debian keeps ZooKeeper and what it needs; ``zookeeper.jar`` names the rest in its manifest."""

ZOOKEEPER = ("libzookeeper-java", "default-jre-headless")
"""What of Debian's ``zookeeper`` a server needs: the package itself only adds scripts and a desktop Java."""

CURATOR = ("libcurator-recipes-java", "default-jdk-headless")
GO = ("golang-go", "golang-etcd-server-dev")
GOPATH = Path("/usr/share/gocode")
"""Where Debian keeps the sources of Go packages."""

POSTGRES = Path("/usr/lib/postgresql")
"""Where Debian keeps the programs of each version of PostgreSQL."""

SERVERS = "/usr/sbin"
"""Where Debian keeps servers; it is not on the ``PATH`` of every user."""

SERVICES = {
    "etcd-server": "etcd",
    "mariadb-server": "mariadb",
    "pgbouncer": "pgbouncer",
    "postgresql": "postgresql",
    "redis-server": "redis-server",
    "memcached": "memcached",
}
"""The services that packages bring along."""


@dataclass(frozen=True)
class Go:
    """What compiles a program with etcd's client for Go: the tool, and the sources it finds."""

    binary: str
    path: str


@dataclass(frozen=True)
class Javac:
    """What compiles and runs a program with Curator."""

    compiler: str
    runtime: str
    classpath: str


def main() -> int:
    """Find or install everything, before any test's time is measured; 1 if something is missing in CI."""
    missing = 0
    stores = (find_etcd_34, find_etcd_35, find_etcdctl, find_zookeeper)
    databases = (find_postgres, find_pgbouncer, find_mariadb, find_redis, find_memcached)
    for find in (*stores, find_go, find_curator, find_faketime, *databases):
        try:
            _say(f"found {find()}")
        except ServerUnavailable as reason:
            missing += 1
            _say(f"MISSING: {reason}")
    return int(bool(missing and os.environ.get("CI")))


def may_install() -> bool:
    """Whether missing servers are installed; ``RECIPES_TEST_NO_INSTALL`` forbids it."""
    return not os.environ.get("RECIPES_TEST_NO_INSTALL")


def find_etcd_34(*, install: bool = True) -> Path:
    """Return an etcd 3.4: ``RECIPES_TEST_ETCD_34``, any on the machine, or Debian's."""
    return _named("RECIPES_TEST_ETCD_34") or _found_or_installed(
        lambda: find_etcd(accept=is_version("3.4"), install=False), ["etcd-server"], install=install
    )


def find_etcd_35(*, install: bool = True) -> Path:
    """Return an etcd 3.5.1: ``RECIPES_TEST_ETCD_35``, any on the machine, or the wheel's."""
    named = _named("RECIPES_TEST_ETCD_35")
    return named or find_etcd(_say, accept=is_version("3.5.1"), install=install and may_install())


def find_etcdctl(*, install: bool = True) -> Path:
    """Return an ``etcdctl``: ``RECIPES_TEST_ETCDCTL``, the one on ``PATH``, or Debian's."""
    return _program("RECIPES_TEST_ETCDCTL", "etcdctl", "etcd-client", install=install)


def find_zookeeper(*, install: bool = True) -> Java:
    """Return ZooKeeper's class path (``RECIPES_TEST_ZOOKEEPER`` or Debian's) and a Java to run it."""

    def look() -> Java:
        classpath = os.environ.get("RECIPES_TEST_ZOOKEEPER") or _debian_jars("zookeeper", "slf4j-simple")
        return Java(_java(), classpath)

    return _found_or_installed(look, list(ZOOKEEPER), install=install)


def find_go(*, install: bool = True) -> Go:
    """Return a Go with etcd's client for it: ``RECIPES_TEST_GOPATH`` or Debian's sources."""

    def look() -> Go:
        path = os.environ.get("RECIPES_TEST_GOPATH") or str(GOPATH)
        binary = shutil.which("go")
        if binary is None or not Path(path, "src/go.etcd.io/etcd/clientv3/concurrency").is_dir():
            raise ServerUnavailable(f"no go on the PATH, or no etcd client 3.4 for it below {path}")
        return Go(binary, path)

    return _found_or_installed(look, list(GO), install=install)


def find_curator(*, install: bool = True) -> Javac:
    """Return Curator's class path (``RECIPES_TEST_CURATOR`` or Debian's) and a JDK."""

    def look() -> Javac:
        classpath = os.environ.get("RECIPES_TEST_CURATOR") or _debian_jars("curator-recipes", "slf4j-nop")
        return Javac(_java("javac"), _java(), classpath)

    return _found_or_installed(look, list(CURATOR), install=install)


def find_faketime(*, install: bool = True) -> Path:
    """Return the library that lets a program see another wall clock (Debian's libfaketime)."""

    def look() -> Path:
        found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        if not found:
            raise ServerUnavailable("no libfaketime")
        return found[0]

    return _found_or_installed(look, ["libfaketime"], install=install)


def find_postgres(*, install: bool = True) -> Path:
    """Return PostgreSQL's programs: ``RECIPES_TEST_POSTGRES``, Debian's newest, or those on ``PATH``."""

    def look() -> Path:
        named = os.environ.get("RECIPES_TEST_POSTGRES")
        debian = sorted(POSTGRES.glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
        on_path = map(Path, os.get_exec_path())
        for folder in [Path(named)] if named else [*debian, *on_path]:
            if all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres")):
                return folder
        raise ServerUnavailable(f"no initdb and postgres in {named or f'{POSTGRES} or on the PATH'}")

    named = bool(os.environ.get("RECIPES_TEST_POSTGRES"))
    return _found_or_installed(look, ["postgresql"], install=install and not named)


def find_pgbouncer(*, install: bool = True) -> Path:
    """Return a PgBouncer: ``RECIPES_TEST_PGBOUNCER``, the one on ``PATH``, or Debian's."""
    return _program("RECIPES_TEST_PGBOUNCER", "pgbouncer", "pgbouncer", install=install)


def find_mariadb(*, install: bool = True) -> Path:
    """Return a MariaDB server: ``RECIPES_TEST_MARIADB``, the one on ``PATH``, or Debian's."""
    return _program("RECIPES_TEST_MARIADB", "mariadbd", "mariadb-server", install=install)


def find_mysql() -> Path | None:
    """Return the MySQL server that is used in MariaDB's place: ``RECIPES_TEST_MYSQL``, or none."""
    return _named("RECIPES_TEST_MYSQL")


def find_redis(*, install: bool = True) -> Path:
    """Return a Redis server: ``RECIPES_TEST_REDIS``, the one on ``PATH``, or Debian's."""
    return _program("RECIPES_TEST_REDIS", "redis-server", "redis-server", install=install)


def find_memcached(*, install: bool = True) -> Path:
    """Return a Memcached: ``RECIPES_TEST_MEMCACHED``, the one on ``PATH``, or Debian's."""
    return _program("RECIPES_TEST_MEMCACHED", "memcached", "memcached", install=install)


def _program(variable: str, program: str, package: str, *, install: bool) -> Path:
    """Return a program: the one a variable names, the one on ``PATH`` or in Debian's place, or Debian's."""

    def look() -> Path:
        found = shutil.which(program) or shutil.which(program, path=SERVERS)
        if found is None:
            raise ServerUnavailable(f"no {program} on the PATH")
        return Path(found)

    return _named(variable) or _found_or_installed(look, [package], install=install)


def is_version(wanted: str) -> Callable[[str], bool]:
    """Return a judge of versions: those that are ``wanted`` or a release of it."""
    return lambda version: version == wanted or version.startswith(f"{wanted}.")


def _named(variable: str) -> Path | None:
    """Return the program a variable names; an error if it is none, for a silent other choice would lie."""
    value = os.environ.get(variable)
    if not value:
        return None
    if not os.access(value, os.X_OK):
        raise ServerUnavailable(f"{variable}={value} is not a program")
    if "ETCD_" in variable and not etcd_version(Path(value)):
        raise ServerUnavailable(f"{variable}={value} is no etcd that runs here")
    return Path(value)


def _java(program: str = "java") -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(program, path=f"{home}/bin") if home else shutil.which(program)
    if found is None:
        raise ServerUnavailable(f"no {program} found")
    return found


def _debian_jars(*names: str) -> str:
    """Return a class path of Debian's jars, each of which names what it needs; one is for its log."""
    jars = [JARS / f"{name}.jar" for name in names]
    missing = [str(jar) for jar in jars if not jar.exists()]
    if missing:
        raise ServerUnavailable(f"not installed: no {' and no '.join(missing)}")
    return os.pathsep.join(map(str, jars))


def _found_or_installed(look: Callable[[], T], packages: list[str], *, install: bool) -> T:
    try:
        return look()
    except ServerUnavailable as missing:
        if not (install and may_install()):
            raise
        try:
            _apt_install(tuple(packages))
        except ServerUnavailable as failed:
            raise ServerUnavailable(f"{missing}; {failed}") from None
    return look()


@functools.cache
def _apt_install(packages: Sequence[str]) -> None:
    """Install Debian packages; asked once a run, and no service of theirs is started or enabled."""
    apt = shutil.which("apt-get")
    if apt is None:
        raise ServerUnavailable(f"install {' '.join(packages)} or what is like them (no apt-get here)")
    if os.geteuid() != 0:
        raise ServerUnavailable(f"run `apt-get install {' '.join(packages)}` as root, or the tests as root")
    _say(f"installing {' '.join(packages)} with apt-get")
    with _no_services():
        # If only one of the machine's sources cannot be reached, the packages may still be there.
        stale = _failure([apt, "update", "--quiet"])
        wait = [
            "-o",
            "DPkg::Lock::Timeout=300",
        ]  # for another apt, of this machine's owner or another test run
        failed = _failure([apt, *wait, "install", "--quiet", "--yes", "--no-install-recommends", *packages])
    if failed:
        raise ServerUnavailable("; ".join(filter(None, [failed, stale])))
    _disable_services(packages)


@contextmanager
def _no_services() -> Generator[None, None, None]:
    """Forbid packages to start services for the length of the block, as Debian's policy layer provides."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():  # the owner of the machine has decided already
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


def _disable_services(packages: Sequence[str]) -> None:
    """Keep what was installed for tests from starting with the machine."""
    update = shutil.which("update-rc.d")
    for package in packages:
        if package in SERVICES and update is not None:
            subprocess.run([update, SERVICES[package], "disable"], check=False, capture_output=True)


def _failure(command: list[str]) -> str:
    """Run ``command`` and return why it failed, or nothing."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    reason = "\n".join(done.stderr.strip().splitlines()[-5:])
    return f"`{' '.join(command)}` failed: {reason}" if done.returncode else ""


def _say(line: str) -> None:
    print(f"integration: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
