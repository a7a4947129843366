"""Run tests on the oldest versions that Springtide supports: `make oldest`.

The product runs on Python 3.11 with the lowest version of each direct dependency that ``pyproject.toml`` allows,
JupyterHub among them; the training library runs on Python 3.9. Tests that need a browser, a cluster, a database
server or a framework are left out.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from clusters import cluster_tools
from programs.commands import CommandError, run, step

ROOT = Path(__file__).parents[2]
PRODUCT_PYTHON = "3.11"
TRAINING_PYTHON = "3.9"
EXTRAS = ("hub", "widgets", "simulate", "kubernetes", "postgres", "agent", "sweeps", "examples")
LEFT_OUT = "browser or cluster or database or framework"
BUILD_TOOLS = ("hatchling>=1.27,<2",)
FOR_TRAINING = (
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "pytest-xdist",
    "cloudpickle",
    "cmaes",
    "optuna",
    "nbclient",
    "ipykernel",
)
WORKERS = "2"
PYENV = Path.home() / ".pyenv" / "versions"


class TestsFailedError(Exception):
    """Tests failed; the output of pytest names them."""


def main() -> None:
    """Run the tests of the product and of the training library; exit with code 1 when one of them fails."""
    try:
        try_product()
        try_training()
    except TestsFailedError as error:
        sys.exit(str(error))
    except CommandError as error:
        sys.exit(f"The oldest versions cannot be installed: {error}")


def try_product() -> None:
    """Run the product's tests with its oldest direct dependencies."""
    python = _environment("oldest", find_python(PRODUCT_PYTHON) or Path(sys.executable))
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    with step("oldest dependencies of Springtide"):
        run(python, "-m", "pip", "install", "--quiet", "uv", *BUILD_TOOLS)
        install = (python, "-m", "uv", "pip", "install", "--quiet", "--python", python)
        extras = [f"--extra={extra}" for extra in EXTRAS]
        run(*install, "--resolution", "lowest-direct", "--requirements", ROOT / "pyproject.toml", *extras)
        run(*install, *(each for each in dev if not each.startswith("springtide[")))
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", ROOT)
        shutil.rmtree(ROOT / "build", ignore_errors=True)
    _test(python, "tests", "-m", f"not ({LEFT_OUT})")


def try_training() -> None:
    """Run the training library's tests on the oldest Python that it supports; parse it if that is missing."""
    found = find_python(TRAINING_PYTHON)
    if found is None:
        for path in sorted((ROOT / "training").rglob("*.py")):
            ast.parse(path.read_text(), str(path), feature_version=(3, 9))
        print(f"Python {TRAINING_PYTHON} is not on this machine: the training library was parsed for it, not run")
        return
    python = _environment("oldest-training", found)
    with step(f"training library on Python {TRAINING_PYTHON}"):
        run(python, "-m", "pip", "install", "--quiet", *FOR_TRAINING)
        packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        shutil.copytree(ROOT / "training", Path(packages) / "springtide" / "training")
    _test(python, "tests/training")


def find_python(version: str) -> Path | None:
    """Return an interpreter of a version such as 3.9, from PATH or pyenv; None when none of them runs."""
    return next((each for each in _candidates(version) if _runs(each, version)), None)


def _candidates(version: str) -> Iterator[Path]:
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    yield from sorted(PYENV.glob(f"{version}.*/bin/python"))


def _runs(python: Path, version: str) -> bool:
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def _environment(name: str, interpreter: Path) -> Path:
    """Return the interpreter of a fresh virtual environment in the cache."""
    directory = cluster_tools.cache() / name
    run(interpreter, "-m", "venv", "--clear", directory)
    return directory / "bin" / "python"


def _test(python: Path, *arguments: str) -> None:
    options = ["-n", WORKERS, "--dist", "loadgroup", "-p", "no:cacheprovider"]
    command = [str(python), "-m", "pytest", *options, *arguments]
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise TestsFailedError(f"Tests failed: {' '.join(command)}")


if __name__ == "__main__":
    main()
