"""Bounded, printable texts and times for answers: an assistant reads each of them whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from springtide.scheduler.client.log_text import folded

Item = TypeVar("Item")
MORE = "…"


def clipped(text: str, most: int) -> str:
    """Return the text on one line without control characters, at most ``most`` characters of it."""
    words = folded(" ".join(text.split()), colours=False)
    return words if len(words) <= most else f"{words[: most - len(MORE)]}{MORE}"


def clipped_words(words: Iterable[str], most: int) -> list[str]:
    """Return words of at most ``most`` characters together; a last ``…`` replaces the others."""
    kept: list[str] = []
    for word in words:
        if most <= 0:
            return [*kept, MORE]
        kept.append(clipped(word, most))
        most -= len(kept[-1]) + 1
    return kept


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most ``most`` of the items, evenly spaced, with the first and the last."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[-1]]
    last = len(items) - 1
    return [items[round(place * last / (most - 1))] for place in range(most)]
