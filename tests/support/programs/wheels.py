"""A package to install without an index."""

from __future__ import annotations

import zipfile
from pathlib import Path


def write_wheel(place: Path) -> dict[str, str]:
    """Write the package ``tidal`` 1.2 into a directory; return the variables with which pip installs it alone."""
    info = "tidal-1.2.dist-info"
    with zipfile.ZipFile(place / "tidal-1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tidal.py", "WORD = 'ebb'\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tidal\nVersion: 1.2\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "tidal.py,,\n")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(place)}
