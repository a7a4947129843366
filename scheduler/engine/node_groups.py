"""Requests to the cluster for the nodes that waiting jobs would use."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from springtide.scheduler import wire
from springtide.scheduler.engine.settings import Stats
from springtide.scheduler.engine.state.journal import JournaledPlanner
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.executors.base import Executor, NodeGroup, NodeRequest
from springtide.scheduler.model import Job, Move, Node, Phase, Reason, Reserve, Snapshot, Start
from springtide.scheduler.policy.memo import NoMemo
from springtide.scheduler.policy.planner import Planner

logger = logging.getLogger(__name__)
INTERVAL = 1.0
"""Interval at which requests are compared with the demand, in seconds."""
WINDOW = 5.0
"""Time for which a changed demand has to last before the cluster is asked for it, in seconds."""
REST = 10
"""Pause after a computation of the demand, as a multiple of its duration."""
LATE = 900.0
"""Time after which a requested node is called late, in seconds."""
OWN_REASONS = frozenset({"awaits-pause", "next", "back-off", "held", "limit-held", "bound", "unknown-project"})
"""Codes of reasons that hold whether a node is awaited or not."""
FULL_REASONS = frozenset(
    {
        "too-large",
        "per-gpu-too-large",
        "no-rdma",
        "gang-too-large",
        "no-level",
        "domain-too-small",
        "no-room",
        "share-used",
        "too-soon",
    }
)
"""Codes of reasons that more nodes could end."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The number of additional nodes of each group that the plan would use, and the group for each waiting job."""

    nodes: Mapping[str, int] = field(default_factory=dict)
    jobs: Mapping[str, str] = field(default_factory=dict)


def demand(snapshot: Snapshot, addable: tuple[Node, ...]) -> Demand:
    """Return what the plan would use of nodes that are not there but could be."""
    waiting = {job.id for job in snapshot.jobs if job.phase is Phase.WAITING}
    if not addable or not waiting:
        return Demand()
    group_of = {node.name: node.group for node in addable}
    jobs = tuple(map(_at_least, snapshot.jobs))
    plan = Planner(replace(snapshot, nodes=(*snapshot.nodes, *addable), jobs=jobs), NoMemo).plan(snapshot.now)
    used: set[str] = set()
    served: dict[str, str] = {}
    for decision in plan.decisions:
        if isinstance(decision, Start | Move | Reserve):
            nodes = [worker.node for worker in decision.placement if worker.node in group_of]
            used.update(nodes)
            if nodes and decision.job in waiting:
                served[decision.job] = group_of[nodes[0]]
    return Demand(Counter(group_of[name] for name in used), served)


def _at_least(job: Job) -> Job:
    """Return the job with the workers that it needs to run: for more of them no node is asked for."""
    return structs.replace(job, workers=max(job.min_workers, len(job.placement)))


@dataclass(frozen=True, slots=True)
class _Observed:
    at: float
    size: int
    more: int


class SteadyRequest:
    """A request for nodes of one group that follows the demand only once that is stable.

    The group's target size rises to the least, and falls to the most, demanded in the last ``window`` seconds: a
    job that waits for a moment between two plans requests no node, and one that starts late takes no request back.
    A node that joins leaves the request at once; one that leaves is requested again only while a job waits. Before
    ``window`` seconds have passed, the previous request for ``asked`` nodes stays.
    """

    def __init__(self, present: int, asked: int, window: float) -> None:
        self._size = present + asked
        self._most = asked
        self._window = window
        self._seen: deque[_Observed] = deque()
        self._began: float | None = None

    def follow(self, present: int, more: int, now: float) -> int:
        """Return the number of nodes to request, given a demand for ``more`` beside the ``present`` ones.

        ``now`` is in seconds and never goes back.
        """
        self._began = now if self._began is None else self._began
        self._seen.append(_Observed(now, present + more, more))
        while len(self._seen) > 1 and self._seen[1].at <= now - self._window:
            self._seen.popleft()
        if now - self._began >= self._window:
            sizes = [each.size for each in self._seen]
            self._size = min(max(self._size, min(sizes)), max(sizes))
            self._most = max(each.more for each in self._seen)
        return max(0, min(self._size - present, self._most))


@dataclass(frozen=True, slots=True)
class _Basis:
    """The inputs of a demand: equal ones give the same demand."""

    plans: int
    nodes: Sequence[object]
    drains: frozenset[str]
    groups: Sequence[NodeGroup]


class NodeRequests:
    """The requested nodes, and why: run by `run` if the executor has node groups.

    ``clock`` is the wall clock.
    """

    def __init__(
        self,
        executor: Executor,
        state: State,
        nodes: ObservedNodes,
        planner: JournaledPlanner,
        *,
        stats: Stats,
        clock: Callable[[], float],
    ) -> None:
        self._executor = executor
        self._state = state
        self._nodes = nodes
        self._planner = planner
        self._stats = stats
        self._clock = clock
        self._demand = Demand()
        self._basis: _Basis | None = None
        self._steady: dict[str, SteadyRequest] = {}
        self._requests: Mapping[str, NodeRequest] = {}

    # ---------- requests

    async def run(self, publish_jobs: Callable[[list[str]], None], publish_pool: Callable[[], None]) -> None:
        """Request the nodes in demand, until cancelled."""
        while self._nodes.groups:
            began = asyncio.get_running_loop().time()
            try:
                before, groups = self._published(), self.views()
                await self._ask()
                after = self._published()
                publish_jobs([job for job in {**before, **after} if before.get(job) != after.get(job)])
                if groups != self.views():
                    publish_pool()
            except Exception:
                logger.exception("The nodes that jobs wait for could not be asked for.")
            took = asyncio.get_running_loop().time() - began
            await asyncio.sleep(max(INTERVAL, REST * took))

    async def _ask(self) -> None:
        self._nodes.groups = await self._executor.node_groups()
        if not self._steady:
            self._requests = await self._executor.request_nodes(None)
            self._steady = {
                each.name: SteadyRequest(self._present(each), self._asked(each.name), WINDOW)
                for each in self._nodes.groups
            }
        await self._update_demand()
        now, numbers = asyncio.get_running_loop().time(), {}
        for group in self._nodes.groups:
            present, more = self._present(group), self._demand.nodes.get(group.name, 0)
            asked = self._steady[group.name].follow(present, more, now)
            numbers[group.name] = max(0, min(asked, group.most - group.closed - present))
        self._requests = await self._executor.request_nodes(numbers)

    async def _update_demand(self) -> None:
        """Compute the demand, unless nothing was planned since; in a thread, as it takes as long as a plan."""
        state, nodes = self._state, self._nodes
        basis = _Basis(self._stats.plans, nodes.all, frozenset(state.drains), nodes.groups)
        if self._basis is not None and basis == self._basis:
            return
        snapshot = self._planner.snapshot(self._clock())
        if any(job.phase is Phase.WAITING for job in snapshot.jobs):
            snapshot = replace(snapshot, settings=replace(snapshot.settings, gpu_types=state.types.train))
            self._demand = await asyncio.to_thread(demand, snapshot, nodes.addable(state.drained))
        else:
            self._demand = Demand()
        self._basis = basis

    def _present(self, group: NodeGroup) -> int:
        return self._nodes.present(group, self._state.drained)

    def _asked(self, group: str) -> int:
        return len(self._requests.get(group, NodeRequest()).since)

    # ---------- views

    def reason(self, job_id: str, why: Reason) -> Reason:
        """Return why a job waits, given why it cannot start on the nodes that are there."""
        group = self._group(self._demand.jobs.get(job_id, ""))
        if group is None or why.code in OWN_REASONS:
            full = self._full(job_id) if why.code in FULL_REASONS else ()
            return replace(why, params={**why.params, "full_groups": full}) if full else why
        job, request = self._planner.job(job_id), self._requests.get(group.name, NodeRequest())
        since = min(request.since, default=None)
        seconds = 0.0 if since is None else max(0.0, self._clock() - since)
        return Reason(
            "awaits-node",
            {
                "gpus": 0 if job is None else job.gpus,
                "workers": 0 if job is None else job.min_workers,
                "gpu_types": () if job is None else tuple(job.gpu_types),
                "group": group.name,
                "asked": len(request.since),
                "present": self._present(group) + group.closed,
                "most": group.most,
                "since": since,
                "seconds": seconds,
                "late": int(seconds >= LATE),
                "error": request.error,
            },
        )

    def awaits_node(self, job_id: str) -> bool:
        """Return whether a job waits for a node that is not there."""
        return job_id in self._demand.jobs

    def _full(self, job_id: str) -> tuple[str, ...]:
        """Return the groups that could hold a worker of the job, and have or await as many nodes as they may."""
        job = self._planner.job(job_id)
        return tuple(
            group.name
            for group in self._nodes.groups
            if job is not None
            and job.gpus <= group.node.gpus
            and (not job.gpu_types or group.node.gpu_type in job.gpu_types)
            and group.node.per_gpu.holds(job.per_gpu)
            and self._present(group) + group.closed + self._asked(group.name) >= group.most
        )

    def _published(self) -> dict[str, object]:
        """Return, by job that waits for a node, the facts whose changes are published."""
        late = self._clock() - LATE
        return {
            job_id: (group, len(request.since), min(request.since, default=late + 1) <= late, request.error)
            for job_id, group in self._demand.jobs.items()
            for request in (self._requests.get(group, NodeRequest()),)
        }

    def _group(self, name: str) -> NodeGroup | None:
        return next((each for each in self._nodes.groups if each.name == name), None)

    def views(self) -> list[wire.NodeGroupView]:
        """Return the view of each group."""
        return [
            wire.NodeGroupView(
                name=group.name,
                gpu_type=group.node.gpu_type,
                gpus=group.node.gpus,
                nodes=sum(node.group == group.name for node in self._nodes.all),
                asked=self._asked(group.name),
                most=group.most,
                since=min(self._requests.get(group.name, NodeRequest()).since, default=None),
                error=self._requests.get(group.name, NodeRequest()).error,
            )
            for group in self._nodes.groups
        ]
