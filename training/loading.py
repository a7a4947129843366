"""A trial of payloads in a process of its own, as ``python -m springtide.training.loading DIRECTORY``.

Each file ``*.pkl`` of the directory is loaded, and nothing in it is called. The errors are written to `ERRORS` in
the directory: JSON, by the name of the file.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Dict, List

from springtide.training.names import become_main

ERRORS = "errors.json"
MODULES = "modules.json"
"""File with names of modules, JSON; those that this process does not find are written to `MISSING`."""
MISSING = "missing.json"


def load_all(directory: Path) -> None:
    """Load all payloads of the directory, and look for the modules."""
    errors: Dict[str, str] = {}
    for path in sorted(directory.glob("*.pkl")):
        payload = become_main(path)
        try:
            _ = payload.function, payload.call
        except Exception as error:  # noqa: BLE001 - objects of users may raise anything
            errors[path.name] = f"{type(error).__name__}: {error}"
    (directory / ERRORS).write_text(json.dumps(errors))
    modules: List[str] = json.loads((directory / MODULES).read_text())
    (directory / MISSING).write_text(json.dumps([module for module in modules if not _is_found(module)]))


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, AttributeError, ValueError):
        return False


if __name__ == "__main__":
    load_all(Path(sys.argv[1]))
