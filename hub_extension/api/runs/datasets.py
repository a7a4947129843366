"""The call that lists datasets."""

from __future__ import annotations

from springtide.hub_extension.api.permissions import Action, may
from springtide.hub_extension.api.routes import Call, Pool, Who, route
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.engine.requests.datasets import datasets_of
from springtide.scheduler.wire import DatasetList, DatasetView


def usable(pool: Pool, caller: Caller) -> list[DatasetView]:
    """Return the datasets that jobs of the caller may use, by name."""
    parents = pool.engine.project_parents()
    own = [name for name in parents if may(caller, Action.SUBMIT, name)]
    found = datasets_of(own, parents, pool.engine.settings.datasets)
    return [DatasetView(name=each.name, path=each.place, projects=mine) for each, mine in found.values()]


@route("GET", "/datasets", Who.LOGGED_IN)
async def datasets(call: Call) -> DatasetList:
    """Return the datasets that the caller may use."""
    return DatasetList(items=usable(call.pool, call.caller))
