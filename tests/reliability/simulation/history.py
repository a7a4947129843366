"""A random history of a small pool on virtual time: jobs, people, faults and crashes, all drawn from one seed."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from simulation.accounts import disagreements
from simulation.faults import Faults
from simulation.pool import Pool
from simulation.script import node
from simulation.store import StoreBed
from simulation.virtual_time import StalledError, VirtualLoop, run
from simulation.world import Program, World

from springtide.scheduler import wire
from springtide.scheduler.model import Environment
from springtide.scheduler.refusal import Refusal

STORM = 60.0
"""How long things happen and go wrong, in seconds; after that everything works and the jobs run to their end."""
JOBS = (2, 3)
EVENTS = (2, 4)
SWEEPS = 0.4
"""Part of the histories with a sweep."""
SHAPES = ((1, 1, 1), (1, 1, 1), (1, 1, 2), (2, 2, 1), (3, 1, 1), (2, 1, 2))
"""Workers, least workers and GPUs of each."""
GRACE = 10.0
"""Grace period of each job, in seconds. The pool's is longer: answers may be late by so much."""
ALWAYS = 99
"""Failures of a program with no successful run. Others fail at most as often as they are tried again."""


@dataclass(slots=True)
class Verdict:
    """What became of a history; ``problems`` are broken promises, ``digest`` identifies all that happened."""

    seed: int
    problems: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    digest: str = ""
    crashes: int = 0


@dataclass(slots=True)
class Expected:
    """A job as it was accepted, and whether a person cancelled it. A sweep has ``trials`` trials, others none."""

    program: Program
    time_limit: float | None
    cancelled: bool = False
    trials: int = 0

    def states(self) -> set[str]:
        """Return the states in which the job may end."""
        limited = self.time_limit is not None and self.time_limit < self.program.work
        ends = {"failed" if limited or self.program.failures == ALWAYS else "succeeded"}
        return ends | {"cancelled"} if self.cancelled else ends


class History:
    """One random history; `live` lives through it."""

    def __init__(self, seed: int, loop: VirtualLoop, bed: StoreBed, faults: Faults) -> None:
        self.rng = rng = random.Random(seed)
        self.bed = bed
        self.faults = faults
        self.sizes = sizes = [rng.choice([1, 2, 2, 4]) for _ in range(rng.randint(1, 3))]
        nodes = [node(f"n{at}", gpus) for at, gpus in enumerate(sizes)]
        self.world = World(loop, (*nodes, node("build", 1, Environment.BUILD)), rng.choice([0.0, 0.3, 2.0]))
        self.gpus = sum(sizes)
        names = "abc"[: rng.randint(1, 3)]
        quotas = [rng.randint(0, self.gpus // len(names)) for _ in names]
        projects = {name: {"quota": quota} for name, quota in zip(names, quotas, strict=True)}
        self.projects = list(projects)
        self.pool = Pool(loop, self.world, bed, projects=projects, faults=faults)
        self.jobs: dict[str, Expected] = {}

    async def live(self) -> Verdict:
        """Live through the storm and the calm after it."""
        rng = self.rng
        count = rng.randint(*JOBS)
        plan: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (rng.random() * STORM * 0.7, self._submitter(f"j{number}")) for number in range(count)
        ]
        if rng.random() < SWEEPS:
            plan.append((rng.random() * STORM * 0.7, self._sweeper("sweep")))
        happenings = [
            self.pause_one, self.pause_one, self.cancel_one, self.requota, self.drain_node, self.lose_node,
            self.cut_off_node, self.crash, self.crash, self.reboot, self.set_clock, self.set_clock,
            self.store_away, self.store_full, self.store_silent, self.kill_supervisor,
        ]  # fmt: skip
        plan += [(rng.random() * STORM, rng.choice(happenings)) for _ in range(rng.randint(*EVENTS))]
        tasks = [self.pool.person(self._at(at, act)) for at, act in plan]
        await asyncio.gather(*tasks)
        await asyncio.sleep(max(0.0, STORM - self.pool.loop.time()))
        await self.calm()
        await self.pool.all_ended()
        return await self.judge()

    async def _at(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(seconds)
        await act()

    async def calm(self) -> None:
        """End all faults, bring everything back, and resume what people had paused."""
        self.world.note("calm")
        self.faults.end()
        self.bed.trouble = ""
        for each in self.world.nodes:
            self.world.regain(each.name)
            await self._undrain(each.name, None)
            await self._undrain(each.name, 0)
        for job_id in self.jobs:
            await self.pool.resume(job_id)

    async def judge(self) -> Verdict:
        """Compare the store with the actual and the expected events."""
        world, pool = self.world, self.pool
        records = {record.id: record for record in await pool.records()}
        trials = {job_id: await pool.trials(job_id) for job_id, job in self.jobs.items() if job.trials}
        await pool.close()
        problems = [*world.violations, *pool.breaches, *self.bed.reading(lambda file: list(disagreements(file)))]
        if records.keys() != self.jobs.keys():
            problems.append(f"accepted were {sorted(self.jobs)}, there are {sorted(records)}")
        for job_id, expected in self.jobs.items():
            if job_id in records and expected.trials:
                problems += self._judge_sweep(records[job_id], trials[job_id], expected)
            elif job_id in records:
                problems += self._judge_job(records[job_id], expected)
        text = "\n".join([*world.log, *(f"{job.id} {job.state} {job.attempt}" for job in records.values())])
        digest = hashlib.sha256(text.encode()).hexdigest()
        return Verdict(0, problems, world.log, digest, pool.crashes)

    def _judge_sweep(self, sweep: wire.Job, trials: list[wire.Job], expected: Expected) -> list[str]:
        problems = []
        if sweep.state not in expected.states():
            problems.append(f"the sweep {sweep.id} is {sweep.state}: {sweep.reason}")
        numbers = sorted(trial.trial for trial in trials if trial.trial is not None)
        if len(set(numbers)) < len(trials) or len(trials) > expected.trials:
            problems.append(f"the sweep {sweep.id} of {expected.trials} trials has the trials {numbers}")
        if sweep.state == "succeeded" and len(trials) < expected.trials:
            problems.append(f"the sweep {sweep.id} has succeeded with {len(trials)} of {expected.trials} trials")
        for trial in trials:
            problems += self._judge_job(trial, expected)
        counted = sweep.trials
        ended = [trial.state for trial in trials]
        if counted is None or counted.succeeded != ended.count("succeeded") or counted.running:
            problems.append(f"the sweep {sweep.id} counts {counted}, its trials are {ended}")
        return problems

    def _judge_job(self, job: wire.Job, expected: Expected) -> list[str]:
        problems = []
        results = self.world.results.get(job.id, [])
        if job.state not in expected.states():
            problems.append(f"{job.id} is {job.state}, not {' or '.join(sorted(expected.states()))}: {job.error}")
        if (job.state == "succeeded") != bool(results) and job.state != "cancelled":
            problems.append(f"{job.id} is {job.state}, and its results are {results}")
        if len(results) > 1 or any(abs(done - expected.program.work) > 0.01 for done in results):
            problems.append(f"{job.id} has the results {results}, not {expected.program.work}")
        numbers = [attempt.number for attempt in job.attempts]
        if numbers != list(range(1, len(numbers) + 1)):
            problems.append(f"{job.id} has the attempts {numbers}")
        ran = sum(1 for key in self.world.ever if key.job == job.id)
        if ran > len(numbers):
            problems.append(f"{job.id} ran {ran} times and has {len(numbers)} attempts")
        return problems

    # ---------- what people do

    def _submitter(self, name: str) -> Callable[[], Awaitable[None]]:
        rng = self.rng
        workers, least, gpus = rng.choice(SHAPES)
        gpus = min(gpus, max(self.sizes))
        workers = max(1, min(workers, sum(size // gpus for size in self.sizes)))
        least = min(least, workers)
        limit = rng.choice([None, None, None, 20.0, 5_000.0])
        program = Program(
            work=float(rng.choice([2, 10, 25])) if limit != 20.0 else 500.0,
            save_every=rng.choice([0.0, 3.0]),
            deaf=rng.random() < 0.15,
            failures=rng.choice([0, 0, 0, 1, ALWAYS]) if limit != 20.0 else 0,
            chunk=rng.choice([0.0, 0.0, 8.0]) if limit != 20.0 else 0.0,
        )
        retries, project = rng.randint(program.failures == 1, 2), rng.choice(self.projects)
        priority = rng.choice(["train", "train", "high"])

        async def submit() -> None:
            job_id = await self.pool.submit(
                name,
                project,
                program,
                workers=workers,
                min_workers=least,
                gpus=gpus,
                retries=retries,
                time_limit=limit,
                priority=priority,
                grace=GRACE,
            )
            self.jobs[job_id] = Expected(program, limit)

        return submit

    def _sweeper(self, name: str) -> Callable[[], Awaitable[None]]:
        rng = self.rng
        program = Program(work=float(rng.choice([2, 8])), save_every=rng.choice([0.0, 3.0]))
        gpus, project, number = rng.randint(1, max(self.sizes)), rng.choice(self.projects), rng.randint(1, 6)
        trials = wire.Trials(number=number, at_most=rng.choice([None, 2]), at_least=rng.choice([1, 1, 3]))

        async def submit() -> None:
            job_id = await self.pool.submit(name, project, program, gpus=gpus, trials=trials, grace=GRACE)
            self.jobs[job_id] = Expected(program, None, trials=number)

        return submit

    def _some_job(self) -> str | None:
        return self.rng.choice(sorted(self.jobs)) if self.jobs else None

    async def pause_one(self) -> None:
        if (job_id := self._some_job()) is not None:
            await self.pool.pause(job_id)
            await asyncio.sleep(self.rng.random() * 20)
            await self.pool.resume(job_id)

    async def cancel_one(self) -> None:
        if (job_id := self._some_job()) is not None:
            self.jobs[job_id].cancelled = True
            await self.pool.cancel(job_id)

    async def requota(self) -> None:
        name = self.rng.choice(self.projects)
        edit = wire.ProjectEdit(quota=self.rng.randint(0, self.gpus // len(self.projects)))
        with suppress(Refusal):
            await self.pool.ask(lambda engine: engine.edit_project(name, edit, "admin", members={}))

    async def drain_node(self) -> None:
        name, finish = self._some_node(), self.rng.random() < 0.5
        gpu = self.rng.choice((None, 0))
        request = wire.DrainRequest(node=name, gpu=gpu, why="a fan", finish=finish)
        with suppress(Refusal):
            await self.pool.ask(lambda engine: engine.drain_node(request, "admin"))
        await asyncio.sleep(self.rng.random() * 30)
        await self._undrain(name, gpu)

    async def _undrain(self, name: str, gpu: int | None) -> None:
        request = wire.UndrainRequest(node=name, gpu=gpu)
        with suppress(Refusal):
            await self.pool.ask(lambda engine: engine.undrain_node(request, "admin"))

    # ---------- what goes wrong

    def _some_node(self) -> str:
        return self.rng.choice([each.name for each in self.world.nodes if each.environment is Environment.TRAIN])

    async def lose_node(self) -> None:
        name = self._some_node()
        self.world.lose(name)
        await asyncio.sleep(self.rng.random() * 30)
        self.world.regain(name)

    async def cut_off_node(self) -> None:
        name = self._some_node()
        self.world.cut_off(name)
        await asyncio.sleep(self.rng.random() * 30)
        self.world.regain(name)

    async def kill_supervisor(self) -> None:
        if live := self.world.live():
            self.world.take_away(self.rng.choice(live))

    async def crash(self) -> None:
        self.pool.crash()

    async def reboot(self) -> None:
        """Restart the machine."""
        self.pool.crash()
        self.world.reboot()

    async def set_clock(self) -> None:
        self.world.set_clock(self.rng.choice([-86_400.0, -3_600.0, -30.0, 30.0, 3_600.0, 86_400.0]))

    async def _trouble(self, kind: str, seconds: float) -> None:
        if not self.bed.trouble:
            self.world.note(f"store {kind}")
            self.bed.trouble = kind
            await asyncio.sleep(seconds)
            self.bed.trouble = ""
            self.world.note("store back")

    async def store_away(self) -> None:
        await self._trouble("away", 60.0)

    async def store_full(self) -> None:
        await self._trouble("full", 20.0)

    async def store_silent(self) -> None:
        await self._trouble("silent", 3.0)


def live_through(seed: int, bed: StoreBed) -> Verdict:
    """Live through the history of a seed, on an empty store."""
    bed.clear()
    weather = random.Random(f"weather {seed}")
    faults = Faults(
        weather,
        slow=weather.choice([0.0, 0.2, 0.5]),
        delay=weather.choice([0.1, 2.0, 15.0]),
        lost_requests=weather.choice([0.0, 0.0, 0.1, 0.3]),
        lost_answers=weather.choice([0.0, 0.0, 0.1, 0.3]),
        repeated=weather.choice([0.0, 0.2]),
    )
    lived: list[History] = []

    async def main(loop: VirtualLoop) -> Verdict:
        lived.append(History(seed, loop, bed, faults))
        return await lived[0].live()

    try:
        verdict = run(main, lambda: faults.latency() / 10)
    except StalledError:
        world = lived[0].world
        verdict = Verdict(seed, [f"not all jobs ended; live are {world.live()}"], world.log)
    verdict.seed = seed
    return verdict
