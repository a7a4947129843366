"""Conditions that let waiting jobs start, computed in the background and valid until the next change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import structs

from springtide.scheduler import sentences, wire
from springtide.scheduler.engine.state.journal import JournaledPlanner
from springtide.scheduler.engine.state.restraints import limited
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.views.prospects import changes_now
from springtide.scheduler.model import Amount, Reason, StartsIf
from springtide.scheduler.sentences import Sentence

Sees: TypeAlias = Callable[[str, str], bool]
"""Whether a reader may see jobs of a user in a project."""


class Diagnoses:
    """Conditions that let jobs start, by job. Each change sent to the planner clears them."""

    def __init__(self, planner: JournaledPlanner) -> None:
        self._planner = planner
        self._found: dict[str, StartsIf] = {}
        self._version = planner.version

    def of(self, job_id: str) -> StartsIf | None:
        """Return what lets the job start in the present pool; None if that is not known."""
        return self._found.get(job_id) if self._version == self._planner.version else None

    def store(self, found: Mapping[str, StartsIf], version: int) -> set[str]:
        """Keep the diagnoses of a version of the planner, if it is the present one; return the changed jobs."""
        if version != self._planner.version:
            return set()
        if version != self._version:
            self._found, self._version = {}, version
        new = {job_id for job_id, each in found.items() if self._found.get(job_id) != each}
        self._found.update(found)
        return new


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The view of what lets a job start, the sentences about it, and the projects of the jobs that they name."""

    alternatives: list[wire.Alternative]
    impossible: bool
    sentences: tuple[Sentence, ...]
    projects: frozenset[str] = frozenset()


def _plain(amounts: Mapping[str, Amount]) -> dict[str, int | dict[str, int | None] | None]:
    return {name: dict(amount) if isinstance(amount, Mapping) else amount for name, amount in amounts.items()}


def diagnosed(found: StartsIf, state: State, why: Reason | None, sees: Sees) -> Diagnosed:
    """Return the view of what lets a job start in the pool of ``state``; ``why`` is why it waits there.

    It names the jobs that the reader ``sees``. No other limit lets a project run more that is over its budget.
    """
    found = changes_now(found, why)
    amounts = {name: (project.quota, project.limit) for name, project in state.present_projects().items()}

    def named(job_id: str) -> tuple[str, str]:
        job = state.jobs.get(job_id)
        if job is None:
            return job_id, ""
        return (job.spec.name or job_id) if sees(job.spec.user, job.spec.project) else "", job.spec.project

    over = limited(state.budgets)
    possible = tuple(each for each in found.alternatives if not over & each.limit.keys())
    if len(possible) < len(found.alternatives):
        found = structs.replace(found, alternatives=possible, impossible=False)
    alternatives = [
        wire.Alternative(
            remove_jobs=[job_id for job_id in each.remove_jobs if named(job_id)[0]],
            quota=_plain(each.quota),
            limit=_plain(each.limit),
            add_nodes=each.add_nodes,
            text=f"It could start {sentences.alternative_words(each, named, amounts)}.",
        )
        for each in found.alternatives
    ]
    removed = (named(job_id) for each in found.alternatives for job_id in each.remove_jobs)
    return Diagnosed(
        alternatives,
        found.impossible,
        sentences.starts_if_sentences(found, named, amounts),
        frozenset(project for name, project in removed if name),
    )
