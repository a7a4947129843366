"""Speeds by placement, learned from ended jobs, and comparisons for the engine."""

from __future__ import annotations

from springtide.scheduler.engine.placements.slow import (
    Known,
    NodeSpeeds,
    SlowPlacement,
    fastest_spread,
    slow_by_other_works,
    slow_by_same_work,
    untried_spread,
)
from springtide.scheduler.engine.placements.speed import Placed, Topology, speed_of, work_of
from springtide.scheduler.engine.placements.statistics import Measured, PlacementStats
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.model import Node, Spread
from springtide.scheduler.store.records import AttemptRecord, JobRecord, JobSpec


class Placements:
    """Learns how fast attempts were where they were placed, and compares; ``nodes`` are the nodes as observed.

    With ``explores`` jobs are placed by a spread that is rarely known, until it can be compared. ``node_speeds``
    compares nodes, by jobs that end while the service runs.
    """

    def __init__(
        self, nodes: ObservedNodes, *, explores: bool = False, node_speeds: NodeSpeeds | None = None
    ) -> None:
        self.stats = PlacementStats()
        self.node_speeds = node_speeds or NodeSpeeds(None)
        self._nodes = nodes
        self._explores = explores
        self._topology: tuple[tuple[Node, ...], Topology] | None = None

    def learn(self, job: JobRecord) -> None:
        """Add the attempts of an ended job, as far as their nodes are still there."""
        for attempt in job.attempts:
            speed = speed_of(job, attempt)
            placed = None if speed is None else self._placed(job.spec, attempt)
            if speed is not None and placed is not None:
                self.stats.add(work_of(job.spec), placed, speed)

    def compare_nodes(self, job: JobRecord) -> None:
        """Add the attempts of a newly ended job to the speeds of single nodes."""
        for attempt in job.attempts:
            speed = speed_of(job, attempt)
            node = None if speed is None else self._only_node(attempt)
            placed = None if node is None else self._placed(job.spec, attempt)
            if node is not None and speed is not None and placed is not None:
                model = node.devices[0].name if node.devices else ""
                key = (work_of(job.spec), Measured(placed, speed.measure), model)
                self.node_speeds.add(node.name, key, speed.per_second)

    def _only_node(self, attempt: AttemptRecord) -> Node | None:
        """Return the node of an attempt, None if it had several or the node is not there any more."""
        names = {worker.node for worker in attempt.placement}
        return next((node for node in self._nodes.all if node.name in names), None) if len(names) == 1 else None

    def slow(self, job: JobRecord) -> SlowPlacement | None:
        """Return that a running job would be faster with another spread; None if that is not known.

        Other runs of the same work show that, or all works of the pool if these have not had other spreads.
        """
        attempt = job.live
        if attempt is None or len(attempt.placement) * job.spec.options.gpus <= 1:
            return None
        placed = self._placed(job.spec, attempt)
        if placed is None:
            return None
        known = self.of_same_work(job.spec)
        found, decided = slow_by_same_work(known, placed, speed_of(job, attempt))
        if decided:
            return found
        return slow_by_other_works(self.stats.ratios(placed.gpu_type, placed.spread), placed)

    def preferred(self, job: JobSpec) -> Spread | None:
        """Return the spread that is preferred for a job, None if there is none.

        It is the one with which runs like it were notably faster, or one that is explored.
        """
        size, known = (job.workers, job.gpus), self.of_same_work(job)
        if job.workers * job.gpus <= 1:
            return None
        untried = untried_spread(known, size) if self._explores else None
        return fastest_spread(known, size) if untried is None else untried

    def of_same_work(self, job: JobSpec) -> Known:
        """Return how fast runs of the job's work were, by placement."""
        return self.stats.of_work(work_of(job))

    def _placed(self, job: JobSpec, attempt: AttemptRecord) -> Placed | None:
        """Return how an attempt was placed, None if it has no GPUs or its nodes are not there any more."""
        nodes = self._nodes.all
        if self._topology is None or self._topology[0] is not nodes:
            self._topology = (nodes, Topology(nodes))
        spread = self._topology[1].spread(attempt.placement)
        if spread is None or not job.gpus:
            return None
        return Placed(attempt.gpu_type, len(attempt.placement), job.gpus, spread)
