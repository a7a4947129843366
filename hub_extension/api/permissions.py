"""Who may do what to which object. All of it is here, and pure."""

from __future__ import annotations

from springtide.hub_extension.caller import Caller
from springtide.scheduler.wire import Holder, Job


def owns(caller: Caller, user: str) -> bool:
    """Whether the caller is that person; a service of the same name is not."""
    return not caller.service and caller.name == user


def may_see_of(caller: Caller, user: str, project: str) -> bool:
    """Whether the caller sees what is called by name: her own, her projects', for admins all."""
    return caller.admin or owns(caller, user) or project in caller.groups


def may_see_job(caller: Caller, job: Job) -> bool:
    """Whether the caller may see the job at all."""
    return may_see_of(caller, job.user, job.project)


def may_stop_job(caller: Caller, job: Job) -> bool:
    """Whether the caller may pause or cancel the job."""
    return caller.admin or owns(caller, job.user)


def may_resume_job(caller: Caller, job: Job) -> bool:
    """Whether the caller may let the job run again: its owner as long as she is in its project, or an admin."""
    return caller.admin or (owns(caller, job.user) and job.project in caller.groups)


def may_submit(caller: Caller, project: str) -> bool:
    """Whether the caller may run jobs on the project's account."""
    return not caller.spawner and (caller.admin or (not caller.service and project in caller.groups))


def may_administer(caller: Caller) -> bool:
    """Whether the caller may change projects, people and quotas."""
    return caller.admin


def may_reserve(caller: Caller) -> bool:
    """Whether the caller may reserve and release build GPUs."""
    return caller.spawner


def may_see_build_quota(caller: Caller, user: str) -> bool:
    """Whether the caller may ask what a person may still start."""
    return caller.spawner or caller.admin or owns(caller, user)


def may_see_holder(caller: Caller, holder: Holder) -> bool:
    """Whether the caller may know which job or notebook holds a GPU, beyond whose it is."""
    return may_see_of(caller, holder.user, holder.project)
