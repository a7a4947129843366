"""The pool on a cluster of fake nodes: ``python benchmarks/bench_cluster.py [--nodes 500] [--jobs 4000]``.

The control plane is real (etcd, API server, controllers, scheduler), and so are our engine, its database on disk
and the executor; the nodes are kwok's, 8 GPUs each, and show pods as running at once. All of it shares this
machine's cores. Needs the programs of ``make tools``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from machine import describe, percentile

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from cluster import Cluster, tools

from springtide.scheduler import model
from springtide.scheduler.engine import Engine, EngineSettings, open_engine
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, Observation
from springtide.scheduler.executors.kubernetes.executor import KubernetesExecutor
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import connect
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store
from springtide.scheduler.wire import Job, Submission

NAMESPACE = "bench"
GPUS = 8
GRACE_S = 2.0
PATIENCE_S = 900.0
TICK_S = 0.05
CORES = os.cpu_count() or 1
REQUESTS = ("create", "patch", "delete", "get", "list_raw")


@dataclass
class Measured:
    """Times of one step, in seconds: processor time by program, and time of the engine's own work."""

    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    own: dict[str, float] = field(default_factory=dict)

    def show(self) -> None:
        cpu = ", ".join(f"{name} {used:.1f}" for name, used in self.cpu.items())
        print(
            f"    processor seconds: {cpu}; {sum(self.cpu.values()):.1f} of {self.seconds * CORES:.1f} there were"
        )
        own = ", ".join(f"{name} {used:.1f}" for name, used in self.own.items())
        print(f"    our seconds: {own}")


class Requests:
    """Counts the requests to the API and their duration in seconds, including the wait for their turn."""

    def __init__(self, api: Any) -> None:
        self.count: dict[str, int] = dict.fromkeys(REQUESTS, 0)
        self.seconds: dict[str, float] = dict.fromkeys(REQUESTS, 0.0)
        for name in REQUESTS:
            setattr(api, name, self._counted(name, getattr(api, name)))

    def _counted(self, name: str, request: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*given: Any, **more: Any) -> Any:
            began = time.perf_counter()
            try:
                return await request(*given, **more)
            finally:
                self.count[name] += 1
                self.seconds[name] += time.perf_counter() - began

        return counted


class CountingExecutor(KubernetesExecutor):
    """Counts the attempts that it reported as running, and those that were not discarded since."""

    running = 0
    known = 0

    async def start(self, listener: Callable[[Observation], None]) -> None:
        def heard(observation: Observation) -> None:
            if isinstance(observation, AttemptStatus):
                self.running += observation.phase is AttemptPhase.RUNNING
                self.known += observation.phase is AttemptPhase.STARTING
            listener(observation)

        await super().start(heard)

    async def discard(self, key: AttemptKey) -> None:
        await super().discard(key)
        self.known -= 1

    async def all_released(self) -> bool:
        return self.known == 0

    async def have_run(self, count: int) -> bool:
        return self.running >= count


class Bench:
    """The engine, running on the cluster."""

    def __init__(self, cluster: Cluster, state: Path) -> None:
        self.cluster = cluster
        settings = KubernetesSettings(
            namespace=NAMESPACE,
            pool=NAMESPACE,
            state_dir=state,
            images=("bench/train:1",),
            jobs_host_path=str(state),
            run_as=os.geteuid() or 1000,
        )
        self._api = connect(cluster.kubeconfig)
        self.requests = Requests(self._api)
        self._store = Store.open(f"sqlite:///{state}/springtide.sqlite", state)
        self.executor = CountingExecutor(settings, self._api)
        many = EngineSettings(
            policy=model.Settings(grace=GRACE_S), max_unfinished=100_000, max_unfinished_per_user=100_000
        )
        projects: Mapping[str, Mapping[str, Any]] = {"owner": {"quota": GPUS}, "borrower": {"quota": 0}}
        self._opening = lambda: open_engine(self._store, self.executor, many, projects=projects)
        self.engine: Engine

    async def start(self) -> None:
        self.engine = await self._opening()

    async def close(self) -> None:
        await self.engine.stop()
        await self._api.close()
        self._store.close()

    @contextlib.contextmanager
    def measured(self) -> Iterator[Measured]:
        """Measure the time of a step."""
        found = Measured()
        cpu, own, began = self._cpu(), self._own(), time.perf_counter()
        yield found
        found.seconds = time.perf_counter() - began
        found.cpu = {name: used - cpu[name] for name, used in self._cpu().items()}
        found.own = {name: used - own[name] for name, used in self._own().items()}

    def _cpu(self) -> dict[str, float]:
        programs = {"service": os.getpid(), **{daemon.name: daemon.pid for daemon in self.cluster.daemons()}}
        return {name: _cpu_seconds(pid) for name, pid in programs.items()}

    def _own(self) -> dict[str, float]:
        stats, requests = self.engine.stats, self.requests
        return {
            "planning": stats.plan_seconds,
            "commits": stats.commit_seconds,
            "ticks": float(stats.ticks),
            "creates": float(requests.count["create"]),
            "waiting for creates": requests.seconds["create"],
            "patches and deletes": float(requests.count["patch"] + requests.count["delete"]),
        }

    async def submit(self, project: str = "borrower", **more: Any) -> Job:
        return await self.engine.submit(Submission(argv=["train"], **more), project, project)

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        """Poll, at low cost, until a condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not await holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {PATIENCE_S:.0f} s for {what}")
            await asyncio.sleep(TICK_S)

    async def in_state(self, job: Job, state: str) -> bool:
        return (await self.engine.job(job.id)).state == state

    def pods(self) -> list[dict[str, Any]]:
        return self.cluster.items(f"/api/v1/namespaces/{NAMESPACE}/pods")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stages(pods: list[dict[str, Any]]) -> str:
    """Return when the last pod was created, bound and running, in whole seconds after the first was created."""
    made = [_moment(pod["metadata"]["creationTimestamp"]) for pod in pods]
    bound, running = (
        [
            _moment(each["lastTransitionTime"])
            for pod in pods
            for each in pod["status"]["conditions"]
            if each["type"] == kind
        ]
        for kind in ("PodScheduled", "Ready")
    )
    first = min(made)
    return ", ".join(
        f"{what} {max(times) - first:.0f} s"
        for what, times in (("made", made), ("bound", bound), ("running", running))
    )


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


async def gang(bench: Bench, workers: int) -> None:
    with bench.measured() as took:
        job = await bench.submit(workers=workers)
        await bench.until(lambda: bench.in_state(job, "running"), "the gang")
    print(f"gang of {workers} workers, submit to all running: {took.seconds:.1f} s (goal: under 30 s)")
    took.show()
    print(f"    last pod {stages(bench.pods())}")
    await bench.engine.cancel(job.id, "borrower")
    await bench.until(lambda: bench.in_state(job, "cancelled"), "the gang's end")
    await bench.until(bench.executor.all_released, "the gang's pods to be released")


async def many(bench: Bench, count: int) -> None:
    executor = bench.executor
    with bench.measured() as took:
        began, before = time.perf_counter(), executor.running
        await asyncio.gather(*(bench.submit() for _ in range(count)))
        accepted = time.perf_counter() - began
        await bench.until(lambda: executor.have_run(before + count), "all jobs to run")
    print(
        f"{count} one-GPU jobs, first submit to last running: {took.seconds:.1f} s, {count / took.seconds:.1f}/s "
        f"(goal: 40/s); all were accepted after {accepted:.1f} s"
    )
    took.show()
    print(f"    last pod {stages(bench.pods())}")


async def reclaim(bench: Bench, rounds: int) -> None:
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        job = await bench.submit("owner")
        await bench.until(lambda job=job: bench.in_state(job, "running"), "the owner's job")
        seconds.append(time.perf_counter() - began)
    print(
        f"one GPU reclaimed with all others running, submit to running, {rounds} times: median "
        f"{percentile(seconds, 0.5):.2f} s, worst {max(seconds):.2f} s (goal: under 3 s)"
    )


async def impossible(bench: Bench, nodes: int) -> None:
    gangs: dict[str, dict[str, Any]] = {
        "larger than ten pools": {"workers": nodes * GPUS * 10},
        "of 80 GPUs on one node": {"workers": 10, "gpus": 8, "require": "node"},
    }
    for what, more in gangs.items():
        began = time.perf_counter()
        try:
            job = await bench.submit("owner", **more)
            reason = (await bench.engine.job(job.id)).reason
            answer = reason.text if reason is not None else "no answer"
        except Refusal as refusal:
            answer = refusal.message
        print(f"'no' to a gang {what}: {time.perf_counter() - began:.3f} s (goal: under 1 s): {answer}")


@contextlib.asynccontextmanager
async def at_work(options: argparse.Namespace) -> AsyncIterator[Bench]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster.start(Path(folder) / "cluster", tools(), node_grace_s=120) as cluster,
    ):
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        labels = {"springtide.io/environment": "train"}
        await asyncio.to_thread(cluster.add_fake_nodes, options.nodes, GPUS, labels)
        bench = Bench(cluster, Path(folder) / "state")
        await bench.start()
        try:
            yield bench
        finally:
            await bench.close()


async def measure(options: argparse.Namespace) -> None:
    print(describe())
    print(f"{options.nodes} fake nodes x {GPUS} GPUs; everything on these cores")
    async with at_work(options) as bench:
        await gang(bench, options.gang)
        await many(bench, options.jobs)
        await reclaim(bench, GPUS)
        await impossible(bench, options.nodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--gang", type=int, default=512)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
