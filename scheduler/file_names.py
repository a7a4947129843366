r"""Names of files as texts: a name of any bytes has a text of its own, and the text leads back to it; pure.

Bytes that are no UTF-8 are written as ``\xe9``. In a name that has such letters itself, the backslash is ``\x5c``.
"""

from __future__ import annotations

import re

_OWN = re.compile(r"\\(?=x[0-9a-f]{2})")
_BYTE = re.compile("[\udc80-\udcff]")
_WRITTEN = re.compile(r"\\x(5c|[89a-f][0-9a-f])")
_FIRST = 0xDC00
"""What Python adds to a byte that is no UTF-8 in the name of a file."""


def shown_name(name: str) -> str:
    """Return the text of a file's name, or of a path, as Python has it."""
    return _BYTE.sub(lambda found: f"\\x{ord(found[0]) - _FIRST:02x}", _OWN.sub(r"\\x5c", name))


def real_name(text: str) -> str:
    """Return the name, or the path, that has this text: what `shown_name` was given."""
    return _WRITTEN.sub(lambda found: "\\" if found[1] == "5c" else chr(_FIRST + int(found[1], 16)), text)
