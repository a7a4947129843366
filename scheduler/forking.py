"""Other arguments for a job that is run once more from a checkpoint; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from springtide.scheduler.resuming import runs_text
from springtide.scheduler.wording import given

MAX_ARGUMENTS: Final = 64 << 10
"""Maximum size of these arguments as JSON, in bytes."""


class BadArgumentError(ValueError):
    """An argument that a job cannot have. ``name`` is its name, ``hint`` says what to do instead."""

    def __init__(self, name: str, message: str, hint: str) -> None:
        super().__init__(f"{message} {hint}")
        self.name = name
        self.message = message
        self.hint = hint


def value_of(text: str) -> Any:
    """Return the value that a text stands for: JSON if it is some, else the text itself."""
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def words_of(value: Any) -> str:
    """Return a value as a word of a command, or as people read it."""
    return value if isinstance(value, str) else json.dumps(value)


def with_arguments(argv: Sequence[str], arguments: Mapping[str, Any]) -> list[str]:
    """Return a command with other values of its options.

    An option is ``--name value``, ``--name=value`` or ``name=value``; one that the command does not have is added
    at its end. True stands for an option without a value, False and None remove it. Raises `BadArgumentError`.
    """
    if arguments and runs_text(argv):
        raise BadArgumentError(
            min(arguments), f"{given(argv[0])} runs a text here, which has no options.", "Give the whole command."
        )
    words = list(argv)
    for name, value in arguments.items():
        _change(words, name, value)
    return words


def _change(words: list[str], name: str, value: Any) -> None:
    """Change one option in a command."""
    if isinstance(value, list | dict):
        raise BadArgumentError(
            name,
            f"The option {given(name)} of a command takes no {type(value).__name__}.",
            "Give the whole command.",
        )
    option = _option(name)
    place = _last(words, option)
    if place is None:
        if not isinstance(value, bool) and value is not None:
            words += [f"{name}={words_of(value)}"] if _assigns(words) else [option, words_of(value)]
        elif value:
            words.append(option)
        return
    head, equals, _ = words[place].partition("=")
    follows = words[place + 1] if place + 1 < len(words) else None
    takes = not equals and follows is not None and not _is_option(follows)
    end = place + (2 if takes else 1)
    if value is None or value is False:
        words[place:end] = []
    elif value is True:
        words[place:end] = [head]
    else:
        words[place:end] = [f"{head}={words_of(value)}"] if equals else [head, words_of(value)]


def _option(name: str) -> str:
    if name.startswith("-"):
        return name
    return f"-{name}" if len(name) == 1 else f"--{name}"


def _last(words: Sequence[str], option: str) -> int | None:
    """Return the place of the last word that gives the option; underscores and hyphens are alike."""
    plain = _plain(option)
    for place in reversed(range(1, len(words))):
        head, equals, _ = words[place].partition("=")
        if _plain(head) == plain or (equals and _plain(head) == plain.lstrip("-")):
            return place
    return None


def _plain(word: str) -> str:
    return word.replace("_", "-")


def _is_option(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return word.startswith("-") and word != "-"
    return False


def _assigns(words: Sequence[str]) -> bool:
    """Return whether a command gives its options as ``name=value``, as Hydra's do."""
    return any("=" in word and not word.startswith("-") for word in words[1:]) and not any(
        word.startswith("--") for word in words[1:]
    )
