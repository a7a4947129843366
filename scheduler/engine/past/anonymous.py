"""Scenarios without the names of people and their things; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from string import ascii_lowercase

from msgspec import structs

from springtide.scheduler.history.run_times import name_without_digits
from springtide.scheduler.scenario.shape import ChangePart, Document, JobPart, NodePart


def anonymous(document: Document, *, known: Collection[str] = ()) -> Document:
    """Return the scenario with made-up names of people and jobs, and of projects that are not ``known``.

    Jobs of one kind keep names of one kind. Without ``known`` projects nodes and their labels get such names, too.
    """
    projects = _numbered("project", (part.name for part in document.projects), known)
    people = _numbered("person", (job.user for job in document.jobs if job.project not in known))
    names = [part.name for part in document.nodes]
    machines = _numbered("node", names, names if known else ())
    kinds: dict[tuple[str, str], str] = {}

    def job_of(number: int, job: JobPart) -> JobPart:
        placed = tuple(None if name is None else machines[name] for name in job.placed)
        if job.project in known:
            return structs.replace(job, placed=placed)
        kind = kinds.setdefault((job.user, name_without_digits(job.name)), f"job-{_letters(len(kinds))}")
        own = {"name": f"{kind} {number}", "user": people[job.user], "project": projects[job.project]}
        return structs.replace(job, placed=placed, **own)

    return structs.replace(
        document,
        nodes=_nodes_of(document, machines, plain=bool(known)),
        projects=[
            structs.replace(
                part, name=projects[part.name], parent=None if part.parent is None else projects[part.parent]
            )
            for part in document.projects
        ],
        jobs=[job_of(number, job) for number, job in enumerate(document.jobs, 1)],
        changes=[_change_of(change, projects, machines) for change in document.changes],
    )


def _nodes_of(document: Document, machines: dict[str, str], *, plain: bool) -> list[NodePart]:
    values: dict[tuple[str, str], str] = {}

    def labels_of(part: NodePart) -> dict[str, str]:
        return {
            key: values.setdefault((key, value), f"value-{len(values) + 1}") for key, value in part.labels.items()
        }

    return [
        structs.replace(part, name=machines[part.name], labels=part.labels if plain else labels_of(part))
        for part in document.nodes
    ]


def _change_of(change: ChangePart, projects: dict[str, str], machines: dict[str, str]) -> ChangePart:
    return structs.replace(
        change,
        quota={projects[name]: amount for name, amount in change.quota.items()},
        limit={projects[name]: amount for name, amount in change.limit.items()},
        gpus={machines[name]: number for name, number in change.gpus.items()},
        available={machines[name]: available for name, available in change.available.items()},
        taken={machines[name]: indices for name, indices in change.taken.items()},
        empties=tuple(machines[name] for name in change.empties),
    )


def _numbered(word: str, names: Iterable[str], known: Collection[str] = ()) -> dict[str, str]:
    """Return a made-up name for each that is not ``known``, none of which begins like one of those."""
    while any(name.startswith(word) for name in known):
        word = f"other-{word}"
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(name, name if name in known else f"{word}-{len(found) + 1}")
    return found


def _letters(number: int) -> str:
    """Return a word of letters for a number: a, b, …, z, aa, ab."""
    word = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, len(ascii_lowercase))
        word = ascii_lowercase[letter] + word
    return word
