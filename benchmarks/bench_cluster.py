"""The pool on a cluster of fake nodes: ``python benchmarks/bench_cluster.py [--nodes 500] [--jobs 4000]``.

The control plane is real (etcd, API server, controllers, scheduler), and so are our engine, its database on disk
and the executor; the nodes are kwok's, 8 GPUs each, and show pods as running at once. All of it shares this
machine's cores. The same run fills the same nodes with pods that a client creates, bound by kube-scheduler and
created on their nodes: no scheduler that lets the cluster bind, or binds itself, is faster than these. These are
the smallest pods that ask for a GPU, and the pods of jobs, whose volumes, security context and annotations cost
API server and kubelets more. Needs the programs of ``make tools``. Database and files are in the directory for
temporary files: on a file system where many files were deleted, new ones may take ten times as long, and
``TMPDIR`` names another.
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
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from machine import describe, percentile

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from clusters.cluster import Cluster, tools
from clusters.control_plane import until
from plain_pods import PlainPods, PodBody, pod_of_job, smallest_pod, stages

from springtide.scheduler import model, process_tuning
from springtide.scheduler.engine import Engine, EngineSettings, open_engine
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptSpec, AttemptStatus, Observation
from springtide.scheduler.executors.kubernetes.executor import KubernetesExecutor
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import connect
from springtide.scheduler.process_tuning import short_collections, short_interval
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store
from springtide.scheduler.wire import Job, Submission

NAMESPACE = "bench"
GPUS = 8
GRACE_S = 2.0
PATIENCE_S = 900.0
TICK_S = 0.05
RECLAIMS = 4
GANGS = 3
SETTLES_WITHIN_S = 60
QUIET_S = 0.2
"""Processor time of a control plane without work, at most, in each second."""
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
        used = sum(self.cpu.values())
        print(f"    processor seconds: {cpu}; {used:.1f} of {self.seconds * CORES:.1f} there were")
        if self.own:
            print("    of the engine: " + ", ".join(f"{name} {used:.1f}" for name, used in self.own.items()))


@contextlib.contextmanager
def measured(cluster: Cluster) -> Iterator[Measured]:
    """Measure the time of a step, and the processor time of all programs in it; ``service`` is this process."""
    programs = {"service": os.getpid(), **{daemon.name: daemon.pid for daemon in cluster.daemons()}}
    found, began = Measured(), time.perf_counter()
    before = {name: _cpu_seconds(pid) for name, pid in programs.items()}
    yield found
    found.seconds = time.perf_counter() - began
    found.cpu = {name: _cpu_seconds(pid) - before[name] for name, pid in programs.items()}


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
    """Counts the attempts that it reported as running, and those that were not discarded since.

    Knows when a job was last launched, and when attempts were asked to pause and were reported as ended.
    """

    running = 0
    known = 0

    def __init__(self, settings: KubernetesSettings, api: Any) -> None:
        super().__init__(settings, api)
        self.launched: dict[str, float] = {}
        self.paused: list[float] = []
        self.ended: list[float] = []

    async def launch(self, spec: AttemptSpec) -> None:
        self.launched[spec.key.job] = time.perf_counter()
        await super().launch(spec)

    async def pause(self, key: AttemptKey) -> None:
        self.paused.append(time.perf_counter())
        await super().pause(key)

    async def start(self, listener: Callable[[Observation], None]) -> None:
        def observe(observation: Observation) -> None:
            if isinstance(observation, AttemptStatus):
                if observation.phase is AttemptPhase.GONE:
                    self.ended.append(time.perf_counter())
                self.running += observation.phase is AttemptPhase.RUNNING
                self.known += observation.phase is AttemptPhase.STARTING
            listener(observation)

        await super().start(observe)

    async def discard(self, key: AttemptKey) -> None:
        await super().discard(key)
        self.known -= 1

    async def all_released(self) -> bool:
        return self.known == 0

    async def have_run(self, count: int) -> bool:
        return self.running >= count


class Reclaim(NamedTuple):
    """Seconds from the submission of an owner's job until it runs.

    ``own`` is the part of the service: until it asks for the end of a pod, and from that end to the launch.
    """

    seconds: float
    own: float


def settings_for(state: Path, *, directly: bool) -> KubernetesSettings:
    """Return the settings of a pool whose files are in ``state``."""
    return KubernetesSettings(
        namespace=NAMESPACE,
        pool=NAMESPACE,
        state_dir=state,
        images=("bench/train:1",),
        jobs_host_path=str(state),
        run_as=os.geteuid() or 1000,
        bind_directly=directly,
    )


class Bench:
    """The engine, running on the cluster."""

    def __init__(self, cluster: Cluster, state: Path, *, directly: bool) -> None:
        self.cluster = cluster
        settings = settings_for(state, directly=directly)
        self._api = connect(cluster.kubeconfig)
        self.requests = Requests(self._api)
        self._store = Store.open(f"sqlite:///{state}/springtide.sqlite", state)
        self.executor = CountingExecutor(settings, self._api)
        many = EngineSettings(policy=model.Settings(grace=GRACE_S), queue_cap=100_000, queue_cap_per_user=100_000)
        projects: Mapping[str, Mapping[str, Any]] = {"owner": {"quota": 2 * RECLAIMS}, "borrower": {"quota": 0}}
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
        """Measure the time of a step, and of the engine's own work in it."""
        own = self._own()
        with measured(self.cluster) as found:
            yield found
        found.own = {name: used - own[name] for name, used in self._own().items()}

    def _own(self) -> dict[str, float]:
        stats, requests = self.engine.stats, self.requests
        return {
            "planning": stats.plan_seconds,
            "commits": stats.commit_seconds,
            "ticks": float(stats.ticks),
            "number of commits": float(stats.commits),
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


async def gang(bench: Bench, workers: int) -> float:
    with bench.measured() as took:
        job = await bench.submit(workers=workers)
        await bench.until(lambda: bench.in_state(job, "running"), "the gang")
    print(
        f"  gang of {workers} workers, submit to all running: {took.seconds:.1f} s; "
        f"last pod {stages(bench.pods())}"
    )
    took.show()
    await bench.engine.cancel(job.id, "borrower")
    await bench.until(lambda: bench.in_state(job, "cancelled"), "the gang's end")
    await bench.until(bench.executor.all_released, "the gang's pods to be released")
    return took.seconds


async def many(bench: Bench, count: int) -> float:
    """Fill the pool, and reclaim a few GPUs when half of it runs."""
    executor = bench.executor
    with bench.measured() as took:
        began, before = time.perf_counter(), executor.running
        reclaims = asyncio.create_task(reclaims_during(bench, before + count // 2))
        await asyncio.gather(*(bench.submit() for _ in range(count)))
        accepted = time.perf_counter() - began
        await bench.until(lambda: executor.have_run(before + count), "all jobs to run")
    print(
        f"  {count} one-GPU jobs, first submit to last running: {took.seconds:.1f} s, "
        f"{count / took.seconds:.1f}/s; last pod {stages(bench.pods())}; all were accepted after {accepted:.1f} s"
    )
    took.show()
    each = took.cpu["service"] / count * 1000
    print(f"    service: {each:.2f} ms of processor time for each job (goal: under 2.3 ms)")
    print(f"    jobs for each commit: {count / max(1.0, took.own['number of commits']):.0f}")
    show_reclaims("while the pool fills", await reclaims, 0.6)
    return took.seconds


async def reclaims_during(bench: Bench, running: int) -> list[Reclaim]:
    await bench.until(lambda: bench.executor.have_run(running), "half of the jobs to run")
    return [await reclaim(bench) for _ in range(RECLAIMS)]


async def reclaim(bench: Bench) -> Reclaim:
    """Reclaim one GPU for a job of the owner."""
    executor, began = bench.executor, time.perf_counter()
    job = await bench.submit("owner")
    await bench.until(lambda: bench.in_state(job, "running"), "the owner's job")
    seconds, launched = time.perf_counter() - began, executor.launched[job.id]
    asked = next((at for at in executor.paused if at >= began), launched)
    ended = max((at for at in executor.ended if at <= launched), default=asked)
    return Reclaim(seconds, asked - began + launched - max(asked, ended))


def show_reclaims(when: str, found: list[Reclaim], goal: float) -> None:
    print(f"  one GPU reclaimed {when}, {len(found)} times (goal: under {goal:g} s)")
    for what, seconds in (
        ("submit to running", [each.seconds for each in found]),
        ("of that the service's own", [each.own for each in found]),
    ):
        print(f"    {what}: median {percentile(seconds, 0.5):.2f} s, worst {max(seconds):.2f} s")


async def idle(seconds: float) -> None:
    """Measure the service when nothing happens, after its polls of the new jobs' files have become rare."""
    await asyncio.sleep(seconds)
    before = _cpu_seconds(os.getpid())
    await asyncio.sleep(seconds)
    share = (_cpu_seconds(os.getpid()) - before) / seconds
    print(f"  service when nothing happens: {share:.2%} of a core (goal: under 0.5 %)")


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
        print(f"  'no' to a gang {what}: {time.perf_counter() - began:.3f} s (goal: under 1 s): {answer}")


@contextlib.asynccontextmanager
async def new_cluster(options: argparse.Namespace) -> AsyncIterator[tuple[Cluster, list[str], Path]]:
    """A control plane of its own for each part of the run, so that none works with what another left."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster.start(Path(folder) / "cluster", tools(), node_grace_s=120) as cluster,
    ):
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        labels = {"springtide.io/environment": "train"}
        nodes = await asyncio.to_thread(cluster.add_fake_nodes, options.nodes, GPUS, labels)
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        await asyncio.to_thread(until, partial(cluster.exists, account), "pods may be created")
        await settled(cluster)
        yield cluster, nodes, Path(folder) / "state"


async def settled(cluster: Cluster) -> None:
    """Wait until nothing works any more on the new nodes: kwok plays the pods of one twice until it is known."""
    for _ in range(SETTLES_WITHIN_S):
        with measured(cluster) as took:
            await asyncio.sleep(1.0)
        if sum(took.cpu.values()) < QUIET_S:
            return
    raise TimeoutError(f"the control plane still works {SETTLES_WITHIN_S} s after its nodes were ready")


async def plain(options: argparse.Namespace, what: str, *, of_jobs: bool, named: bool) -> tuple[float, float]:
    """Return the seconds of a gang's number of pods that a client creates, and of a whole pool of them."""
    print(f"{what}, {'created on their nodes' if named else 'bound by kube-scheduler'}")
    found = []
    async with new_cluster(options) as (cluster, nodes, state):
        body: Callable[[], PodBody] = pod_of_job(settings_for(state, directly=named)) if of_jobs else smallest_pod
        pods = PlainPods(cluster, NAMESPACE, body)
        await pods.start()
        for count in (*[options.gang] * GANGS, options.jobs):
            with measured(cluster) as took:
                await pods.fill("plain", count, nodes if named else ())
            last = stages(cluster.items(f"/api/v1/namespaces/{NAMESPACE}/pods"))
            print(f"  {count} pods: {took.seconds:.1f} s, {count / took.seconds:.1f}/s; last pod {last}")
            took.show()
            found.append(took.seconds)
            await pods.remove()
            await settled(cluster)
        await pods.close()
    return percentile(found[:GANGS], 0.5), found[GANGS]


async def ours(options: argparse.Namespace, *, directly: bool) -> tuple[float, float]:
    """Return the seconds of a gang, and of a whole pool of jobs."""
    print(f"Springtide, pods {'created on their nodes' if directly else 'bound by kube-scheduler'}")
    async with new_cluster(options) as (cluster, _, state):
        bench = Bench(cluster, state, directly=directly)
        await bench.start()
        try:
            gangs = []
            for _ in range(GANGS):
                gangs.append(await gang(bench, options.gang))
                await settled(cluster)
            found = percentile(gangs, 0.5), await many(bench, options.jobs)
            show_reclaims("with all others running", [await reclaim(bench) for _ in range(RECLAIMS)], 3.0)
            await impossible(bench, options.nodes)
            await idle(options.idle)
        finally:
            await bench.close()
    return found


async def measure(options: argparse.Namespace) -> None:
    print(describe())
    print(f"{options.nodes} fake nodes x {GPUS} GPUs; everything on these cores")
    smallest = await plain(options, "smallest pods", of_jobs=False, named=False)
    same = await plain(options, "the pods of jobs", of_jobs=True, named=False)
    await plain(options, "smallest pods", of_jobs=False, named=True)
    least = await plain(options, "the pods of jobs", of_jobs=True, named=True)
    for directly in (True, False):
        found = await ours(options, directly=directly)
        for what, theirs, goals in (
            ("the same pods bound by kube-scheduler", same, (0.6, 0.85)),
            ("the smallest pods bound by kube-scheduler", smallest, (1.0, 1.0)),
            ("the same pods that a client creates on their nodes: no scheduler is faster", least, None),
        ):
            ratios = [mine / other for mine, other in zip(found, theirs, strict=True)]
            said = [f"{name} {ratio:.2f}" for name, ratio in zip(("gang", "fill"), ratios, strict=True)]
            if goals is not None:
                said = [f"{each} (goal: at most {goal:g})" for each, goal in zip(said, goals, strict=True)]
            print(f"  in times of {what}: {', '.join(said)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--gang", type=int, default=512)
    parser.add_argument("--idle", type=float, default=60, help="seconds before, and of, the idle service")
    process_tuning.return_when_freed()
    with short_collections(time.monotonic), short_interval():
        asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
