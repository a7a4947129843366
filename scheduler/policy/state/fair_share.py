"""What each project is entitled to: its quota, plus its part of what others leave idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

UNLIMITED = 1 << 60
"""Stands for a quota or limit that is not set."""

WEIGHT_UNIT = 1_000_000
"""Weights are counted in millionths, so that shares are exact."""


class Sibling(Protocol):
    """One of the siblings that divide their parent's GPUs."""

    name: str
    quota: int
    limit: int
    weight: int
    priority: int
    age: int
    request: int
    requests: dict[int, int]
    share: int


class Claim(NamedTuple):
    """A sibling whose share may grow ``up_to`` a number of GPUs, and its weight among those that want more."""

    sibling: Sibling
    up_to: int
    weight: int

    @property
    def wanted(self) -> int:
        """GPUs that it still wants."""
        return self.up_to - self.sibling.share


Rounded = tuple[tuple[int, float, int, str], Claim]
"""A claim whose offer was rounded, after its place among those that get whole GPUs left over."""


def divide(total: int, siblings: Sequence[Sibling], *, by_service: bool = False) -> None:
    """Divide ``total`` GPUs among ``siblings`` and set the ``share`` of each.

    First everybody's quota, as far as it is asked for. What is left goes by project priority and weight, then
    the whole GPUs that rounding left over; or, ``by_service``, to the jobs with the least service, whoever's they
    are: where not all of one step of service can get theirs, the projects divide by weight.
    """
    left = total
    for one in siblings:
        one.share = min(total if one.quota == UNLIMITED else one.quota, one.request, one.limit)
        left -= one.share
    for levels in _service_steps(siblings) if by_service else [_priorities(siblings)]:
        if left <= 0:
            return
        rounded: list[Rounded] = []
        for claims in levels:
            left = _divide_by_weight(left, claims, rounded)
        for _, claim in sorted(rounded, key=lambda each: each[0]):
            if left > 0 and claim.wanted > 0:
                claim.sibling.share += 1
                left -= 1


def _priorities(siblings: Sequence[Sibling]) -> list[list[Claim]]:
    """Return all claims by project priority, highest first; weight 0 never takes part."""
    levels: dict[int, list[Claim]] = {}
    for one in siblings:
        if one.weight > 0 and one.share < (up_to := min(one.request, one.limit)):
            levels.setdefault(-one.priority, []).append(Claim(one, up_to, one.weight))
    return [levels[priority] for priority in sorted(levels)]


def _service_steps(siblings: Sequence[Sibling]) -> Iterator[list[list[Claim]]]:
    """Yield the claims of jobs in each step of service, those with less included."""
    requested = [0] * len(siblings)
    for step in sorted({step for one in siblings for step in one.requests}):
        requested = [so_far + one.requests.get(step, 0) for so_far, one in zip(requested, siblings, strict=True)]
        claims = zip(siblings, requested, strict=True)
        yield [[Claim(one, min(up_to, one.limit), max(1, one.weight)) for one, up_to in claims]]


def _divide_by_weight(left: int, claims: Sequence[Claim], rounded: list[Rounded]) -> int:
    """Offer each claim its part until each claim that is left wants at least its part; return what is left."""
    cut: dict[str, Rounded] = {}
    again = True
    while again and left > 0:
        again = False
        hungry = [claim for claim in claims if claim.wanted > 0]
        weights = sum(claim.weight for claim in hungry)
        offered = left
        for claim in hungry:
            one, wanted = claim.sibling, claim.wanted
            given, rest = divmod(offered * claim.weight, weights)
            if wanted * weights <= offered * claim.weight:
                again = again or wanted * weights < offered * claim.weight
                given = wanted
                cut.pop(one.name, None)
            else:
                cut[one.name] = ((-one.priority, -rest / weights, one.age, one.name), claim)
            one.share += given
            left -= given
    rounded.extend(cut.values())
    return left
