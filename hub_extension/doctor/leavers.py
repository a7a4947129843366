"""Checks whether jobs of people are left who are no longer users of JupyterHub."""

from __future__ import annotations

from collections.abc import Iterator

from springtide.hub_extension.doctor.findings import Finding, note, ok
from springtide.scheduler.store import StoreError, read_left_jobs
from springtide.scheduler.wording import count, plural


def leavers(database_url: str) -> Iterator[Finding]:
    """Tell of unfinished jobs of people who have left; nothing is said where the store cannot be read."""
    try:
        left = read_left_jobs(database_url)
    except (StoreError, ModuleNotFoundError):
        return
    for name, jobs in sorted(left.items()):
        yield note(
            "leavers",
            f"{name} is no longer a user of JupyterHub and has {count(jobs, 'unfinished job')}. "
            "What waits is on hold; what runs goes on to its end or its next pause.",
            f"On the page Quotas, under Jobs on hold, release or cancel {plural(jobs, 'it', 'them')}, or "
            "`springtide release JOB --to USER` to give one to another member of its project.",
        )
    if not left:
        yield ok("leavers", "Every unfinished job has an owner in JupyterHub.")
