"""What a shell would make of a command given as one text, which runs without one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from springtide.scheduler.wording import count, given, listed, plural

QUOTED: Final = "\0"
"""Replaces a character that quotes or a backslash make a plain one."""
_CONTROL: Final = re.compile(r"^(?:\d*(?:>>?|<)|\|\|?|&&?|;)|(?:;|&&?|\|\|?)$")
_EXPANDED: Final = re.compile(r"^~|\$[A-Za-z_{(]|`|^(?!.*://).*[*?]")
_IN_QUOTES: Final = re.compile(r"[\w${(`]")
"""Characters that mean the same between double quotes as outside of them."""
MOST_NAMED: Final = 5
"""Maximum number of words in a note."""


def control_signs(command: str) -> list[str]:
    """Return the signs by which a shell would end, connect or redirect commands, such as ``;`` and ``>``."""
    return [found[0] for word in _bare_words(command) if (found := _CONTROL.search(word)) is not None]


def passed_as_they_are(command: str, words: Sequence[str], cwd: Path) -> tuple[str, ...]:
    """Return the note about ``words`` of a command that a shell would expand; none about names of files."""
    bare = _bare_words(command)
    if len(bare) != len(words):
        return ()
    plain = dict.fromkeys(
        word
        for word, shape in zip(words, bare, strict=True)
        if _EXPANDED.search(shape) and not (cwd / word).exists()
    )
    if not plain:
        return ()
    named = [given(word) for word in plain][:MOST_NAMED]
    rest = [count(len(plain) - MOST_NAMED, "other word")] if len(plain) > MOST_NAMED else []
    are, they, them = (plural(len(plain), *forms) for forms in (("is", "are"), ("it", "they"), ("it", "them")))
    kept = plural(len(plain), "is", "are")
    note = (
        f"{listed([*named, *rest])} {are} passed as {they} {kept}: a command runs without a shell, which would "
        f'expand {them}. Write {them} out, or send ["bash", "-c", "…"].'
    )
    return (note,)


def _bare_words(command: str) -> list[str]:
    """Return the words of a command, with `QUOTED` for each character that quotes make a plain one."""
    words: list[str] = []
    word: list[str] | None = None
    quote, escaped = "", False
    for letter in command:
        if not quote and not escaped and letter in " \t\r\n":
            words += [] if word is None else ["".join(word)]
            word = None
            continue
        word = [] if word is None else word
        if escaped:
            word.append(QUOTED)
            escaped = False
        elif letter == "\\" and quote != "'":
            escaped = True
        elif letter == quote:
            quote = ""
        elif quote:
            word.append(letter if quote == '"' and _IN_QUOTES.match(letter) else QUOTED)
        elif letter in "'\"":
            quote = letter
        else:
            word.append(letter)
    return words if word is None else [*words, "".join(word)]
