"""A person who leaves: what becomes of her jobs, numbers, projects and notebook servers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from springtide.scheduler.wire.shapes import Answer, Request


class LeaveRequest(Request, frozen=True, kw_only=True):
    """End what a person has in the pool. Her jobs go to ``to``, or are cancelled; ``dry_run`` changes nothing."""

    to: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    dry_run: bool = False


class Departure(Answer, frozen=True, kw_only=True):
    """What becomes of what a person has, in sentences, and what stays and why.

    ``pending`` are the ids of jobs that are being paused: the same request again hands them over once they are.
    """

    steps: list[str]
    kept: list[str]
    pending: list[str]
    done: bool
