"""Views of the pool by caller: all callers see who holds each GPU, permitted callers also the names of jobs."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from springtide.hub_extension.api import permissions
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.wire import GpuCell, Holder, NodeView, PoolView


def pool_for(caller: Caller, view: PoolView) -> PoolView:
    """Return the pool without the names that the caller may not see."""
    if permissions.visible_projects(caller) is None:
        return view
    return replace(view, nodes=[_node(caller, node) for node in view.nodes])


def pool_data_for(caller: Caller, data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a ``pool`` event without the names that the caller may not see."""
    if permissions.visible_projects(caller) is None:
        return data
    seen: dict[tuple[str, str], bool] = {}
    nodes = [{**node, "gpus": [_cell_data(caller, cell, seen) for cell in node["gpus"]]} for node in data["nodes"]]
    return {**data, "nodes": nodes}


def _node(caller: Caller, node: NodeView) -> NodeView:
    return replace(node, gpus=[_cell(caller, cell) for cell in node.gpus])


def _cell(caller: Caller, cell: GpuCell) -> GpuCell:
    holder = cell.holder
    if holder is None or _seen(caller, holder.user, holder.project):
        return cell
    return replace(cell, holder=replace(holder, job="", name=""))


def _cell_data(caller: Caller, cell: dict[str, Any], seen: dict[tuple[str, str], bool]) -> dict[str, Any]:
    """Return the data of a GPU; ``seen`` keeps what the caller may see by user and project."""
    holder = cell.get("holder")
    if holder is None:
        return cell
    whose = holder.get("user", ""), holder.get("project", "")
    if whose not in seen:
        seen[whose] = _seen(caller, *whose)
    return cell if seen[whose] else {**cell, "holder": {**holder, "job": "", "name": ""}}


def _seen(caller: Caller, user: str, project: str) -> bool:
    return permissions.may_see_holder(caller, Holder(kind="", user=user, project=project))
