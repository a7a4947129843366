"""The input of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from springtide.scheduler.model import Job, Node, Order, Project, Settings, Surplus
from springtide.scheduler.scenario import Scenario
from springtide.scheduler.scenario.past import Circumstances
from springtide.scheduler.scenario.shape import ChangePart, SettingsPart


@dataclass(frozen=True, slots=True)
class Load:
    """The input of a simulation: jobs with their run times in seconds, nodes, and the projects that share them.

    ``gpu_types`` is the pool's order of GPU types; ``surplus`` is the rule for GPUs that quotas leave. ``span`` is
    when it begins and ends, ``changes`` those of the pool, ``circumstances`` those of jobs that have some.
    """

    nodes: tuple[Node, ...]
    projects: tuple[Project, ...]
    jobs: tuple[tuple[Job, float], ...]
    gpu_types: tuple[str, ...] = ()
    surplus: Surplus = Surplus.FAIR
    span: tuple[float, float] | None = None
    changes: tuple[ChangePart, ...] = ()
    circumstances: Mapping[str, Circumstances] = field(default_factory=dict)

    @property
    def begins(self) -> float:
        """When the simulation begins."""
        return min((job.submitted for job, _ in self.jobs), default=0.0) if self.span is None else self.span[0]


def load_of(scenario: Scenario) -> Load:
    """Return the jobs of a scenario with their durations. Raises `KeyError` with the id of a job without one."""
    return Load(
        scenario.nodes,
        scenario.projects,
        tuple((job, scenario.durations[job.id]) for job in scenario.jobs),
        scenario.gpu_types,
        scenario.surplus,
        scenario.span,
        scenario.changes,
        scenario.circumstances,
    )


def settings_of(
    load: Load,
    given: SettingsPart,
    *,
    order: Order | None = None,
    surplus: Surplus | None = None,
    min_runtime: float | None = None,
) -> Settings:
    """Return the settings of a simulation: those given, else those of the scenario, else the usual ones."""
    usual = Settings()
    return Settings(
        order=order or given.order or usual.order,
        min_runtime=_first(min_runtime, given.min_runtime, usual.min_runtime),
        surplus=surplus or load.surplus,
        gpu_types=load.gpu_types,
        use_half_life=_first(given.use_half_life, usual.use_half_life),
    )


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
