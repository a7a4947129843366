"""Why a job waits and when it is expected to start, told together: no sentence contradicts the forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from springtide.scheduler.sentences.sentence import Role, Sentence

NEVER = "engine-starts-never"
"""Code of a start that no end of running jobs makes possible."""
AT_ONCE_S = 10.0
"""Time below which a start is expected at once, in seconds; front ends say "any moment"."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A forecast: the seconds from its making to the likely start, or the code of why that cannot be told."""

    after: float | None
    code: str = ""


def agreed(said: Sequence[Sentence], expected: Expected | None) -> tuple[tuple[Sentence, ...], bool]:
    """Return the sentences that are true beside the forecast, and whether the forecast adds to them.

    What would let the job start earlier is left out where it starts at once, and where no end of other jobs lets
    it start. A job that needs a change by a person is told that change alone.
    """
    if expected is None:
        return tuple(said), True
    never = expected.code == NEVER
    if never and any(each.role is Role.CHANGE for each in said):
        return tuple(said), False
    at_once = expected.after is not None and expected.after < AT_ONCE_S
    kept = tuple(each for each in said if each.role is not Role.EASE) if never or at_once else tuple(said)
    return kept, True
