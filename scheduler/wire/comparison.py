"""The API's comparison of several runs side by side."""

from __future__ import annotations

from typing import Final

from springtide.scheduler.wire.jobs import Job
from springtide.scheduler.wire.shapes import Answer

MAX_COMPARED: Final = 20
"""Maximum number of jobs that are compared at a time."""


class Difference(Answer, frozen=True, kw_only=True):
    """A difference among the compared jobs, as a person reads it: a text for each job, in their order.

    ``kind`` is ``argument``, ``option``, ``variable`` of the environment, ``command``, ``file`` of the project or
    ``files``. Of variables and files of the project only their equality is shown: equal ones have the same letter.
    """

    kind: str
    name: str
    values: list[str]


class Comparison(Answer, frozen=True, kw_only=True):
    """Jobs side by side, in the order that was asked for.

    ``code`` has for each job how its code differs from that of the first one, as lines of a unified diff: empty
    if it is the same or one of them has none, as commands, None if it is too long to compare.
    """

    jobs: list[Job]
    differences: list[Difference]
    code: list[list[str] | None]
