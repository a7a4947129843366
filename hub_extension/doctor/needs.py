"""What needs administrators, as on the page Overview: from the service, or as far as known without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from springtide.hub_extension.backup.mark import known_backup
from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.hub_extension.doctor.network import answer_of_service
from springtide.scheduler.engine.views import needs_view
from springtide.scheduler.store import StoreError, read_left_jobs, read_withheld
from springtide.scheduler.wire import Need, NeedKind, NeedList, PoolUsage

CHECKS: Final[Mapping[NeedKind, str]] = {
    NeedKind.STORE: "store",
    NeedKind.LAUNCH: "launches",
    NeedKind.UNMATCHED: "GPUs in use",
    NeedKind.USAGE: "usage records",
    NeedKind.NODES: "node groups",
    NeedKind.QUOTAS: "quotas",
    NeedKind.STAYS: "changes for a time",
    NeedKind.CHANNEL: "notifications",
    NeedKind.BACKUP: "backups",
    NeedKind.REQUEST: "requests",
    NeedKind.LEAVER: "leavers",
    NeedKind.HANDED_OVER: "leavers",
    NeedKind.DRAIN: "drains",
    NeedKind.JOB: "use of GPUs",
    NeedKind.WORKSPACE: "use of GPUs",
    NeedKind.ENDING: "changes for a time",
}
"""The check that finds entries of each kind."""
WELL: Final[Mapping[NeedKind, str]] = {
    NeedKind.LAUNCH: "Jobs can be launched.",
    NeedKind.UNMATCHED: "All running jobs and notebooks are on GPUs that have a place in the pool.",
    NeedKind.QUOTAS: "The quotas fit into the pool.",
    NeedKind.LEAVER: "Every unfinished job has an owner in JupyterHub.",
}
"""The text for a kind of which the service has no entry."""


def needs(state: Path, database_url: str, now: float, backup_after: float) -> Iterator[Finding]:
    """Check what needs administrators: what the service says, or what the store says if that does not answer.

    ``backup_after`` is the age of a backup that is too old, in seconds; 0 if backups are not watched.
    """
    listed = answer_of_service(state, "needs", NeedList)
    if listed is None:
        yield from launches(database_url)
        yield from leavers(database_url, now)
        yield from backups(state, now, backup_after)
        return
    found = [*listed.items, *listed.left]
    yield from map(finding_of, found)
    yield from _well(found, WELL)
    usage = answer_of_service(state, "pool/gpus", PoolUsage)
    if usage is not None and usage.measured:
        yield from _well(found, {NeedKind.USAGE: "The use of GPUs is recorded."})


def finding_of(need: Need) -> Finding:
    """Return the finding of an entry, in its words."""
    return (problem if need.problem else note)(CHECKS[need.kind], need.said, need.remedy)


def _well(found: Iterable[Need], said: Mapping[NeedKind, str]) -> Iterator[Finding]:
    kinds = {need.kind for need in found}
    for kind, words in said.items():
        if kind not in kinds:
            yield ok(CHECKS[kind], words)


def launches(database_url: str) -> Iterator[Finding]:
    """Check that launching has not stopped; no finding if the store cannot be read."""
    try:
        withheld = read_withheld(database_url)
    except (StoreError, ModuleNotFoundError):
        return
    found = [
        needs_view.need_of(NeedKind.LAUNCH, "", {"jobs": jobs, "detail": words}, 0.0)
        for words, jobs in withheld.most_common()
    ]
    yield from map(finding_of, found)
    yield from _well(found, {NeedKind.LAUNCH: WELL[NeedKind.LAUNCH]})


def leavers(database_url: str, now: float) -> Iterator[Finding]:
    """Report unfinished jobs of people who have left; no finding if the store cannot be read."""
    try:
        left = read_left_jobs(database_url)
    except (StoreError, ModuleNotFoundError):
        return
    found = [needs_view.leaver(name, [""] * jobs, now) for name, jobs in sorted(left.items())]
    yield from map(finding_of, found)
    yield from _well(found, {NeedKind.LEAVER: WELL[NeedKind.LEAVER]})


def backups(state: Path, now: float, backup_after: float) -> Iterator[Finding]:
    """Check that the latest backup is not too old; no finding if backups are not watched."""
    backup = known_backup(state) if backup_after else None
    if backup is not None:
        yield from map(finding_of, needs_view.backup_need(backup, backup_after, now))
