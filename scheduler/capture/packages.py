"""The packages of a Python environment that code imports. The code is not executed.

Standard library of Python 3.9 only: another Python runs this file by itself to describe its packages. Called with
``contents``, it prints everything that this Python has, for the declaration of an image by an administrator.
"""

from __future__ import annotations

import json
import pkgutil
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import metadata, util
from pathlib import Path
from typing import Any

GENERAL = frozenset({"venv", ".venv", "env", ".env"})
"""Names of environments that say nothing without the directory they are in."""
BROUGHT = ("springtide", "springtide.training")
"""The library that each job finds on its search path, and the package around it."""
MAX_NAME = 200
STANDARD = frozenset(getattr(sys, "stdlib_module_names", ())) | {"__main__", "__future__"}


def described(required: Iterable[str], optional: Iterable[str]) -> dict[str, Any]:
    """Return version, path and environment of this Python, and of the modules: their packages, and missing ones.

    Missing are ``required`` ones alone. Modules are named by their absolute names; the first part counts.
    """
    required = [name for name in required if name not in BROUGHT and not name.startswith(f"{BROUGHT[-1]}.")]
    tops = {top: _is_there(top) for top in _tops([*required, *optional])}
    found = [_distributions(top) for top, there in tops.items() if there]
    return {
        "python": platform.python_version(),
        "path": sys.executable,
        "name": environment_name(sys.prefix),
        "packages": {name: version for versions in found for name, version in sorted(versions.items())},
        "missing": [top for top in _tops(required) if not tops[top]],
        "imports": list(_tops(required)),
    }


def environment_name(prefix: str) -> str:
    """Return the name of the environment in a directory as its users know it; empty if it is none."""
    place = Path(prefix)
    name = f"{place.parent.name}/{place.name}" if place.name in GENERAL else place.name
    if (place / "conda-meta").is_dir():
        return "base" if (place / "condabin").is_dir() else name
    try:
        lines = (place / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    prompts = [line.partition("=")[2].strip().strip("'\"") for line in lines if line.startswith("prompt")]
    return (prompts[0] if prompts else name)[:MAX_NAME]


def contents() -> dict[str, Any]:
    """Return the version of this Python, its packages with their versions, and the modules that it can import."""
    modules = {module.name for module in pkgutil.iter_modules()} | set(_owners())
    return {
        "python": platform.python_version(),
        "packages": {
            distribution.metadata["Name"]: distribution.version for distribution in metadata.distributions()
        },
        "modules": sorted(name for name in modules - STANDARD if name.isidentifier()),
    }


def _tops(modules: Iterable[str]) -> Sequence[str]:
    return sorted({module.partition(".")[0] for module in modules} - STANDARD - {""})


def _is_there(top: str) -> bool:
    try:
        return util.find_spec(top) is not None
    except ValueError:  # a module that this process made by itself
        return True
    except (ImportError, AttributeError):
        return False


def _distributions(top: str) -> Mapping[str, str]:
    """Return the distributions of a module with their versions; empty if it is not installed."""
    try:
        return {top: metadata.version(top)}
    except (metadata.PackageNotFoundError, ValueError):
        return {name: metadata.version(name) for name in _owners().get(top, ())}


@lru_cache(maxsize=1)
def _owners() -> Mapping[str, Sequence[str]]:
    """Return the names of distributions by the names of their modules."""
    found: dict[str, list[str]] = {}
    for distribution in metadata.distributions():
        listed = distribution.read_text("top_level.txt")
        files = distribution.files if listed is None else None
        tops = {file.parts[0].partition(".")[0] for file in files or () if file.suffix == ".py"}
        for top in tops if listed is None else listed.split():
            found.setdefault(top, []).append(distribution.metadata["Name"])
    return found


if __name__ == "__main__":
    json.dump(contents() if sys.argv[1:] == ["contents"] else described(*json.load(sys.stdin)), sys.stdout)
