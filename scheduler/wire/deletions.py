"""Deletion of ended jobs in the API."""

from __future__ import annotations

from springtide.scheduler.wire.shapes import Answer


class Deletion(Answer, frozen=True, kw_only=True):
    """A job that was deleted, or would be: ``jobs`` counts it with its trials and its test run.

    ``bytes`` is the size of their files, if that was asked for.
    """

    job: str
    name: str
    jobs: int
    bytes: int | None = None
