"""All permissions of callers on objects, as pure functions."""

from __future__ import annotations

from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.wire import Holder, Job


def owns(caller: Caller, user: str) -> bool:
    """Return whether the caller is the given person; a service of the same name is not."""
    return not caller.service and caller.name == user


def may_see_of(caller: Caller, user: str, project: str) -> bool:
    """Return whether the caller may see the names of a person's objects in a project.

    Callers may see those of their own and of their projects; admins may see all.
    """
    return caller.admin or owns(caller, user) or project in caller.groups


def may_see_job(caller: Caller, job: Job) -> bool:
    """Return whether the caller may see the job at all."""
    return may_see_of(caller, job.user, job.project)


def may_stop_job(caller: Caller, job: Job) -> bool:
    """Return whether the caller may pause or cancel the job."""
    return caller.admin or owns(caller, job.user)


def may_resume_job(caller: Caller, job: Job) -> bool:
    """Return whether the caller may resume the job: its owner while a member of its project, or an admin."""
    return caller.admin or (owns(caller, job.user) and job.project in caller.groups)


def may_submit(caller: Caller, project: str) -> bool:
    """Return whether the caller may submit jobs for the project."""
    return not caller.spawner and (caller.admin or (not caller.service and project in caller.groups))


def may_administer(caller: Caller) -> bool:
    """Return whether the caller may change projects, people and quotas."""
    return caller.admin


def may_reserve(caller: Caller) -> bool:
    """Return whether the caller may reserve and release build GPUs."""
    return caller.spawner


def may_see_build_quota(caller: Caller, user: str) -> bool:
    """Return whether the caller may read a person's build quota and its use."""
    return caller.spawner or caller.admin or owns(caller, user)


def may_see_holder(caller: Caller, holder: Holder) -> bool:
    """Return whether the caller may see which job or notebook holds a GPU, in addition to its user and project."""
    return may_see_of(caller, holder.user, holder.project)
