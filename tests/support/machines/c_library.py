"""Small C libraries of the tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

FLAGS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")


def compile_library(source: Path, library: Path) -> Path:
    """Compile a library, in a tenth of a second, and return its path."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler, "a C compiler is missing: apt-get install gcc"
    subprocess.run([compiler, *FLAGS, "-o", str(library), str(source)], check=True)
    return library
