"""Checks whether jobs are launched."""

from __future__ import annotations

from collections.abc import Iterator

from springtide.hub_extension.doctor.findings import Finding, ok, problem
from springtide.scheduler.store import StoreError, read_withheld
from springtide.scheduler.wording import count, plural


def launches(database_url: str) -> Iterator[Finding]:
    """Check that launching has not stopped; nothing is said where the store cannot be read."""
    try:
        withheld = read_withheld(database_url)
    except (StoreError, ModuleNotFoundError):
        return
    for words, jobs in withheld.most_common():
        yield problem(
            "launches",
            f"{count(jobs, 'job')} {plural(jobs, 'is', 'are')} not started, because several could not be: {words}",
            "Allow what is refused there. Jobs start by themselves once a start works.",
        )
    if not withheld:
        yield ok("launches", "Nothing keeps jobs from being launched.")
