"""Shows that the wheel alone is the package; ``nox -s package`` runs it on the wheel it has built.

It is installed in an environment of its own, with what it asks for and nothing else, and used from a folder
in which nothing of the working copy is found.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from tests.docs.pages import ROOT, example_on

__all__ = ["main"]

PLAIN = """
import asyncio, importlib.util, recipes
assert "site-packages" in recipes.__file__, recipes.__file__
with recipes.connect("memory://") as client, client.lock("x") as grant:
    grant.check()
async def main():
    async with recipes.connect_async("memory://") as client, client.lock("x") as grant:
        assert await grant.verify()
asyncio.run(main())
for name in recipes.__all__:
    getattr(recipes, name)
for url in ("etcd://127.0.0.1/app", "zookeeper://127.0.0.1/app"):  # what they are built on is there
    recipes.connect(url)
for extra in ("click", "redis", "sqlalchemy", "opentelemetry", "prometheus_client"):
    assert importlib.util.find_spec(extra) is None, f"{extra} is not asked for"
print("recipes", recipes.__version__)
"""


def main(wheel: Path) -> int:
    """Install it and use it; raises where something is not as it should be."""
    check_contents(wheel)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder, "venv"), with_pip=True)
        run = Runner(Path(folder, "venv/bin"), Path(folder))
        run("python", "-m", "pip", "install", "--quiet", str(wheel))
        run("python", "-W", "error", "-c", PLAIN)
        example = example_on(ROOT / "docs/examples/first.py", f"sqlite://{folder}/app.db")
        assert "published under token" in run("python", "-W", "error", "-c", example)
        assert "pip install" in run("recipes", "demo", code=2)  # says how to have the command
        run("python", "-m", "pip", "install", "--quiet", f"{wheel}[cli]")
        assert "nothing was lost" in run("recipes", "demo", "--processes", "3", "--rounds", "3")
    print(f"{wheel.name}: installed alone, it works")
    return 0


def check_contents(wheel: Path) -> None:
    """Look at what it brings: the package, its types, its licence, and nothing beside it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [archive.read(name).decode() for name in names if name.endswith("/METADATA")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"recipes", "coordination_recipes"}
    assert "recipes/py.typed" in names
    assert any(name.endswith("LICENSE") for name in names)
    shown = metadata.partition("\n\n")[2]
    assert "](" not in shown.replace("](https://", ""), "a link in it would lead nowhere"


class Runner:
    """Runs programs of one environment, in a folder, with nothing of this one's paths."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._env = {**kept, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def __call__(self, program: str, *args: str, code: int = 0) -> str:
        """Return what it says on both streams; raises unless it ends with this code."""
        command = [str(self._programs / program), *args]
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
