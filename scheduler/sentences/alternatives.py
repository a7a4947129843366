"""What lets a waiting job start, in words: a checked change of the pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from springtide.scheduler.model import Alternative, Amount, StartsIf
from springtide.scheduler.sentences.sentence import Sentence, change, ease
from springtide.scheduler.wording import amount, count, listed, plural, quoted

MOST_NAMED = 3
"""Maximum number of jobs that a sentence names."""

MOST_NEW_NODES = 16
"""Maximum number of new nodes that a sentence asks for."""

Amounts = Mapping[str, tuple[Amount, Amount]]
"""The quota and the limit of each project."""

Named = Callable[[str], tuple[str, str]]
"""Returns what people call a job with this id, and its project."""


def starts_if_sentences(starts_if: StartsIf, named: Named, amounts: Amounts) -> tuple[Sentence, ...]:
    """Return the sentence that names the first alternative that is short enough; none if there is none.

    ``amounts`` are the present quotas and limits of the projects.
    """
    for each in starts_if.alternatives:
        if len(each.remove_jobs) <= MOST_NAMED and each.add_nodes <= MOST_NEW_NODES:
            told = f"It could start {alternative_words(each, named, amounts)}."
            return (ease(told) if each.remove_jobs else change(told),)
    return ()


def alternative_words(change_: Alternative, named: Named, amounts: Amounts) -> str:
    """Return ``if the job a of vision ended``, ``with a quota of 4 for vision``, and so on."""
    if change_.remove_jobs:
        return f"if {_jobs([named(each) for each in change_.remove_jobs])} ended"
    if change_.add_nodes:
        return f"with {count(change_.add_nodes, 'more node')} like the largest"
    raised = [("quota", each, amounts.get(each, (0, None))[0], to) for each, to in change_.quota.items()]
    raised += [("limit", each, amounts.get(each, (0, None))[1], to) for each, to in change_.limit.items()]
    return listed([_raised(*each) for each in raised])


def _jobs(jobs: Sequence[tuple[str, str]]) -> str:
    projects = list(dict.fromkeys(project for _, project in jobs))
    each_project = [
        f"{listed([quoted(name) for name, of in jobs if of == project])} of {quoted(project)}"
        for project in projects
    ]
    return f"the {plural(len(jobs), 'job', 'jobs')} {listed(each_project)}"


def _raised(what: str, project: str, before: Amount, to: Amount) -> str:
    if isinstance(to, Mapping):
        earlier = before if isinstance(before, Mapping) else {}
        missing = 0 if what == "quota" else None
        parts = {each: gpus for each, gpus in to.items() if gpus != earlier.get(each, missing)}
        return listed([_bound(what, gpus, f" {quoted(each)} GPUs", project) for each, gpus in parts.items()])
    return _bound(what, to, "", project)


def _bound(what: str, gpus: int | None, of: str, project: str) -> str:
    if gpus is None:
        return f"without the {what}{f' of{of}' if of else ''} for {quoted(project)}"
    return f"with a {what} of {amount(gpus)}{of} for {quoted(project)}"
