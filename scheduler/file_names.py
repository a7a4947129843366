r"""Names of files as texts: a name of any bytes has a text of its own, and the text leads back to it; pure.

Bytes that are no UTF-8 are written as ``\xe9``. In a name that has such letters itself, the backslash is ``\x5c``.
Lists show a name that a line of text would change in quotes of the shell: ``$'x\ny.txt'``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_OWN = re.compile(r"\\(?=x[0-9a-f]{2})")
_BYTE = re.compile("[\udc80-\udcff]")
_WRITTEN = re.compile(r"\\x(5c|[89a-f][0-9a-f])")
_FIRST = 0xDC00
"""What Python adds to a byte that is no UTF-8 in the name of a file."""
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'"}
_ESCAPED: Final = {character: f"\\{letter}" for letter, character in _LETTERS.items()}
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4})|([nrt\\']))")


def shown_name(name: str) -> str:
    """Return the text of a file's name, or of a path, as Python has it."""
    return _BYTE.sub(lambda found: f"\\x{ord(found[0]) - _FIRST:02x}", _OWN.sub(r"\\x5c", name))


def real_name(text: str) -> str:
    """Return the name, or the path, that has this text: what `shown_name` was given."""
    return _WRITTEN.sub(lambda found: "\\" if found[1] == "5c" else chr(_FIRST + int(found[1], 16)), text)


def listed_name(name: str) -> str:
    r"""Return the text of a file for a list: its name, or ``$'x\ny.txt'``, which a shell reads as that name.

    In such quotes are names with quotes, unprintable characters, several spaces in a row, or spaces at an end.
    """
    if name.isprintable() and name == " ".join(name.split()) and not {"'", '"'} & set(name):
        return name
    written = "".join(map(_escaped, name))
    return f"$'{written}'"


def _escaped(character: str) -> str:
    if character in _ESCAPED or character.isprintable():
        return _ESCAPED.get(character, character)
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def is_quoted(text: str) -> bool:
    """Return whether `listed_name` gives this text for a name other than the text."""
    return _unquoted(text) != text


def name_among(text: str, names: Collection[str]) -> str:
    """Return the name of the file or folder that a text means: itself if ``names`` has it, else what it quotes."""
    below = f"{text.rstrip('/')}/"
    return text if any(name == text or name.startswith(below) for name in names) else _unquoted(text)


def _unquoted(text: str) -> str:
    """Return the name that `listed_name` shows as this text; the text itself if there is none."""
    name = _ESCAPE.sub(_character, text[2:-1])
    return name if listed_name(name) == text else text


def _character(escape: re.Match[str]) -> str:
    *codes, letter = escape.groups()
    return _LETTERS[letter] if letter else chr(int(next(filter(None, codes)), 16))
