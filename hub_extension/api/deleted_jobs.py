"""Refusals for jobs that were deleted, also in the middle of a call: they say by whom and when."""

from __future__ import annotations

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.permissions import Action
from springtide.hub_extension.api.routes import Pool
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.refusal import UNKNOWN, Refusal, deleted_job
from springtide.scheduler.wording import ago


async def explained(refusal: Refusal, pool: Pool, caller: Caller, job_id: str) -> Refusal:
    """Return the refusal of a call about a job; for one that was deleted, by whom and when.

    Only those who could see the job read that.
    """
    if refusal.code != UNKNOWN or (entry := await pool.engine.deletions.entry(job_id)) is None:
        return refusal
    if not permissions.may(caller, Action.SEE, entry.project, entry.before["user"]):
        return refusal
    return deleted_job(job_id, entry.before["name"], entry.who, ago(entry.at, pool.clock()))
