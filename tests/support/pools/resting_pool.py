"""Small pools at rest, and the reasons of their jobs, for tests of the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from springtide.scheduler import sentences
from springtide.scheduler.scenario.read import checked
from springtide.scheduler.simulate import Rest, opening, settle


def at_rest(jobs: Sequence[dict[str, Any]], nodes: Sequence[dict[str, Any]], quotas: Mapping[str, int]) -> Rest:
    """Return where a pool comes to rest; without ``quotas`` the one project ``p`` has all GPUs.

    ``jobs`` and ``nodes`` are those of a scenario file; the jobs are submitted in their order, by ``p`` if they
    name no project.
    """
    of_projects = quotas or {"p": sum(node["gpus"] for node in nodes)}
    pool = {
        "nodes": list(nodes),
        "projects": [{"name": name, "quota": quota} for name, quota in of_projects.items()],
        "jobs": [{"project": "p", "submitted": at, **job} for at, job in enumerate(jobs)],
    }
    found = settle(opening(checked(pool, "pool")))
    assert found.stable
    return found


def nodes_of_jobs(found: Rest) -> dict[str, list[str]]:
    """Return the node of each worker, by the job's id."""
    return {job.id: [worker.node for worker in job.placement] for job in found.jobs.values()}


def told(found: Rest, job: str) -> str:
    """Return why a job waits or runs, in words."""
    return sentences.text(found.planner.reason(job, found.now))
