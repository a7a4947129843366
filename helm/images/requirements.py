"""Print what Springtide and the named extras need, one a line: ``requirements.py PYPROJECT EXTRA ...``.

An image installs these first, so that a change of the code does not install them again.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

OWN = re.compile(r"springtide\[([^\]]+)\]$")


def requirements(pyproject: Path, extras: list[str]) -> list[str]:
    """What the package and these extras ask for, our own resolved. Raises `SystemExit` for unknown ones."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    known = project["optional-dependencies"]
    found = list(project["dependencies"])
    left = list(extras)
    seen: set[str] = set()
    while left:
        extra = left.pop()
        if extra in seen:
            continue
        seen.add(extra)
        if extra not in known:
            raise SystemExit(f"There is no extra {extra!r} in {pyproject}; there are {', '.join(sorted(known))}")
        for requirement in known[extra]:
            if own := OWN.match(requirement):
                left.extend(own.group(1).split(","))
            else:
                found.append(requirement)
    return sorted(set(found))


if __name__ == "__main__":
    sys.stdout.write("\n".join(requirements(Path(sys.argv[1]), sys.argv[2:])) + "\n")
