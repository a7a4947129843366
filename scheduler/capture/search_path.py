"""The folders in which a Python looks for modules, those of editable installations among them.

Standard library of Python 3.9 only: another Python runs this file by itself to print its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ANSWER_S = 10.0
"""Time for another Python to print its search path, in seconds."""


def search_path() -> list[str]:
    """Return the folders of this Python in order: its search path, then those that hold editable packages."""
    editable = [
        str(Path(place).parent)
        for name, module in sorted(sys.modules.copy().items())
        if name.startswith("__editable__") and isinstance(getattr(module, "MAPPING", None), dict)
        for place in module.MAPPING.values()
        if isinstance(place, str)
    ]
    return [*sys.path, *editable]


def folders_of(python: str) -> list[str]:
    """Return the search path of an interpreter given by its path; empty if it is none or fails."""
    if python == sys.executable:
        return search_path()
    if not os.path.isabs(python) or not Path(python).name.startswith(("python", "pypy")):  # noqa: PTH117
        return []
    try:
        answer = subprocess.run(
            [python, __file__],
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        found = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
    return [folder for folder in found if isinstance(folder, str)] if isinstance(found, list) else []


if __name__ == "__main__":
    json.dump(search_path()[1:], sys.stdout)
