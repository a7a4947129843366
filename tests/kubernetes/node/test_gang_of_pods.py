"""Pods that name their node, on two real nodes: gangs of plain Python and of MPI, and a pod that is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from benches.kube_bench import ContainerBench, KubeBench
from clusters.cluster import Cluster
from clusters.node_images import image
from clusters.real_node import RealNode
from msgspec import structs

from springtide.scheduler.executors.base import AttemptKey, ExitKind, Reported
from springtide.scheduler.model import Worker

GRACE_S = 60.0
TRAINING = """
import time

from springtide.training import current_job

job = current_job()
found = job.restore()
done = found.state if found else 0
print("from", done, flush=True)
for step in range(done, 100_000):
    time.sleep(0.002 * (1 + job.rank))
    job.report(step=step + 1)
    if job.should_pause(step + 1):
        job.save(step + 1, step=step + 1)
        print("paused after", step + 1, flush=True)
        job.exit_for_pause()
"""
"""The second worker takes twice as long for a step as the first one, and they share nothing but files."""
FURTHER = 20
REDUCING = f"""
import time

from mpi4py import MPI

from springtide.training import current_job

job, world = current_job(), MPI.COMM_WORLD
found = job.restore()
total, done = found.state if found else (0, 0)
for step in range(done + 1, done + 1 + {FURTHER} if found else 100_000):
    time.sleep(0.005)
    total = (31 * total + world.allreduce(step * (world.rank + 1))) % 1_000_003
    job.report(step=step)
    if job.should_pause(step):
        job.save((total, step), step=step)
        print(MPI.Get_processor_name(), world.rank, "paused after", step, flush=True)
        job.exit_for_pause()
hosts = world.gather(MPI.Get_processor_name())
if world.rank == 0:
    print(*hosts, step, total)
"""
"""Every step uses the sum over all processes; what a pause interrupted ends some steps later."""


@pytest.fixture
async def bench(
    cluster: Cluster, namespace: str, real_node: RealNode, real_build_node: RealNode, tmp_path: Path
) -> AsyncIterator[KubeBench]:
    bench = ContainerBench(cluster, namespace, tmp_path / "state", real_node, real_build_node, bind_directly=True)
    await bench.open()
    yield bench
    await bench.shut()


async def test_pods_on_two_nodes_pause_after_the_same_step_and_go_on_from_it(
    bench: KubeBench, real_node: RealNode, real_build_node: RealNode
) -> None:
    placement = (Worker(0, real_node.name, (0,)), Worker(1, real_build_node.name, (0,)))
    starts = [0]
    for attempt in (1, 2):
        spec = bench.spec(
            ("python3", "{code}/train.py"),
            attempt=attempt,
            size=2,
            placement=placement,
            files={"train.py": TRAINING.encode()},
            grace=GRACE_S,
        )
        await bench.executor.launch(spec)
        for rank in (0, 1):
            await bench.running(spec.key, says=f"from {starts[-1]}\n".encode(), rank=rank)
        await bench.until(partial(has_begun, bench, spec.key), "some steps")
        await bench.executor.pause(spec.key)
        ended = (await bench.gone(spec.key)).exit
        assert ended is not None
        assert (ended.code, ended.paused, ended.killed) == (75, True, False)
        logs = [(await bench.log(spec.key.job, rank)).splitlines()[-2:] for rank in (0, 1)]
        assert logs[0] == logs[1]
        begun, paused = (int(line.split()[-1]) for line in logs[0])
        assert begun == starts[-1] < paused
        starts.append(paused)


async def test_ranks_of_mpi_in_two_pods_pause_after_the_same_step_and_end_as_without_the_pause(
    bench: KubeBench, real_node: RealNode, real_build_node: RealNode
) -> None:
    first = bench.spec(
        ("python3", "-m", "springtide.training.mpirun", "{code}/train.py"),
        size=2,
        placement=(Worker(0, real_node.name, (0, 1)), Worker(1, real_build_node.name, (0, 1))),
        files={"train.py": REDUCING.encode()},
        grace=GRACE_S,
        image=image("mpi"),
    )
    await bench.executor.launch(first)
    await bench.until(partial(has_begun, bench, first.key), "some steps")
    await bench.executor.pause(first.key)
    ended = (await bench.gone(first.key)).exit
    log = await bench.log(first.key.job)
    assert ended is not None
    assert (ended.code, ended.paused, ended.killed) == (75, True, False), log
    said = sorted(line.split() for line in log.splitlines())
    (paused,) = {int(line[-1]) for line in said}
    hosts = ["w0", "w0", "w1", "w1"]
    assert [line[:2] for line in said] == [[host, str(rank)] for rank, host in enumerate(hosts)]
    second = structs.replace(first, key=AttemptKey(first.key.job, 2))
    ended = (await bench.run(second)).exit
    assert ended is not None
    assert (ended.code, ended.paused) == (0, False), await bench.log(second.key.job)
    last = paused + FURTHER
    assert (await bench.log(second.key.job)).splitlines()[-1].split() == [*hosts, str(last), str(reduced(last))]


async def test_a_kubelet_that_has_no_room_refuses_the_pod_and_the_attempt_did_not_start(
    bench: KubeBench, real_node: RealNode, real_build_node: RealNode
) -> None:
    bench.settings = replace(bench.settings, cpu_per_gpu=4000.0)
    await bench.restart()
    spec = bench.spec(("python3", "-V"), placement=(Worker(0, real_node.name, (0,)),))
    await bench.executor.launch(spec)
    ended = (await bench.gone(spec.key)).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED
    assert f"The node {real_node.name} did not start its pod: " in ended.detail
    assert ended.detail.endswith("(OutOfcpu).")
    assert "4000000" in ended.detail
    available = {node.name: node.available for node in await bench.executor.inventory()}
    assert available == {real_node.name: False, real_build_node.name: True}


def reduced(steps: int) -> int:
    """Return what four processes have after these steps of ``REDUCING``."""
    total = 0
    for step in range(1, steps + 1):
        total = (31 * total + step * (1 + 2 + 3 + 4)) % 1_000_003
    return total


def has_begun(bench: KubeBench, key: AttemptKey) -> bool:
    return any(each.key == key for each in bench.of_kind(Reported))
