"""What each project is entitled to: its quota, plus its part of what others leave idle."""

from __future__ import annotations

from collections.abc import Sequence
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


class Rounded(NamedTuple):
    """What rounding cut off a sibling's offer, as a fraction of one GPU."""

    sibling: Sibling
    fraction: float


def divide(total: int, siblings: Sequence[Sibling]) -> None:
    """Divide ``total`` GPUs among ``siblings`` and set the ``share`` of each.

    First everybody's quota, as far as it is asked for, then what is left by project priority and weight, then
    the whole GPUs that rounding left over.
    """
    left = _divide_quotas(total, siblings)
    if left <= 0:
        return
    hungry = [one for one in siblings if one.weight > 0 and _wanted(one) > 0]
    rounded: list[Rounded] = []
    for priority in sorted({one.priority for one in hungry}, reverse=True):
        left, cut = _divide_level(left, [one for one in hungry if one.priority == priority])
        rounded.extend(cut)
    _divide_rest(left, rounded)


def divide_by_service(total: int, siblings: Sequence[Sibling]) -> None:
    """Divide ``total`` GPUs among ``siblings`` and set the ``share`` of each.

    First everybody's quota, as far as it is asked for by the jobs with the least service, then what is left goes
    to the jobs with the least service, whoever's they are. Where not all of one step of service can get theirs,
    the projects divide by weight.
    """
    left = _divide_quotas(total, siblings)
    requested = [0] * len(siblings)
    for level in sorted({level for one in siblings for level in one.requests}) if left > 0 else ():
        requested = [so_far + one.requests.get(level, 0) for so_far, one in zip(requested, siblings, strict=True)]
        wanted = [
            max(0, min(up_to, one.limit) - one.share) for up_to, one in zip(requested, siblings, strict=True)
        ]
        if sum(wanted) > left:
            _divide_step(left, siblings, wanted)
            return
        left -= sum(wanted)
        for one, gpus in zip(siblings, wanted, strict=True):
            one.share += gpus


def _divide_quotas(total: int, siblings: Sequence[Sibling]) -> int:
    """Give everybody the quota, as far as it is asked for; return how many GPUs are left."""
    left = total
    for one in siblings:
        share = total if one.quota == UNLIMITED else one.quota
        share = min(share, one.request, one.limit)
        one.share = share
        left -= share
    return left


def _divide_step(left: int, siblings: Sequence[Sibling], wanted: Sequence[int]) -> None:
    """Divide GPUs by weight among siblings that want more than there are, each in whole GPUs."""
    shares = [0] * len(siblings)
    while left > 0:
        hungry = [at for at, gpus in enumerate(wanted) if shares[at] < gpus]
        weights = sum(max(1, siblings[at].weight) for at in hungry)
        given = {at: min(wanted[at] - shares[at], left * max(1, siblings[at].weight) // weights) for at in hungry}
        if not any(given.values()):
            order = sorted(hungry, key=lambda at: (-siblings[at].weight, siblings[at].age, siblings[at].name))
            given = dict.fromkeys(order[:left], 1)
        for at, gpus in given.items():
            shares[at] += gpus
            left -= gpus
    for one, gpus in zip(siblings, shares, strict=True):
        one.share += gpus


def _divide_rest(left: int, rounded: Sequence[Rounded]) -> None:
    """Give the whole GPUs that rounding left over, one each."""
    for one, _ in sorted(rounded, key=_rounding_order):
        if left <= 0:
            return
        if _wanted(one) > 0:
            one.share += 1
            left -= 1


def _divide_level(left: int, level: Sequence[Sibling]) -> tuple[int, list[Rounded]]:
    """Divide among siblings of equal priority; return what is left and what rounding cut off."""
    rounded: dict[str, Rounded] = {}
    again = True
    while again and left > 0:
        again = False
        hungry = [one for one in level if _wanted(one) > 0]
        weights = sum(one.weight for one in hungry)
        offered = left
        for one in hungry:
            wanted = _wanted(one)
            whole, rest = divmod(offered * one.weight, weights)
            if wanted * weights <= offered * one.weight:
                given = wanted
                rounded.pop(one.name, None)
                again = again or wanted * weights < offered * one.weight
            else:
                given = whole
                rounded[one.name] = Rounded(one, rest / weights)
            one.share += given
            left -= given
    return left, list(rounded.values())


def _rounding_order(rounded: Rounded) -> tuple[int, float, int, str]:
    one = rounded.sibling
    return (-one.priority, -rounded.fraction, one.age, one.name)


def _wanted(one: Sibling) -> int:
    return min(one.request, one.limit) - one.share
