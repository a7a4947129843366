"""The names of jobs in answers and events, by caller, who sees as many as on the page *Pool*."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from springtide.hub_extension.api import permissions
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.wire import Comparison, Job, JobPage, JobsActed
from springtide.scheduler.wire.jobs import NAMED


def answer_for(answer: Any, caller: Caller | None) -> Any:
    """Return an answer with the names of other jobs that the caller may see; without a caller, with none."""
    if caller is None:
        return answer
    if isinstance(answer, Job):
        return _job_for(answer, caller)
    if isinstance(answer, JobPage):
        return replace(answer, items=[_job_for(job, caller) for job in answer.items])
    if isinstance(answer, Comparison):
        return replace(answer, jobs=[_job_for(job, caller) for job in answer.jobs])
    if isinstance(answer, JobsActed):
        results = [
            each if each.job is None else replace(each, job=_job_for(each.job, caller)) for each in answer.results
        ]
        return replace(answer, results=results)
    return answer


def _job_for(job: Job, caller: Caller) -> Job:
    named = job.named
    return job if named is None or not permissions.may_see_jobs_of(caller, named.projects) else job.in_full()


def projects_named(data: Mapping[str, Any]) -> Collection[str]:
    """Return the other projects whose jobs the event of a job could name; empty if it names none."""
    projects: Collection[str] = data[NAMED]["projects"] if NAMED in data else ()
    return projects


def event_for(data: Mapping[str, Any], *, named: bool) -> Mapping[str, Any]:
    """Return the data of a job's event as it is sent: with the names of other jobs, or without."""
    if NAMED not in data:
        return data
    plain = {name: value for name, value in data.items() if name != NAMED}
    return {**plain, **data[NAMED]["fields"]} if named else plain
