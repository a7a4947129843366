"""Random histories of random pools, and planners whose memory is compared with none."""

from __future__ import annotations

import random
from collections.abc import Callable

from histories.random_pools import some_world
from histories.world import World

from springtide.scheduler.model import Change, Decision, Plan, Snapshot, Surplus
from springtide.scheduler.policy import Planner
from springtide.scheduler.policy.memo import NoMemo
from springtide.scheduler.promises import Promise

REPLAY = 10
"""Steps from one replay of the present decision to the next."""
CHANCES = {
    "submit": 28,
    "finish": 20,
    "wait": 22,
    "fail": 3,
    "cancel": 4,
    "hold": 2,
    "resume": 3,
    "save": 2,
    "requota": 3,
    "relimit": 1,
    "reweigh": 2,
    "lose_node": 2,
    "regain_nodes": 4,
    "reorder": 1,
}
ACTIONS = tuple(name for name, chance in CHANCES.items() for _ in range(chance))


def live_through(
    seed: int,
    steps: int,
    planner: Callable[[Snapshot], Planner] = Planner,
    wanted: Promise | None = None,
    *,
    grouped: bool = False,
    typed: bool = False,
    shared: bool = False,
    known: bool = False,
    surplus: Surplus = Surplus.FAIR,
) -> World:
    """A random history: the world at its end, or as soon as a promise (or the ``wanted`` one) is broken.

    ``known`` says that usual run times are known of most jobs.
    """
    rng = random.Random(seed)
    world = some_world(seed, planner, grouped=grouped, typed=typed, shared=shared, surplus=surplus)
    world.knows_run_times = known
    for step in range(steps):
        action = rng.choice(ACTIONS)
        world.act(action, rng.randrange(1 << 16), rng.randrange(1 << 16), replay=step % REPLAY == 0)
        if any(wanted in {None, breach.promise} for breach in world.watch.breaches):
            break
    return world


Plans = tuple[float, tuple[Decision, ...], tuple[Decision, ...]]
"""A time, and what two planners decided then."""


class TwicePlanned(Planner):
    """Plans with its memory and without; ``plans`` are the times and both decisions."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.forgetful = Planner(snapshot, NoMemo)
        self.plans: list[Plans] = []

    def apply(self, change: Change) -> None:
        super().apply(change)
        self.forgetful.apply(change)

    def plan(self, now: float) -> Plan:
        plan = super().plan(now)
        self.plans.append((now, plan.decisions, self.forgetful.plan(now).decisions))
        return plan
