"""Virtual environments with pinned packages, in the cache: of programs that hubs and notebooks do without."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from build_lock import alone
from clusters.cluster_tools import ToolsMissingError, cache
from programs.commands import run, step

HERE = Path(__file__).parent
UV = "uv==0.13.9"
"""What installs the packages: pip takes eight times as long for as many."""
COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class PinnedEnvironment:
    """An environment with the packages of a file beside this one; ``size`` is what it takes on the disk."""

    name: str
    what: str
    size: str

    def interpreter(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Return the interpreter. Raises `ToolsMissingError` if the environment is not complete."""
        directory = self._directory(environment)
        if not (directory / COMPLETE).exists():
            raise ToolsMissingError(f"{self.what} is not installed in {directory}: run `make frameworks`")
        return directory / "bin" / "python"

    def build(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Install the packages unless they are, and return the interpreter.

        Several processes may call this at once: one installs, the others wait for it.
        """
        directory = self._directory(environment)
        directory.parent.mkdir(parents=True, exist_ok=True)
        with alone(directory.parent / f"{self.name}.lock", self.what):
            if not (directory / COMPLETE).exists():
                with step(f"{self.what}, {self.size}"):
                    self._install(directory)
                    (directory / COMPLETE).touch()
        return self.interpreter(environment)

    @property
    def _packages(self) -> Path:
        return HERE / f"{self.name}_packages.txt"

    def _install(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        run(sys.executable, "-m", "venv", directory)
        python = directory / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--no-cache-dir", UV)
        uv = (directory / "bin" / "uv", "pip", "install", "--quiet", "--no-cache", "--python", python)
        run(*uv, "--compile-bytecode", "--no-deps", "--requirement", self._packages)

    def _directory(self, environment: Mapping[str, str]) -> Path:
        recipe = repr((self._packages.read_text(), UV, sys.version_info[:2]))
        return cache(environment) / f"{self.name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


AIRFLOW = PinnedEnvironment("airflow", "Apache Airflow", "200 MB")
"""What the extra ``airflow`` asks for and nothing else: our modules of Airflow are imported without the rest."""
TRACKING = PinnedEnvironment("tracking", "MLflow with TensorBoard and W&B", "850 MB")
"""The service needs none of them; our command needs W&B for exports to it, and its own libraries."""

if __name__ == "__main__":
    for each in (AIRFLOW, TRACKING):
        print(each.build())
