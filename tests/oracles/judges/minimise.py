"""The smallest failing part of a scenario: fewer jobs, projects and nodes, and plainer ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from judges.command import Document

OPTIONAL = ("placed", "priority", "weight", "limit", "min_workers", "preemptible", "gpu_types", "quota")


def minimised(scenario: Document, fails: Callable[[Document], bool]) -> Document:
    """Return a scenario of which every smaller one passes; ``fails`` judges one."""
    for smaller in _smaller(scenario):
        if fails(smaller):
            return minimised(smaller, fails)
    return scenario


def _smaller(scenario: Document) -> Iterator[Document]:
    for part in ("jobs", "projects", "nodes"):
        for at, each in enumerate(scenario[part]):
            less = {**scenario, part: scenario[part][:at] + scenario[part][at + 1 :]}
            if less[part] and not _is_needed(part, each["name"], scenario):
                yield less
    for part in ("jobs", "projects"):
        for at, each in enumerate(scenario[part]):
            for key in OPTIONAL:
                if key in each and each[key] not in (0, []):
                    plainer = {name: value for name, value in each.items() if name != key}
                    yield {**scenario, part: [*scenario[part][:at], plainer, *scenario[part][at + 1 :]]}


def _is_needed(part: str, name: str, scenario: Document) -> bool:
    """Tell whether a project or node is named elsewhere in the scenario."""
    if part == "projects":
        return any(each.get("parent") == name for each in scenario["projects"]) or any(
            job["project"] == name for job in scenario["jobs"]
        )
    return part == "nodes" and any(name in job.get("placed", ()) for job in scenario["jobs"])
