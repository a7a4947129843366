"""The pool by caller: all callers see who holds each GPU, permitted callers also the names of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from springtide.hub_extension.api import permissions
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.wire import GpuCell, NodeView

Whose: TypeAlias = tuple[str, str]
"""User and project of what holds a GPU; a notebook's project is empty."""


class _Node:
    """A node, whose GPUs it shows, and its encodings by which of these a caller sees."""

    def __init__(self, view: NodeView) -> None:
        self.view = view
        holders = (cell.holder for cell in view.gpus)
        self.whose = frozenset((holder.user, holder.project) for holder in holders if holder is not None)
        self._encoded: dict[frozenset[Whose], msgspec.Raw] = {}

    def encoded(self, seen: frozenset[Whose]) -> msgspec.Raw:
        """Return the node as JSON without the names outside ``seen``."""
        found = self._encoded.get(seen)
        if found is None:
            view = replace(self.view, gpus=[_cell(cell, seen) for cell in self.view.gpus])
            found = self._encoded[seen] = msgspec.Raw(msgspec.json.encode(view))
        return found


class NodeEncoder:
    """Encoder of nodes for many callers.

    A node is encoded once for all callers who see the same of it, and again when it has changed.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self.encoded = 0

    def pool(self, caller: Caller, view: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a pool without what the caller may not see."""
        unmatched = view["unmatched"] if permissions.may_see_unmatched(caller) else []
        return {**view, "nodes": self.nodes(caller, view["nodes"]), "unmatched": unmatched}

    def nodes(self, caller: Caller, views: Sequence[NodeView]) -> list[msgspec.Raw]:
        """Return the nodes as JSON, without the names that the caller may not see."""
        known = self._known(views)
        if permissions.visible_projects(caller) is None:
            return [node.encoded(node.whose) for node in known]
        whose = frozenset[Whose]().union(*(node.whose for node in known))
        seen = frozenset(each for each in whose if permissions.may_see_of(caller, *each))
        return [node.encoded(node.whose & seen) for node in known]

    def projects_by_user(self, views: Sequence[NodeView]) -> dict[str, frozenset[str]]:
        """Return the projects in which each user holds GPUs."""
        found: dict[str, set[str]] = {}
        for user, project in frozenset[Whose]().union(*(node.whose for node in self._known(views))):
            found.setdefault(user, set()).add(project)
        return {user: frozenset(projects) for user, projects in found.items()}

    def _known(self, views: Sequence[NodeView]) -> list[_Node]:
        """Return the cached views of these nodes; those of other nodes are dropped."""
        known = {}
        for view in views:
            node = self._nodes.get(view.name)
            if node is None or node.view is not view:
                node = _Node(view)
                self.encoded += 1
            known[view.name] = node
        self._nodes = known
        return list(known.values())


def _cell(cell: GpuCell, seen: frozenset[Whose]) -> GpuCell:
    holder = cell.holder
    if holder is None or (holder.user, holder.project) in seen:
        return cell
    return replace(cell, holder=replace(holder, job="", sweep="", name=""))
