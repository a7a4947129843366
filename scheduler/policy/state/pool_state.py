"""The whole pool: one `ClusterState` for each GPU type, and the jobs that each of them has to know."""

from __future__ import annotations

from collections.abc import Iterable

from springtide.scheduler.gpu_types import accepted_types, pool_types, project_of_type
from springtide.scheduler.model import Job, Node, Phase, Placement, Project, Settings
from springtide.scheduler.policy.state.cluster_state import ClusterState


class PoolState:
    """The nodes, projects and jobs of a pool, by GPU type.

    A job that holds or awaits GPUs belongs to their type; one that waits belongs to each type that it accepts.
    ``unplaceable`` has no nodes, and the jobs that accept no type of the pool.
    """

    def __init__(
        self, nodes: Iterable[Node], projects: Iterable[Project], jobs: Iterable[Job], settings: Settings
    ) -> None:
        self.nodes = tuple(nodes)
        self.projects = tuple(projects)
        self.settings = settings
        self.types = pool_types(self.nodes, settings.gpu_types)
        self.jobs = {job.id: job for job in jobs}
        self._type_of = {node.name: node.gpu_type for node in self.nodes}
        self._places: dict[str, tuple[str, ...]] = {job.id: self._belongs(job) for job in self.jobs.values()}
        self.by_type = {each: self._state(each) for each in self.types}
        self.unplaceable = ClusterState((), self.projects, self._jobs_of(None), settings)

    @property
    def states(self) -> tuple[ClusterState, ...]:
        """The state of each type, in the pool's order, and that of the jobs that fit nowhere."""
        return (*self.by_type.values(), self.unplaceable)

    def upsert_job(self, job: Job) -> None:
        """Add a job, or replace it."""
        places = self._belongs(job)
        before = self._places.get(job.id)
        if before is not None and before != places:
            self.remove_job(job.id)
        self.jobs[job.id] = job
        self._places[job.id] = places
        for state in self._states_at(places):
            state.upsert_job(job)

    def remove_job(self, job_id: str) -> None:
        """Remove a job, if it is known."""
        if self.jobs.pop(job_id, None) is not None:
            for state in self._states_at(self._places.pop(job_id)):
                state.remove_job(job_id)

    def home(self, job: Job) -> ClusterState:
        """Return the state of the type of the job's GPUs, or of the first type that it accepts."""
        return self._states_at(self._places[job.id])[0]

    def _state(self, gpu_type: str) -> ClusterState:
        nodes = (node for node in self.nodes if node.gpu_type == gpu_type)
        projects = (project_of_type(project, gpu_type, self.types) for project in self.projects)
        jobs = self._jobs_of(gpu_type)
        return ClusterState(nodes, projects, jobs, self.settings, gpu_type=gpu_type, types=self.types)

    def _jobs_of(self, gpu_type: str | None) -> Iterable[Job]:
        """Return the jobs that belong to a type; None for those that belong to none."""
        for job_id, places in self._places.items():
            if gpu_type in places or (gpu_type is None and not places):
                yield self.jobs[job_id]

    def _belongs(self, job: Job) -> tuple[str, ...]:
        """Return the types that the job belongs to, in its order."""
        if len(self.types) == 1 and not job.gpu_types:
            return self.types
        here = self._type_here(job.placement) or self._type_here(job.reserved)
        if here is not None:
            return (here,)
        accepted = accepted_types(job.gpu_types, self.types)
        if job.phase is Phase.WAITING and not job.reserved:
            return accepted
        return accepted[:1] or (self.types[:1] if job.placement else ())

    def _type_here(self, placement: Placement) -> str | None:
        return next((self._type_of[worker.node] for worker in placement if worker.node in self._type_of), None)

    def _states_at(self, places: tuple[str, ...]) -> list[ClusterState]:
        return [self.by_type[each] for each in places] or [self.unplaceable]
