"""The title of a terminal's window, kept from the programs that run in it."""

from __future__ import annotations

import re
from typing import Final

TITLE: Final = re.compile(rb"\x1b\][012];[^\x07\x1b]*(?:\x07|\x1b\\)")
"""A sequence by which a program names its window."""
BEGUN: Final = re.compile(rb"\x1b(?:\](?:[012](?:;[^\x07\x1b]*\x1b?)?)?)?\Z")
"""The beginning of such a sequence at the end of a piece of output."""
LONGEST: Final = 4096
"""Number of bytes after which a begun sequence counts as output."""


class WithoutTitles:
    """Output of a terminal in pieces, without the sequences that name the window."""

    def __init__(self) -> None:
        self._held = b""

    def passed(self, piece: bytes) -> bytes:
        """Return what can be shown after one more piece; a begun sequence waits for the next one."""
        text = TITLE.sub(b"", self._held + piece)
        begun = BEGUN.search(text)
        at = begun.start() if begun is not None and len(text) - begun.start() <= LONGEST else len(text)
        self._held = text[at:]
        return text[:at]

    def rest(self) -> bytes:
        """Return what still waits at the end of the output."""
        held, self._held = self._held, b""
        return held
