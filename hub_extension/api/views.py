"""Views of the pool by caller: all callers see who holds each GPU, permitted callers also the names of jobs."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from springtide.hub_extension.api import permissions
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.wire import GpuCell, Holder, NodeView, PoolView

Whose: TypeAlias = tuple[str, str]
"""User and project of what holds a GPU."""


def pool_for(caller: Caller, view: PoolView) -> PoolView:
    """Return the pool without the names that the caller may not see."""
    if permissions.visible_projects(caller) is None:
        return view
    sees = _Sees(caller)
    return replace(view, nodes=[_node(sees, node) for node in view.nodes])


class _Sees(dict[Whose, bool]):
    """Whether a caller sees which job or notebook of a user in a project holds a GPU; asked once for each."""

    def __init__(self, caller: Caller) -> None:
        super().__init__()
        self._caller = caller

    def __missing__(self, whose: Whose) -> bool:
        user, project = whose
        self[whose] = seen = permissions.may_see_holder(self._caller, Holder(kind="", user=user, project=project))
        return seen


def _node(sees: _Sees, node: NodeView) -> NodeView:
    return replace(node, gpus=[_cell(sees, cell) for cell in node.gpus])


def _cell(sees: _Sees, cell: GpuCell) -> GpuCell:
    holder = cell.holder
    if holder is None or sees[holder.user, holder.project]:
        return cell
    return replace(cell, holder=replace(holder, job="", name=""))


class PoolData:
    """The data of a ``pool`` event, for many callers: each GPU is encoded once with its names and once without."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._cells = [[_encoded(cell) for cell in node["gpus"]] for node in data["nodes"]]

    def for_caller(self, caller: Caller) -> dict[str, Any]:
        """Return the data without the names that the caller may not see."""
        if permissions.visible_projects(caller) is None:
            return self._data
        sees = _Sees(caller)
        nodes = [
            {**node, "gpus": [full if whose is None or sees[whose] else bare for whose, full, bare in cells]}
            for node, cells in zip(self._data["nodes"], self._cells, strict=True)
        ]
        return {**self._data, "nodes": nodes}


def _encoded(cell: dict[str, Any]) -> tuple[Whose | None, msgspec.Raw, msgspec.Raw]:
    holder = cell.get("holder")
    full = msgspec.Raw(msgspec.json.encode(cell))
    if holder is None:
        return None, full, full
    bare = msgspec.Raw(msgspec.json.encode({**cell, "holder": {**holder, "job": "", "name": ""}}))
    return (holder.get("user", ""), holder.get("project", "")), full, bare
