"""Twelve jobs and a sweep that meet all a pool does, written so that every step can be repeated after a crash."""

from __future__ import annotations

from dataclasses import dataclass

from simulation.faults import CrashPoints
from simulation.pool import Pool
from simulation.store import StoreBed
from simulation.virtual_time import VirtualLoop, run
from simulation.world import Program, World

from springtide.scheduler import wire
from springtide.scheduler.model import Environment, Gpu, Node

TRIALS = 6
"""Number of trials of the script's sweep."""
PROJECTS = {"susan": {"quota": 4}, "joe": {"quota": 4}}


def node(name: str, gpus: int, environment: Environment = Environment.TRAIN) -> Node:
    """Return a node with simulated GPUs."""
    devices = tuple(Gpu(f"GPU-{name}-{index}", index, "test", 1024, simulated=True) for index in range(gpus))
    return Node(name, gpus, environment=environment, devices=devices, labels={"rack": "r1"})


NODES = (node("one", 4), node("two", 4), node("build", 2, Environment.BUILD))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the script ended.

    ``ends`` has state and results of each job by name; ``problems`` are broken promises.
    """

    ends: dict[str, tuple[str, tuple[float, ...]]]
    problems: tuple[str, ...]
    writes: int
    actions: int
    crashes: int
    log: tuple[str, ...]


async def tell(pool: Pool) -> dict[str, str]:
    """Go through the script; return the ids of its jobs by name."""
    ids: dict[str, str] = {}

    async def submit(name: str, project: str, program: Program, **wishes: object) -> None:
        ids[name] = await pool.submit(name, project, program, grace=10.0, **wishes)

    # Susan fills the pool: within her quota, then with what joe leaves idle.
    await submit("steady", "susan", Program(work=40), gpus=4)
    await submit("borrower", "susan", Program(work=60, save_every=7), gpus=2)
    await submit("deaf", "susan", Program(work=45, save_every=10, deaf=True), gpus=2)
    await pool.state(ids["deaf"], "running")
    # Joe comes back with a gang over two nodes' worth of GPUs: both borrowers give way, one of them by force.
    await submit("gang", "joe", Program(work=20), workers=4, gpus=1)
    await pool.state(ids["gang"], "running", "succeeded")
    # Failures: one that a retry mends, one that has none left, and one that asks to be run again.
    await submit("mended", "joe", Program(work=8, failures=1), gpus=1, retries=1)
    await submit("broken", "joe", Program(work=6, failures=9), gpus=1, retries=1)
    await submit("pieces", "susan", Program(work=12, chunk=5, save_every=4), gpus=1)
    # A sweep whose trials run one after the other where there is room, and that a person pauses for a while.
    await submit("sweep", "susan", Program(work=4), gpus=1, trials=wire.Trials(number=TRIALS))
    await pool.state(ids["sweep"], "running", "succeeded")
    await pool.pause(ids["sweep"])
    await pool.state(ids["sweep"], "paused", "succeeded")
    await pool.resume(ids["sweep"])
    # A person pauses a running one and resumes it; another is cancelled while it runs, a third while it waits.
    await pool.pause(ids["steady"])
    await pool.state(ids["steady"], "paused", "succeeded")
    await submit("doomed", "susan", Program(work=10_000), gpus=2)
    await pool.state(ids["doomed"], "running")
    await pool.cancel(ids["doomed"])
    await submit("never", "joe", Program(work=5), gpus=4, workers=2, priority="high")
    await pool.cancel(ids["never"])
    await pool.resume(ids["steady"])
    # One that runs into its time limit, one that grows and shrinks, and one that comes last.
    await submit("late", "joe", Program(work=10_000), gpus=1, time_limit=15)
    await submit("elastic", "susan", Program(work=30, save_every=5), workers=3, min_workers=1, gpus=1)
    await submit("last", "joe", Program(work=3), gpus=4, priority="high")
    await pool.all_ended()
    return ids


def _results(world: World, job_id: str) -> tuple[float, ...]:
    return tuple(world.results.get(job_id, ()))


def play(bed: StoreBed, points: CrashPoints) -> Outcome:
    """Run the script to its end on an empty store."""
    bed.clear()

    async def main(loop: VirtualLoop) -> Outcome:
        world = World(loop, NODES)
        pool = Pool(loop, world, bed, projects=PROJECTS, points=points)
        ids = await tell(pool)
        records = {record.id: record for record in await pool.records()}
        await pool.close()
        ends = {name: (records[job_id].state, _results(world, job_id)) for name, job_id in ids.items()}
        ends["sweep"] = (
            records[ids["sweep"]].state,
            tuple(done for number in range(TRIALS) for done in _results(world, f"{ids['sweep']}t{number}")),
        )
        problems = [*world.violations, *pool.breaches]
        problems += [f"{key} ran {times} times" for key, times in world.ever.items() if times > 1]
        problems += [
            f"{job.id} is a job that no one submitted" for job in records.values() if job.id not in ids.values()
        ]
        problems += [
            f"{job.id} has the attempts {[attempt.number for attempt in job.attempts]}"
            for job in records.values()
            if [attempt.number for attempt in job.attempts] != list(range(1, len(job.attempts) + 1))
        ]
        counts = points.counts
        return Outcome(ends, tuple(problems), counts["write"], counts["action"], pool.crashes, tuple(world.log))

    return run(main)
