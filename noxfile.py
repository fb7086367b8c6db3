"""What has to hold, by name: ``nox`` runs it all and stops at the first that fails; ``nox -s demo`` shows it.

Needs only Python 3.11 or newer and, to install servers that are missing, root (see integration/README.md).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import nox
from nox.command import CommandFailed

# Thousands of processes import what stands here: with this set each of them would compile it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.stop_on_first_error = True
nox.options.sessions = ["lint", "types", "tests", "integration"]

PROJECT = nox.project.load_toml("pyproject.toml")
CODE = ("recipes", "tests", "integration", "bench", "docs/conf.py", "docs/generate", "noxfile.py")
HARNESS = ("integration/harness", "integration/servers.py", "integration/proxy.py")

BESIDE = ("-n", "7", "--dist", "worksteal")
"""Run tests beside each other: nearly all of them mostly wait, so more than there are cores."""
WAITING = ("-n", "12", *BESIDE[2:])
"""The contract without a server: it waits most of all."""
SERVED = ("-n", "5", *BESIDE[2:])
"""The same on real servers, which take their share of the cores: with more at a time all come late."""
CONTRACT = ("-n", "8", *BESIDE[2:])
"""The long tests on real servers that break nothing: five at a time leave half of two cores idle."""
ALONE = (
    "integration/differential",
    "integration/faults/test_interrupts.py",
    "integration/soak",
    "integration/test_barrier.py",
    "integration/test_bench.py",
    "integration/test_crowd.py",
    "integration/test_demo.py",
    "integration/test_multilock.py",
    "integration/test_sqlite_crowd.py",
)
"""Those that load the machine, or compare how long two things take: two files of them at a time."""
PAIRED = ("-n", "2", "--dist", "loadfile")
SHORT = ("-m", "not long")
"""The tests that run by default; ``nox -s faults`` runs the others too."""
FAULTS = (
    "integration/breaking",
    "integration/faults",
    "integration/clusters",
    "integration/credentials",
    "integration/redis_faults",
    "integration/sql_faults",
)
LOADED = ("integration/faults/test_many_waiters.py", "integration/faults/test_interrupts.py")
"""Those among them that load the machine: they run alone."""

EXAMPLES = (
    "integration/test_docs.py",
    "integration/test_docs_moving.py",
    "integration/test_docs_redis.py",
    "integration/test_docs_sql.py",
    "integration/test_docs_start.py",
    "integration/credentials/test_docs_secured.py",
    "integration/fencing/test_docs.py",
    "integration/sql/test_docs.py",
    "integration/fleet/test_fleet_examples.py",
    "tests/docs",
    "tests/fencing/test_objects.py",
)
"""The tests that run the examples of the pages, and look at what the pages say."""

DATA = Path(".coverage-data").resolve()
PACKAGE = 95
PURE = 100
PURE_FILES = (
    "recipes/_contract/*,recipes/_rules/*,recipes/_programs/*,recipes/stores/receipts.py,"
    "recipes/stores/_kit/*,recipes/stores/*/*protocol*.py,recipes/stores/*/*acts*.py,"
    "recipes/stores/*/*layout*.py,recipes/stores/*/*codec*.py"
)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and formatting, by ruff."""
    session.install(*group("lint"))
    present = [path for path in CODE if Path(path).exists()]
    session.run("ruff", "check", *present)
    session.run("ruff", "format", "--check", *present)


@nox.session
def types(session: nox.Session) -> None:
    """Types, by mypy and by pyright: of the package, of the harness, and as users see them."""
    session.install("-e", ".[cli]", *group("types"))
    users = [path for path in ("tests/typing",) if Path(path).exists()]
    with meanwhile(session, "pyright", "recipes", *users):
        session.run("mypy", "recipes", *HARNESS, "noxfile.py", *users)


@nox.session
def tests(session: nox.Session) -> None:
    """The tests that need no server."""
    session.install("-e", ".[cli]", *group("tests"))
    rest = ("tests", "--ignore=tests/contract", "--ignore=tests/simulation", *SHORT, "-n", "5")
    if session.posargs:
        measured(session, "tests")
        return
    # It computes, and a tracer slows that; the others mostly wait. Last in line, a test may take long.
    simulated = ("tests/simulation", *SHORT, "--timeout=1800", "-n", "2", "--dist", "worksteal")
    with meanwhile(session, "pytest", *simulated):
        measured(session, "tests", ("tests/contract", *SHORT, *WAITING), rest)
    report(session)


@nox.session
def integration(session: nox.Session) -> None:
    """The tests on real servers, which are found or installed."""
    session.install("-e", ".[cli]", *group("tests"))
    session.run("python", "-m", "integration.harness.finding")
    session.run("python", "-m", "integration.fleet.building")
    beside = ("integration", *(f"--ignore={path}" for path in ALONE))
    short = ((*beside, *SERVED, *SHORT), (*ALONE, *PAIRED, *SHORT))
    for run in (tuple(session.posargs),) if session.posargs else short:
        session.run("pytest", *run)


@nox.session
def site(session: nox.Session) -> None:
    """The documentation as a site, in ``build/site``; a warning is an error."""
    session.install("-e", ".[cli]", *group("site"))
    build_site(session)


@nox.session
def docs(session: nox.Session) -> None:
    """The site, and every example of it, on the store that it claims."""
    session.install("-e", ".[cli]", *group("docs"))
    build_site(session)
    session.run("python", "-m", "integration.harness.finding")
    session.run("python", "-m", "integration.fleet.building")
    session.run("pytest", *EXAMPLES, *SHORT, *SERVED)


@nox.session
def package(session: nox.Session) -> None:
    """What is uploaded: built, checked, and the wheel used where there is nothing else."""
    session.install("-e", ".", *group("tests"), *group("package"))
    output = Path(session.create_tmp()).resolve() / "dist"
    shutil.rmtree(output, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(output))
    session.run("twine", "check", "--strict", *map(str, output.iterdir()))
    session.run("python", "-m", "integration.wheel", *map(str, output.glob("*.whl")))


@nox.session
def faults(session: nox.Session) -> None:
    """Every row of the fault matrix, on real servers, and the proof that its tests can fail."""
    session.install("-e", ".[cli]", *group("tests"))
    session.run("python", "-m", "integration.harness.finding")
    session.run("python", "-m", "integration.fleet.building")
    beside = (*FAULTS, *(f"--ignore={path}" for path in LOADED), *SERVED)
    loading = (*(path for path in ALONE if path not in LOADED), "integration/partitions")
    others = ("integration", *(f"--ignore={path}" for path in (*FAULTS, *loading)), "-m", "long", *CONTRACT)
    alone = (*loading, "-m", "long", *PAIRED)
    unserved = ("tests", "-m", "long", *BESIDE)
    proof = ("tests", "-k", "test_fault_")
    runs = (beside, LOADED, others, alone, unserved, proof)
    failed = 0
    for run in (tuple(session.posargs),) if session.posargs else runs:
        try:  # hours of it: one that fails keeps nobody from what the others say
            session.run("pytest", *run, "--durations=20")
        except CommandFailed:
            failed += 1
    if failed:
        session.error(f"{failed} of the runs above failed")


@nox.session
def coverage(session: nox.Session) -> None:
    """What the tests without servers executed, once more, and whether that is enough."""
    session.install(*group("tests"))
    report(session)


def report(session: nox.Session) -> None:
    """Say what was executed; an error if that is not enough."""
    parts = sorted(map(str, DATA.glob("*/*")))
    if not parts:
        session.error("nothing was measured: run the session tests first")
    session.env["COVERAGE_FILE"] = str(DATA / "all")
    session.run("coverage", "combine", "--keep", "--quiet", *parts)
    session.run("coverage", "report", f"--fail-under={PACKAGE}")
    session.run("coverage", "report", f"--include={PURE_FILES}", f"--fail-under={PURE}")


@nox.session
def demo(session: nox.Session) -> None:
    """The package as users install it, and its demonstration: ``nox -s demo -- --processes 8``."""
    session.install(".[cli]")
    session.run("recipes", "demo", *session.posargs)


@nox.session
def simulate(session: nox.Session) -> None:
    """Many schedules of the simulation: ``nox -s simulate -- --count 200000``, ``--exhaustive``."""
    session.install("-e", ".", *group("tests"))
    session.run("python", "-m", "tests.simulation", *session.posargs)


@nox.session
def differential(session: nox.Session) -> None:
    """The model servers against the real ones: ``nox -s differential -- --store etcd-3.4 --seed N``."""
    session.install("-e", ".", *group("tests"))
    session.run("python", "-m", "integration.harness.finding")
    session.run("python", "-m", "integration.differential", "--count", "2000", *session.posargs)


@nox.session
def chaos(session: nox.Session) -> None:
    """Clients under faults, and their histories: ``nox -s chaos -- --store etcd --runs 10 --seed 7``."""
    session.install("-e", ".", *group("tests"))
    session.run("python", "-m", "integration.harness.finding")
    session.run("python", "-m", "integration.fleet.building")
    session.run("python", "-m", "integration.chaos", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """Every recipe at once, for long, and what grows: ``nox -s soak -- --minutes 20 --store redis``."""
    session.install("-e", ".", *group("tests"))
    session.run("python", "-m", "integration.harness.finding")
    session.run("python", "-m", "integration.fleet.building")
    session.run("python", "-m", "integration.soak", *session.posargs)


@nox.session
def scale(session: nox.Session) -> None:
    """What grows faster than the number of clients: ``nox -s scale -- --most 1000 --case queue``."""
    session.install("-e", ".", *group("bench"))
    session.run("python", "-m", "tests.simulation.scale", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Plant each known bug, and say what notices it: ``nox -s mutants -- --out``."""
    session.install("-e", ".[cli]", *group("tests"))
    session.run("python", "-m", "tests.mutants", *session.posargs)


@nox.session
def mutation(session: nox.Session) -> None:
    """Small changes that nobody chose, and which of them no test notices: ``nox -s mutation -- --seed 7``."""
    session.install("-e", ".[cli]", *group("tests"), *group("mutation"))
    session.run("pytest", "tests/mutation")
    session.run("python", "-m", "tests.mutation", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """This package and its peers in one run: ``nox -s bench -- alone churn``, ``--rounds 8``, ``--long``."""
    session.install("-e", ".[cli]", *group("bench"))
    session.run("python", "-m", "integration.harness.finding")
    session.run("python", "-m", "bench", *session.posargs)


@nox.session
def lowest(session: nox.Session) -> None:
    """The tests again, with the oldest dependencies that are promised to do."""
    project = PROJECT["project"]
    promised = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    oldest = [requirement.replace(">=", "==") for requirement in promised]
    session.install("-e", ".[cli]", *group("tests"), *oldest)
    session.run("pytest", "tests", *session.posargs)


def build_site(session: nox.Session) -> None:
    """Build all of it anew, with every reference looked up."""
    options = ("-E", "-n", "-W", "--keep-going", "-q", "-d", "build/doctrees")
    session.run("sphinx-build", *options, "docs", "build/site", *session.posargs)


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group; the pip that comes with Python 3.11 knows no groups."""
    return list(nox.project.dependency_groups(PROJECT, name))


@contextmanager
def meanwhile(session: nox.Session, *command: str) -> Generator[None]:
    """Run a program beside what is run meanwhile, which gets the processors first.

    What it prints is shown at the end; an error if it fails.
    """
    session.log(f"meanwhile: {' '.join(command)}")
    words = ("nice", "-n", "5", *command)  # and no more: on a busy machine it has to get on
    env = os.environ | {"PATH": f"{session.bin}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(  # noqa: S603 - the words are those of this file
            words, stdout=said, stderr=subprocess.STDOUT, env=env, start_new_session=True
        )
        try:
            yield
            code = running.wait()
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGTERM)
                running.wait()
        said.seek(0)
        sys.stdout.write(said.read())
    if code:
        session.error(f"{command[0]} failed: its exit code is {code}")


def measured(session: nox.Session, name: str, *runs: tuple[str, ...]) -> None:
    """Run pytest, one run after the other, with its coverage and that of the processes it starts."""
    data = DATA / name
    data.mkdir(parents=True, exist_ok=True)
    for stale in data.iterdir():
        stale.unlink()
    session.env["COVERAGE_FILE"] = str(data / "part")
    for run in (tuple(session.posargs),) if session.posargs else runs:
        session.run("coverage", "run", "-m", "pytest", *run, env=dict(os.environ))
