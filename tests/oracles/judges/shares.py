"""Fair shares in exact arithmetic, by the three steps that the pool's rules are written down in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from judges.pool import Held, Pool, Project


def quotas_can_be_kept(pool: Pool) -> bool:
    """Tell whether quotas add up to no more than what they are divided from: the pool, or the parent's quota."""
    return all(
        sum(child.quota for child in pool.children(each))
        <= (pool.size if each is None else pool.projects[each].quota)
        for each in (None, *pool.projects)
        if pool.children(each)
    )


def requests(pool: Pool, running: Held) -> dict[str, float]:
    """Return what each project with all below it holds and could hold at once.

    A job that can never run asks for none, and those of a project for no more than its limit.
    """
    own = dict.fromkeys(pool.projects, 0)
    for job in pool.jobs.values():
        own[job.project] += max(pool.most_gpus(job), len(running.get(job.name, ())) * job.gpus)
    asked: dict[str, float] = {}

    def ask(project: Project) -> float:
        asked[project.name] = own[project.name] + sum(map(ask, pool.children(project.name)))
        return min(asked[project.name], project.limit)

    for root in pool.children(None):
        ask(root)
    return asked


def wishes(pool: Pool, asked: Mapping[str, float]) -> dict[str, float]:
    """Return what each project asks for, without what those below it ask for by no right.

    Weight 0 gives a right to nothing beyond the quota.
    """
    wished: dict[str, float] = {}

    def wish(project: Project) -> float:
        below = pool.children(project.name)
        own = asked[project.name] - sum(min(asked[child.name], child.limit) for child in below)
        wished[project.name] = own + sum(map(wish, below))
        return min(wished[project.name], project.limit if project.weight else project.quota)

    for root in pool.children(None):
        wish(root)
    return wished


def dues(pool: Pool, asked: Mapping[str, float], running: Held) -> dict[str, float]:
    """Return for what of its request each project's quota is there, before others have their shares.

    What weight 0 asks for beyond its quota and does not hold comes after them.
    """
    held = dict.fromkeys(pool.projects, 0)
    for job in pool.jobs.values():
        held[job.project] += len(running.get(job.name, ())) * job.gpus
    due: dict[str, float] = {}

    def hold(project: Project) -> int:
        held[project.name] += sum(map(hold, pool.children(project.name)))
        return held[project.name]

    def count(project: Project) -> float:
        below = pool.children(project.name)
        own = asked[project.name] - sum(min(asked[child.name], child.limit) for child in below)
        most = min(own + sum(map(count, below)), project.limit)
        due[project.name] = most if project.weight else min(most, max(project.quota, held[project.name]))
        return due[project.name]

    for root in pool.children(None):
        hold(root)
        count(root)
    return due


def fair_shares(pool: Pool, running: Held) -> dict[str, int]:
    """Return the fair share of each project, top-down over the tree."""
    asked = requests(pool, running)
    wished = wishes(pool, asked)
    due = dues(pool, asked, running)
    shares: dict[str, int] = {}

    def divide_below(parent: str | None, gpus: int) -> None:
        children = pool.children(parent)
        shares.update(_divided(gpus, children, asked, wished, due))
        for child in children:
            divide_below(child.name, shares[child.name])

    divide_below(None, pool.size)
    return shares


def entitlements(pool: Pool, running: Held) -> dict[str, float]:
    """Return what each project is entitled to: its quota or its fair share, and no more than its limit."""
    shares = fair_shares(pool, running)
    return {each.name: min(each.limit, max(each.quota, shares[each.name])) for each in pool.projects.values()}


def _divided(
    gpus: int,
    projects: Sequence[Project],
    asked: Mapping[str, float],
    wished: Mapping[str, float],
    due: Mapping[str, float],
) -> dict[str, int]:
    shares = {each.name: int(min(each.quota, due[each.name])) for each in projects}
    left = gpus - sum(shares.values())
    wanted = {each.name: int(min(wished[each.name], each.limit)) for each in projects}
    quotas = {each.name: int(min(each.quota, asked[each.name], each.limit)) for each in projects}
    levels = [
        ([each for each in projects if each.priority == priority and each.weight > 0], wanted)
        for priority in sorted({each.priority for each in projects}, reverse=True)
    ]
    for level, most in [*levels, (list(projects), quotas)]:
        fractions: dict[str, Fraction] = {}
        again = True
        while again and left > 0:
            again = False
            wanting = [each for each in level if shares[each.name] < most[each.name]]
            weights = sum(_weight(each) for each in wanting)
            offers = {each.name: left * _weight(each) / weights for each in wanting}
            for name, offer in offers.items():
                wants = most[name] - shares[name]
                taken = min(wants, math.floor(offer))
                fractions[name] = offer - math.floor(offer)
                again = again or wants < offer
                shares[name] += taken
                left -= taken
        for each in sorted(level, key=lambda each: (-fractions.get(each.name, Fraction()), each.age)):
            if left > 0 and shares[each.name] < most[each.name]:
                shares[each.name] += 1
                left -= 1
    return shares


def _weight(project: Project) -> Fraction:
    """Return a weight; among requests that come last, 0 is the least one that counts."""
    return Fraction(project.weight) or Fraction(1, 10**6)
