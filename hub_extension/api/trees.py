"""Calls about project trees: what a submission's job has a copy of is sent once, and named by its digest then."""

from __future__ import annotations

from springtide.hub_extension.api.jobs import hold_intake, take
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.project_tree import MOST_PACKED
from springtide.scheduler.wire import SentTree
from springtide.scheduler.wire.trees import Digest


@route("GET", "/trees/{digest}", Who.LOGGED_IN, jobs=True)
async def get_tree(call: Call, digest: Digest) -> SentTree:
    """Say that the pool has this project tree of yours."""
    return await call.pool.engine.tree(call.caller.name, digest)


@route("PUT", "/trees/{digest}", Who.LOGGED_IN, most=MOST_PACKED, jobs=True)
async def put_tree(call: Call, digest: Digest, body: bytes) -> SentTree:
    """Keep a packed project tree for the jobs that you submit next."""
    with hold_intake(call.pool):
        take(
            call.pool.uploads,
            call.caller,
            "You send files faster than this pool takes them of one person.",
            len(body),
        )
        return await call.pool.engine.send_tree(call.caller.name, digest, body)
