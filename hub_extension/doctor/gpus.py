"""Checks of the GPUs of a pool on this machine, as its service knows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from springtide.hub_extension.doctor.findings import Finding, ok, problem
from springtide.hub_extension.doctor.network import answer_of_service
from springtide.scheduler.wire import PoolUsage, PoolView
from springtide.scheduler.wording import gpus


def unmatched_gpus(state: Path) -> Iterator[Finding]:
    """Check that all that runs is on GPUs that have a place; nothing is said if the service does not answer."""
    pool = answer_of_service(state, "pool", PoolView)
    if pool is None:
        return
    for each in pool.unmatched:
        out = f" It keeps {gpus(len(each.gpus))} out of the pool until it has ended." if each.gpus else ""
        yield problem(
            "GPUs in use",
            f"{each.why}{out}",
            f"{each.change} On the page of the pool, or: springtide free {each.holder} --end",
        )
    if not pool.unmatched:
        yield ok("GPUs in use", "All that runs is on GPUs that have a place in the pool.")


def usage_records(state: Path) -> Iterator[Finding]:
    """Check that the use of GPUs is recorded; nothing is said if the service does not answer."""
    usage = answer_of_service(state, "pool/gpus", PoolUsage)
    if usage is None or not usage.measured:
        return
    if usage.unrecorded:
        yield problem(
            "usage records",
            f"The use of GPUs is not recorded: {usage.unrecorded}",
            "Correct what it says. Jobs are not affected; what was not recorded is missing in reports.",
        )
    else:
        yield ok("usage records", "The use of GPUs is recorded.")
