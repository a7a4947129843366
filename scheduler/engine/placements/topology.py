"""How the workers of a job sit in the topology."""

from __future__ import annotations

from collections.abc import Iterable

from springtide.scheduler.model import WITHIN_NODES, Node, Placement, Spread
from springtide.scheduler.policy.placement.gang_placement import by_tightness
from springtide.scheduler.policy.state.nodes import NODE


class Topology:
    """The nodes by name, and the levels above them."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        domains: dict[str, set[str]] = {}
        for node in self._nodes.values():
            for level, domain in node.labels.items():
                domains.setdefault(level, set()).add(domain)
        self._levels = by_tightness(domains)

    def spread(self, placement: Placement) -> Spread | None:
        """How these workers sit; None if a node is not known."""
        names = {worker.node for worker in placement}
        if not names or not names <= self._nodes.keys():
            return None
        if len(names) == 1:
            gpus = {gpu for worker in placement for gpu in worker.gpus}
            node = self._nodes[names.pop()]
            levels = (level for level in WITHIN_NODES if any(gpus.issubset(group) for group in node.groups(level)))
            return Spread(next(levels, NODE), 1)
        for level in self._levels:
            domains = {self._nodes[name].labels.get(level) for name in names}
            if len(domains) == 1 and None not in domains:
                return Spread(level, len(names))
        return Spread("", len(names))
