"""Pods whose user is a high number without a name, in group 0, as OpenShift assigns them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from benches.kube_bench import KubeBench, restricted_bench
from clusters.cluster import Cluster
from clusters.real_node import RealNode
from clusters.real_pods import Pods

from springtide.scheduler.executors.base import Reported

ASSIGNED = 1_000_680_000
WRITES = """
import os, sys, sysconfig
from pathlib import Path
import springtide.widgets, jupyterlab

assert (os.getuid(), os.getgid()) == (1000680000, 0)
(Path.home() / "notes.txt").write_text("mine")
places = (sys.prefix, sysconfig.get_path("purelib"), sysconfig.get_path("scripts"))
print(Path.home(), [os.access(place, os.W_OK) for place in places])
"""
TRAINS = """
import os
from pathlib import Path

from springtide.training import current_job

job = current_job()
job.report(step=1, of=2)
job.save({"step": 1}, step=1)
(job.output_directory / "result.txt").write_text("done")
Path("scratch").write_text("kept")
print(os.getuid(), os.getgid(), job.restore().state)
"""


@pytest.fixture
async def bench(cluster: Cluster, namespace: str, real_node: RealNode, tmp_path: Path) -> AsyncIterator[KubeBench]:
    options = {"run_as": ASSIGNED, "fs_group": 0}
    async with restricted_bench(cluster, namespace, tmp_path / "state", real_node, **options) as bench:
        yield bench


async def test_a_job_starts_reports_and_saves(bench: KubeBench) -> None:
    spec = bench.spec(("python3", "-c", TRAINS))
    ended = (await bench.run(spec)).exit
    assert ended is not None
    log = await bench.log(spec.key.job)
    assert (ended.code, log) == (0, f"{ASSIGNED} 0 {{'step': 1}}\n"), ended.detail
    (outputs,) = await bench.executor.list_outputs(spec.key.job, 10)
    assert outputs.name == "result.txt"
    reports = await bench.executor.read_reports(spec.key.job, 0, 10)
    assert [(each.step, each.saved) for each in reports] == [(1.0, False), (1.0, True)]
    await bench.until(lambda: any(each.saved_step == 1 for each in bench.of_kind(Reported)), "the checkpoint")


def test_a_notebook_of_such_a_user_has_a_home_and_installs_packages(pods: Pods) -> None:
    context = {
        "runAsNonRoot": True,
        "runAsUser": ASSIGNED,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pods.run("notebook", WRITES, securityContext=context) == "/home/jovyan [True, True, True]\n"
