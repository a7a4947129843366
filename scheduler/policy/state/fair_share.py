"""Fair share: a project's entitlement is its quota, plus its part of the GPUs left idle by others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from springtide.scheduler.policy.state.projects import UNLIMITED, ProjectNode

Wishes = dict[ProjectNode, int]
"""The total number of GPUs that each project wants."""

Rounded = dict[ProjectNode, tuple[float, float, int, str]]
"""The projects whose offer was rounded, with their place among those that get whole GPUs left over."""


def divide_below(total: int, siblings: Sequence[ProjectNode], *, by_service: bool) -> Iterator[ProjectNode]:
    """Divide ``total`` GPUs among siblings, and below them if shares change; yield the changed projects."""
    before = [project.share for project in siblings]
    divide(total, siblings, by_service=by_service)
    for project, share in zip(siblings, before, strict=True):
        if project.share != share:
            project.entitled = min(project.limit, max(project.quota, project.share))
            yield project
        if project.children and (project.dirty or project.share != share):
            project.dirty = False
            yield from divide_below(project.share, project.children, by_service=by_service)


def divide(total: int, siblings: Sequence[ProjectNode], *, by_service: bool = False) -> None:
    """Divide ``total`` GPUs among ``siblings`` and set the ``share`` of each.

    All quotas come first, as far as they are due. The rest goes by project priority and weight, and the GPUs
    left by rounding within each priority; or, with ``by_service``, to the jobs with the least service in any
    project: if not all jobs of one step of service can be served, their projects divide by weight. Last come
    requests of weight 0 within the quotas above them.
    """
    left = total
    for one in siblings:
        one.share = min(total if one.quota == UNLIMITED else one.quota, one.due)
        left -= one.share
    levels = _service_steps(siblings) if by_service else _levels(siblings)
    while left > 0 and (wishes := next(levels, None)) is not None:
        rounded: Rounded = {}
        left = _divide_by_weight(left, wishes, rounded)
        for one in sorted(rounded, key=rounded.__getitem__)[:left]:
            one.share += 1
            left -= 1


def _levels(siblings: Sequence[ProjectNode]) -> Iterator[Wishes]:
    """Yield all wishes by project priority, highest first, without weight 0; then its requests within quotas."""
    levels: dict[int, Wishes] = {}
    for one in siblings:
        if one.weight > 0:
            levels.setdefault(-one.priority, {})[one] = one.due_wish
    yield from (levels[priority] for priority in sorted(levels))
    yield {one: min(one.quota, one.requestable) for one in siblings if one.weightless}


def _service_steps(siblings: Sequence[ProjectNode]) -> Iterator[Wishes]:
    """Yield the wishes for the jobs in each step of service, those with less included."""
    requests = {one: _requests_by_step(one) for one in siblings}
    wishes = dict.fromkeys(siblings, 0)
    for step in sorted({step for by_step in requests.values() for step in by_step}):
        wishes = {one: wished + requests[one].get(step, 0) for one, wished in wishes.items()}
        yield {one: min(wished, one.limit) for one, wished in wishes.items()}


def _requests_by_step(project: ProjectNode) -> Mapping[int, int]:
    """Return the request for the jobs in each step of service, the first ones as far as descendants' limits go."""
    if not project.limited_below:
        return project.requests
    found = Counter[int]()
    for child in project.children:
        left, by_step = child.limit, _requests_by_step(child)
        for step in sorted(by_step):
            granted = min(by_step[step], left)
            found[step] += granted
            left -= granted
    return found


def _divide_by_weight(left: int, wishes: Wishes, rounded: Rounded) -> int:
    """Offer each project its part until all remaining ones want at least theirs; return the GPUs left."""
    again = True
    while again and left > 0:
        again = False
        hungry = [one for one, wished in wishes.items() if one.share < wished]
        weights = sum(max(1, one.weight) for one in hungry)
        offered = left
        for one in hungry:
            wanted = wishes[one] - one.share
            given, rest = divmod(offered * max(1, one.weight), weights)
            if wanted <= given:
                again = again or wanted < given or rest > 0
                given = wanted
                rounded.pop(one, None)
            else:
                rounded[one] = (-rest / weights, one.use_step, one.age, one.name)
            one.share += given
            left -= given
    return left
