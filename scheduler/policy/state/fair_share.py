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
    left = total
    for one in siblings:
        one.share = min(total if one.quota == UNLIMITED else one.quota, one.request, one.limit)
        left -= one.share
    if left <= 0:
        return
    hungry = [one for one in siblings if one.weight > 0 and _wanted(one) > 0]
    rounded: list[Rounded] = []
    for priority in sorted({one.priority for one in hungry}, reverse=True):
        left, cut = _divide_level(left, [one for one in hungry if one.priority == priority])
        rounded.extend(cut)
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
