"""Files of an admin's with the environment variables of a secret: lines ``NAME=value``.

Values are literal, up to the end of the line. Empty lines and those that begin with ``#`` are left out. No message
contains a part of the file.
"""

from __future__ import annotations

import re

LARGEST = 1 << 20
"""Maximum size of such a file, in bytes."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OF_THE_POOL = ("SPRINGTIDE_", "LD_", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


def read_secret(path: str) -> dict[str, str]:
    """Return the variables of a file. Raises `OSError`, and `ValueError` with the number of a wrong line."""
    with open(path, "rb") as file:  # noqa: PTH123 - light to start
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError("it is larger than 1 MiB")
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip("\r")
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        name, sign, value = text.partition("=")
        name = name.strip()
        if not sign or not _NAME.match(name) or "\0" in value:
            raise ValueError(f"its line {number} is not NAME=value")
        if name.startswith(_OF_THE_POOL):
            raise ValueError(f"its line {number} sets a variable that is the pool's or the loader's")
        found[name] = value
    return found
