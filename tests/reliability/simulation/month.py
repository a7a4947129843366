"""A month of a small lab on virtual time: the real engine and store, and what people did, drawn from one seed.

An hour of the lab takes a minute: the engine looks for stopped launches twice a second, whatever happens.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from dataclasses import dataclass

from msgspec import structs
from simulation.pool import Pool
from simulation.script import node
from simulation.store import StoreBed
from simulation.virtual_time import VirtualLoop, run
from simulation.world import START, Program, World

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings, Retries
from springtide.scheduler.engine.past.headline import deviation
from springtide.scheduler.engine.past.runs import Prepared
from springtide.scheduler.model import Settings
from springtide.scheduler.scenario import parse
from springtide.scheduler.simulate.what_if import outcome, recorded_outcome

HOUR = 60.0
DAY = 24 * HOUR
LENGTH = 30 * DAY
PROJECTS = {"vision": {"quota": 8}, "speech": {"quota": 6}, "robots": {"quota": 2, "weight": 2}}
NODES = tuple(structs.replace(node(name, 8), gpu_type="v100") for name in ("one", "two"))
FREEZE = wire.FreezeRequest(why="budget")
SHAPES = ((1, 1), (1, 1), (1, 2), (1, 4), (1, 8), (2, 4), (2, 8))
"""Workers, and GPUs of each."""


@dataclass(frozen=True, slots=True)
class Month:
    """A month's store, and the scenario that the engine made of the span ``start`` to ``end`` of it.

    ``recorded`` are the figures that *What if* has of it by the records, ``deviation`` says how the simulation of
    the scenario differs from them.
    """

    store: sqlite3.Connection
    scenario: bytes
    start: float
    end: float
    recorded: wire.PastOutcome
    deviation: str


def live(bed: StoreBed, seed: int, jobs: int, *, length: float = LENGTH) -> Month:
    """Let a lab send so many jobs within a month, and return what was recorded of it."""
    bed.clear()
    return run(lambda loop: _month(loop, bed, random.Random(seed), jobs, length), until=10 * length)


async def _month(loop: VirtualLoop, bed: StoreBed, rng: random.Random, jobs: int, length: float) -> Month:
    settings = EngineSettings(policy=Settings(grace=60.0, min_runtime=5.0), retries=Retries(1.0, 30.0, 6))
    pool = Pool(loop, World(loop, NODES), bed, projects=PROJECTS, settings=settings)
    plans = sorted((rng.random() * length * 0.9, number) for number in range(jobs))
    people = [pool.person(_admin(pool, length))]
    for at, number in plans:
        people.append(pool.person(_job(pool, rng.random(), at, number)))
    await asyncio.sleep(length)
    for task in people:
        await task
    end = START + length
    prepared: Prepared = await pool.ask(lambda engine: engine.past.prepared(START, end))
    await pool.close()
    copy = sqlite3.connect(":memory:")
    bed.reading(lambda file: file.backup(copy))
    scenario = parse(prepared.scenario, "month")
    known = recorded_outcome(scenario, prepared.recorded)
    return Month(copy, prepared.scenario, START, end, known, deviation(known, outcome(scenario)))


async def _admin(pool: Pool, length: float) -> None:
    """Lower and raise a quota, drain a node for a while, and freeze a project for two days."""
    await asyncio.sleep(0.2 * length)
    await pool.ask(lambda engine: engine.edit_project("vision", wire.ProjectEdit(quota=4), "admin", members={}))
    await asyncio.sleep(0.1 * length)
    await pool.ask(lambda engine: engine.drain_node(wire.DrainRequest(node="two", why="fans"), "admin"))
    await asyncio.sleep(0.05 * length)
    await pool.ask(lambda engine: engine.undrain_node(wire.UndrainRequest(node="two"), "admin"))
    await asyncio.sleep(0.1 * length)
    await pool.ask(lambda engine: engine.edit_project("vision", wire.ProjectEdit(quota=8), "admin", members={}))
    await asyncio.sleep(0.1 * length)
    await pool.ask(lambda engine: engine.freeze("speech", FREEZE, "admin", members={}))
    await asyncio.sleep(0.06 * length)
    await pool.ask(lambda engine: engine.unfreeze("speech", "admin", members={}))


async def _job(pool: Pool, draw: float, at: float, number: int) -> None:
    """Send a job; some are cancelled while they wait, or paused by their owner for some hours."""
    rng = random.Random(draw)
    workers, gpus = rng.choice(SHAPES)
    work = rng.lognormvariate(0.0, 1.0) * 4 * HOUR
    program = Program(work=work, save_every=rng.choice((HOUR / 6, HOUR / 2)), deaf=rng.random() < 0.1)
    project = rng.choice(("vision", "vision", "speech", "robots"))
    await asyncio.sleep(at)
    job = await pool.submit(f"train {number}", project, program, workers=workers, gpus=gpus, grace=2.0)
    luck = rng.random()
    if luck < 0.05:
        await asyncio.sleep(HOUR)
        await pool.cancel(job)
    elif luck < 0.1:
        await asyncio.sleep(2 * HOUR)
        await pool.pause(job)
        await asyncio.sleep(10 * HOUR)
        await pool.resume(job)
