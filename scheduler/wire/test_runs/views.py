"""What a job tells of its test run."""

from __future__ import annotations

from springtide.scheduler.wire.shapes import Answer


class TestRun(Answer, frozen=True, kw_only=True):
    """The test run of a job, which is a job of its own: the same program with one worker on one GPU.

    ``ran`` is how long it has run, in seconds. ``text`` says in words how it went.
    """

    job: str
    stage: str
    """``waiting``, ``running``, ``passed``, ``failed`` or ``cancelled``."""
    ran: float
    text: str
