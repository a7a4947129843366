"""What a job that is run again tells of the first run."""

from __future__ import annotations

from springtide.scheduler.wire.shapes import Answer


class OptionChange(Answer, frozen=True, kw_only=True):
    """An option that differs from the first run, as a person reads it.

    Of environment variables only the names are told: ``before`` is empty then.
    """

    name: str
    before: str
    after: str


class RerunOf(Answer, frozen=True, kw_only=True):
    """The run that a job repeats. Code, files and arguments are those of it.

    ``text`` says in words which run it is, and what differs.
    """

    job: str
    name: str
    changes: list[OptionChange]
    text: str
