"""The differences between a job that runs again and its first run."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler.wording import quoted


def rerun_text(name: str, changes: Sequence[tuple[str, str, str]]) -> str:
    """Return ``Run again of train.py: gpus 1 → 2.`` for an option's name, and its value before and after.

    If the value before is empty, the value after describes the whole change.
    """
    texts = [
        f"{option} {before} → {after}" if before else f"{option} {after}" for option, before, after in changes
    ]
    return f"Run again of {quoted(name)}{': ' if texts else ' with nothing changed'}{', '.join(texts)}."
