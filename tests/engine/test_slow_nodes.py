"""Nodes that are clearly slower than their equals: found by how fast the same jobs ran there, and drained."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pools.all_channels import CHANNELS, EMAIL, WITH_ADDRESS

from springtide.scheduler import wire
from springtide.scheduler.engine.placements.slow import MAX_NODES, NodeSpeeds, SlowNode
from springtide.scheduler.engine.placements.speed import STEPS, Placed, Work
from springtide.scheduler.engine.placements.statistics import Measured
from springtide.scheduler.engine.settings import EngineSettings, Retries
from springtide.scheduler.model import Settings, Spread
from springtide.scheduler.notifications import NotificationSettings
from springtide.scheduler.telemetry.faults import FaultRules

worlds = sys.modules["engine_worlds"]
RATIO = 1.5


def key(name: str = "train", gpus: int = 1, model: str = "H100") -> Any:
    return Work("vision", "susan", name), Measured(Placed("h100", 1, gpus, Spread("node", 1)), STEPS), model


def known(speeds: Mapping[str, float], runs: int = 7, works: int = 1, *, model: Mapping[str, str] = {}) -> Any:
    """The node speeds after ``runs`` runs of ``works`` works on each node, at these steps per second."""
    found = NodeSpeeds(RATIO)
    for work in range(works):
        for run in range(runs):
            for node, speed in speeds.items():
                of = key(chr(97 + work), model=model.get(node, "H100"))
                found.add(node, of, (1 + work) * speed * (1 + 0.01 * run))
    return found


def test_a_node_on_which_one_work_is_slower_again_and_again_is_slow():
    assert known({"a": 10.0, "b": 10.2, "bad": 5.0}, runs=5).slow() == {}
    (slow,) = known({"a": 10.0, "b": 10.2, "bad": 5.0}, runs=6).slow().items()
    assert slow == ("bad", SlowNode(slow[1].times, runs=6, other_runs=12))
    assert slow[1].times == pytest.approx(2.02, abs=0.02)


def test_a_node_on_which_many_works_are_slower_is_slow_after_one_run_of_each():
    assert known({"a": 10.0, "b": 10.2, "bad": 5.0}, runs=1, works=9).slow() == {}
    (slow,) = known({"a": 10.0, "b": 10.2, "bad": 5.0}, runs=1, works=10).slow().values()
    assert slow == SlowNode(slow.times, works=10)
    assert slow.times == pytest.approx(2.02, abs=0.02)


def test_less_than_the_ratio_is_not_slow():
    assert known({"a": 10.0, "b": 10.2, "other": 7.0}, runs=10, works=12).slow() == {}


def test_of_two_nodes_none_is_the_unusual_one():
    assert known({"a": 10.0, "b": 5.0}, runs=10).slow() == {}


def test_nodes_with_gpus_of_another_model_are_not_its_equals():
    older = {"old": "A100"}
    assert known({"a": 10.0, "b": 10.2, "old": 5.0}, runs=10, works=12, model=older).slow() == {}


def test_a_node_is_no_longer_slow_once_jobs_run_there_as_elsewhere():
    found = known({"a": 10.0, "b": 10.2, "bad": 5.0})
    for _ in range(10):
        found.add("bad", key("a"), 10.0)
    assert found.slow() == {}


def test_what_was_known_of_a_node_that_is_in_use_again_is_forgotten():
    found = known({"a": 10.0, "b": 10.2, "bad": 5.0})
    assert found.slow({"bad", "other"}) == {}
    assert found.slow() == {}
    found.add("bad", key("a"), 5.0)
    assert found.slow() == {}


def test_only_the_nodes_where_a_work_ran_most_recently_are_compared():
    found = known({"a": 10.0, "bad": 5.0}, runs=5)
    for at in range(MAX_NODES):
        found.add(f"n{at}", key("a"), 10.0)
    found.add("bad", key("a"), 5.0)
    assert found.slow() == {}


# ---------- in the pool

NODES = tuple(worlds.node(name, 2, gpu_type="h100") for name in ("a", "b", "bad"))
TOLD = NotificationSettings(CHANNELS, WITH_ADDRESS, fault_recipients=frozenset({"admin"}))
SETTINGS = EngineSettings(policy=Settings(grace=5.0), retries=Retries(first=1.0), notifications=TOLD)
PROJECTS = {"susan": {"quota": 6}}


class Steps:
    """Runs one job on each node at a time; on the slow node each takes twice as long for its steps."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    async def run(self, name: str) -> dict[str, wire.Job]:
        jobs = [await self.pool.submit("susan", name=name, gpus=2) for _ in NODES]
        running = {(await self.pool.state(job.id, "running")).held[0].node: job for job in jobs}
        for step in range(3):
            await self.pool.later(100.0 if step else 0.0)
            for node, job in running.items():
                done = step if node == "bad" else 2 * step
                self.pool.executor.report(self.pool.key(job.id), step=done, of=10)
            await self.pool.idle()
        return running

    async def end(self, running: Mapping[str, wire.Job]) -> None:
        for job in running.values():
            self.pool.executor.end(self.pool.key(job.id), code=0)
            await self.pool.state(job.id, "succeeded")

    async def until_drained(self) -> None:
        for _ in range(6):
            await self.end(await self.run("train"))
        await self.pool.submit("susan", name="another", gpus=0)
        await self.pool.idle()


def drains(pool: Any) -> dict[str, str]:
    return {node.name: node.drain.why for node in pool.engine.pool().nodes if node.drain}


@pytest.fixture
async def steps(make_pool: Any) -> Steps:
    executor = worlds.MemoryExecutor(NODES)
    return Steps(await make_pool(executor=executor, settings=SETTINGS, projects=PROJECTS))


async def test_a_slow_node_is_drained_its_job_goes_on_elsewhere_and_the_admin_is_told(steps: Steps) -> None:
    for _ in range(5):
        await steps.end(await steps.run("train"))
    assert drains(steps.pool) == {}
    running = await steps.run("train")
    waits = await steps.pool.submit("susan", name="another", gpus=2)
    await steps.end({"bad": running.pop("bad")})
    await steps.pool.state(waits.id, "paused", attempt=1)
    await steps.end(running)
    moved = await steps.pool.state(waits.id, "running", attempt=2)
    assert moved.held[0].node != "bad"
    times = "The same jobs took 2 times as long on it as on other nodes with the same GPUs"
    why = f"{times} (6 runs on it against 10 elsewhere)."
    assert drains(steps.pool) == {"bad": why}
    [mail] = await steps.pool.engine.outbox.waiting(("admin", EMAIL))
    assert mail.notification.title == "The node bad was drained."
    assert mail.notification.text == (
        f"{why} Nothing new starts on it; its jobs run again elsewhere. "
        "Find what slows it, such as heat or other programs, then undrain it on the page of the pool."
    )


async def test_a_node_that_an_admin_gives_back_is_judged_anew(steps: Steps) -> None:
    await steps.until_drained()
    await steps.pool.engine.undrain_node(wire.UndrainRequest(node="bad"), "admin")
    await steps.end(await steps.run("train"))
    await steps.pool.idle()
    assert drains(steps.pool) == {}


async def test_no_node_is_drained_where_an_admin_has_switched_it_off(make_pool: Any) -> None:
    settings = replace(SETTINGS, faults=FaultRules(slow_node_ratio=None))
    executor = worlds.MemoryExecutor(NODES)
    steps = Steps(await make_pool(executor=executor, settings=settings, projects=PROJECTS))
    await steps.until_drained()
    assert drains(steps.pool) == {}
