"""Jobs that ask for cores and memory, from the submission to the launch."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.engine.requests import validation
from springtide.scheduler.engine.reruns import options_of
from springtide.scheduler.engine.state.state import policy_job
from springtide.scheduler.engine.test_runs import make_test
from springtide.scheduler.model import Node, Project
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.resources.per_gpu import PerGpu
from springtide.scheduler.store.records import JobRecord, JobSpec, JobStanding
from springtide.scheduler.store.tables import ProjectRecord

GIB = 1 << 30
NODES = (Node("small", 4, per_gpu=PerGpu(4.0, 16 * GIB)), Node("large", 2, per_gpu=PerGpu(16.0, 64 * GIB)))


def accepted(nodes: tuple[Node, ...] = NODES, **fields: Any) -> JobSpec:
    records = {"p": ProjectRecord(Project("p", quota=None))}
    context = validation.ValidationContext(nodes, records, EngineSettings())
    submission = wire.Submission(argv=["python"], **fields)
    return validation.validate_submission(submission, "susan", "p", context, job_id="a", now=1.0)


def test_what_was_asked_for_is_stored_in_cores_and_bytes() -> None:
    spec = accepted(gpus=2, cpus="7500m", memory="20 GB")
    options = spec.options
    assert (options.cpus, options.memory, options.per_gpu) == (
        7.5,
        20 * 10**9,
        PerGpu(3.75, 10**10),
    )
    assert (accepted().options.cpus, accepted().options.memory) == (None, None)
    without_gpus = accepted(gpus=0, cpus=100, memory="900Gi")
    assert without_gpus.options.per_gpu == PerGpu(), "no GPU comes with anything"


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        (
            {"cpus": 17},
            "cpus",
            "17 cores were asked for with 1 GPU per worker, which no train node has for 1 GPU: the nearest has 16",
        ),
        (
            {"cpus": 17},
            "cpus",
            "Ask for less, or for 2 GPUs per worker: each GPU comes with 16 cores and 64 GiB of memory there.",
        ),
        ({"cpus": 33}, "cpus", "Ask for less: each GPU comes with 16 cores and 64 GiB of memory there."),
        ({"gpus": 2, "memory": "129Gi"}, "memory", "for 2 GPUs: the nearest has 32 cores and 128 GiB"),
        ({"gpus": 4, "cpus": 17}, "gpus", "You asked for 4 GPUs per worker, but the largest train node has 2."),
        ({"cpus": 5, "workers": 3}, "workers", "the pool has room for 2"),
        ({"cpus": "none"}, "cpus", "expected a number of cores from 0.001 up to 10000"),
        ({"memory": 16}, "memory", "memory is 16; expected an amount of memory from 16Mi up to"),
    ],
)
def test_what_no_node_has_is_refused_with_the_numbers(fields: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Refusal) as refused:
        accepted(**fields)
    assert refused.value.field == field
    assert words in f"{refused.value.message} {refused.value.hint}"


@pytest.mark.parametrize(
    ("nodes", "hint"),
    [
        ((Node("a", 8),), "Ask for at most 8 per worker, and 8 in all."),
        ((Node("a", 8), Node("b", 8)), "Ask for at most 8 per worker, and for more workers."),
    ],
)
def test_more_workers_are_suggested_where_the_pool_has_the_gpus_for_them(
    nodes: tuple[Node, ...], hint: str
) -> None:
    with pytest.raises(Refusal) as refused:
        accepted(nodes=nodes, gpus=9)
    assert refused.value.hint == hint


def test_nodes_of_which_nothing_is_known_take_every_job() -> None:
    assert accepted(nodes=(Node("a", 1),), cpus=500, memory="9Ti").options.cpus == 500.0


def test_the_plan_and_the_test_run_are_told_what_belongs_to_each_gpu() -> None:
    record = JobRecord(accepted(gpus=2, workers=2, cpus=8, memory="16Gi", min_workers=1), JobStanding())
    planned = policy_job(record)
    assert planned is not None
    assert planned.per_gpu == PerGpu(4.0, 8 * GIB)
    test = make_test(record, 60.0)
    assert (test.gpus, test.options.cpus, test.options.memory) == (1, 4.0, 8 * GIB)


def test_a_run_again_names_what_it_asked_for_and_how_it_differs() -> None:
    spec = accepted(cpus=0.5, memory="1536Mi")
    assert {name: options_of(spec)[name] for name in ("cpus", "memory")} == {"cpus": 0.5, "memory": 1536 << 20}
    cpus, memory = wire.OPTIONS["cpus"], wire.OPTIONS["memory"]
    assert (cpus.shown(0.5), memory.shown(1536 << 20), cpus.shown(None)) == ("0.5", "1536Mi", "the pool's")


async def test_a_job_is_launched_with_what_it_asked_for_and_shown_with_it(make_pool: Any) -> None:
    pool = await make_pool()
    job = await pool.submit("susan", gpus=2, cpus=3, memory="4Gi")
    await pool.state(job.id, "starting", "running")
    await pool.idle()
    spec = pool.executor.specs[pool.key(job.id)]
    assert (spec.options.cpus, spec.options.memory) == (3.0, 4 * GIB)
    shown = await pool.engine.job(job.id)
    assert (shown.options.cpus, shown.options.memory) == (3.0, 4 * GIB)
    assert [(each.name, each.label, each.text) for each in shown.chosen] == [
        ("gpus", "GPUs", "2"),
        ("cpus", "CPU cores", "3"),
        ("memory", "Memory", "4Gi"),
    ]
