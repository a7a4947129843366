"""The addresses of a job in trackers."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from springtide.hub_extension.api.jobs import seen
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.hub_extension.tracking.tracker import NotTakenError, Tracker, TrackerDownError
from springtide.scheduler.wire import Job, TrackerLink, TrackerLinks

log = logging.getLogger("springtide")

PATIENCE_S: Final = 3.0
"""Maximum time that an answer waits for trackers, in seconds."""


@route("GET", "/jobs/{id}/tracking", Who.LOGGED_IN)
async def tracking(call: Call, id: str) -> TrackerLinks:
    """Return the addresses of a job in trackers, such as MLflow and TensorBoard, that know it and answer."""
    job = await seen(call, id)
    return TrackerLinks(items=await asyncio.gather(*(_link(tracker, job) for tracker in call.pool.trackers)))


async def _link(tracker: Tracker, job: Job) -> TrackerLink:
    address = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            address = await tracker.address(job)
    except (TrackerDownError, NotTakenError, TimeoutError) as error:
        log.info("%s does not tell where it shows job %s: %s", tracker.name, job.id, error)
    return TrackerLink(name=tracker.name, url=address)
