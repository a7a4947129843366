"""Jobs whose workers need RDMA, from the submission to the launch."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.engine.requests import validation
from springtide.scheduler.engine.reruns import options_of
from springtide.scheduler.engine.state.state import policy_job
from springtide.scheduler.engine.test_runs import make_test
from springtide.scheduler.model import Node, Project
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.resources.per_gpu import PerGpu, per_gpu_of
from springtide.scheduler.store.records import JobRecord, JobSpec, JobStanding
from springtide.scheduler.store.tables import ProjectRecord

PLAIN = Node("plain", 8)
FULL = Node("full", 8, per_gpu=per_gpu_of(64, 0, 8, 8))
FEW = Node("few", 8, per_gpu=per_gpu_of(0, 0, 8, 3))


def accepted(*nodes: Node, **fields: Any) -> JobSpec:
    records = {"p": ProjectRecord(Project("p", quota=None))}
    context = validation.ValidationContext(nodes or (PLAIN, FULL), records, EngineSettings())
    submission = wire.Submission(argv=["python"], **{"rdma": True, **fields})
    return validation.validate_submission(submission, "susan", "p", context, job_id="a", now=1.0)


def test_each_worker_asks_for_its_part_of_the_rdma_of_its_gpus() -> None:
    assert accepted(gpus=4).options.per_gpu == PerGpu(rdma=0.25)
    assert accepted(gpus=1, cpus=8).options.per_gpu == PerGpu(8.0, 0.0, 1.0)
    assert accepted(rdma=False).options.per_gpu == PerGpu()


@pytest.mark.parametrize(
    ("nodes", "fields", "field", "words"),
    [
        ((PLAIN,), {}, "rdma", "RDMA was asked for, and no train node has it. Leave out rdma, or ask an admin"),
        (
            (structs.replace(FULL, gpu_type="h100"), structs.replace(PLAIN, gpu_type="t4")),
            {"gpu_types": ["t4"]},
            "rdma",
            "no train node with t4 GPUs has it.",
        ),
        (
            (PLAIN, FEW),
            {"gpus": 2},
            "gpus",
            "has it for 3 workers on its 8 GPUs. Ask for at least 3 GPUs per worker, or leave out rdma.",
        ),
        ((PLAIN, FULL), {"gpus": 8, "workers": 2}, "workers", "the pool has room for 1 with RDMA."),
        ((structs.replace(PLAIN, gpus=16), FULL), {"gpus": 9}, "gpus", "the largest train node with RDMA has 8."),
        (
            (PLAIN, FULL),
            {"cpus": 9},
            "cpus",
            "9 cores were asked for with 1 GPU per worker, which no train node with RDMA has for 1 GPU",
        ),
        ((FULL,), {"gpus": 0}, "rdma", "which is about GPUs, and the job asks for none. Leave out rdma"),
    ],
)
def test_what_no_node_has_is_refused_with_the_way_out(
    nodes: tuple[Node, ...], fields: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(Refusal) as refused:
        accepted(*nodes, **fields)
    assert refused.value.field == field
    assert words in f"{refused.value.message} {refused.value.hint}"


def test_the_least_number_of_gpus_that_a_refusal_names_is_accepted() -> None:
    assert accepted(PLAIN, FEW, gpus=3).gpus == 3


def test_the_plan_is_told_of_rdma_and_the_test_run_does_without() -> None:
    record = JobRecord(accepted(gpus=2, workers=2), JobStanding())
    planned = policy_job(record)
    assert planned is not None
    assert planned.per_gpu == PerGpu(rdma=0.5)
    assert make_test(record, 60.0).options.per_gpu == PerGpu(), "it has one worker, which exchanges nothing"


def test_a_run_again_asks_for_rdma_again() -> None:
    assert options_of(accepted())["rdma"] is True


async def test_a_job_is_launched_with_rdma_and_shown_with_it(make_pool: Any) -> None:
    pool = await make_pool()
    with pytest.raises(Refusal, match="no train node has it"):
        await pool.submit("susan", rdma=True)
    pool.executor.nodes = tuple(
        structs.replace(node, per_gpu=per_gpu_of(0, 0, node.gpus, node.gpus)) for node in pool.executor.nodes
    )
    await pool.later(0)
    job = await pool.submit("susan", gpus=2, rdma=True)
    await pool.state(job.id, "starting", "running")
    await pool.idle()
    assert pool.executor.specs[pool.key(job.id)].options.rdma
    assert (await pool.engine.job(job.id)).options.rdma
    assert {node.rdma_workers for node in pool.engine.pool().nodes if node.environment == "train"} == {8}
