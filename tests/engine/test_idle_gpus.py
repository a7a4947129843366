"""Why GPUs are idle, in sentences that agree with the pool."""

from __future__ import annotations

from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.engine.views.idle_view import idle
from springtide.scheduler.model import Node, Reason
from springtide.scheduler.store.records import JobRecord, JobSpec

NODES = (Node("a", 4), Node("b", 2, available=False), Node("c", 3, available=False))


def job(number, **fields: Any):
    return JobRecord(
        JobSpec(
            id=f"j{number}", seq=number, user="susan", project="vision", submitted=0.0, name="", kind="", argv=()
        )
    ).with_standing(**fields)


def told(jobs, reasons, reserved=None, occupied=frozenset()):
    return idle(NODES, occupied, reserved or {}, jobs, reasons.get, drained={"c"})


def test_every_idle_gpu_is_counted_and_explained():
    reasons = {"j1": Reason("no-room"), "j2": Reason("no-room"), "j3": Reason("over-limit")}
    jobs = [job(1), job(2), job(3), job(4, held=True)]
    found = told(jobs, reasons, reserved={("a", 3): "nlp team"}, occupied={("a", 0), ("b", 1)})
    assert found == wire.Idle(
        gpus=3,
        reserved=1,
        unavailable=4,
        why=[
            "3 GPUs are on a node that is drained: c.",
            "1 GPU is on a node that is lost or closed: b.",
            "1 GPU is reserved for jobs of “nlp team”.",
            "2 jobs need more GPUs together than the pool has free.",
            "1 job waits for the limit of its project.",
            "1 job is paused by its user.",
        ],
    )


def test_jobs_are_not_said_to_wait_for_their_share_where_the_idle_gpus_are_too_few():
    reasons = {
        "j1": Reason("share-used", {"workers": 1, "room": 0}),
        "j2": Reason("share-used", {"workers": 2, "room": 2}),
    }
    assert told([job(1), job(2)], reasons).why[-2:] == [
        "1 job needs more GPUs together than the pool has free.",
        "1 job waits for the share of its project.",
    ]


def test_nodes_that_cannot_be_used_and_spent_budgets_are_not_told_as_too_small_nodes_and_limits():
    large: dict[str, Any] = {"gpus": 4, "workers": 1, "gpu_types": ("h100",)}
    spent: dict[str, Any] = {
        "at": "vision",
        "limit": 2,
        "gpus": 2,
        "budget_of": "vision",
        "budget_beyond": "no-borrowing",
    }
    reasons = {
        "j1": Reason("too-large", {**large, "largest": 0}),
        "j2": Reason("too-large", {**large, "largest": 2, "undrain": ("h",)}),
        "j3": Reason("gang-too-large", {**large, "most": 1, "drained": ("h",), "drained_until": ("later",)}),
        "j4": Reason("over-limit", spent),
        "j5": Reason("too-large", {**large, "largest": 2}),
    }
    assert sorted(told([job(number) for number in range(1, 6)], reasons).why[2:]) == [
        "1 job needs a node, and no node for it can be used now.",
        "1 job needs more GPUs on one node than any node for it has.",
        "1 job waits for the budget of its project.",
        "2 jobs need nodes that are drained.",
    ]


def test_gpus_that_cannot_be_used_are_told_although_none_is_idle():
    found = told([job(1)], {"j1": Reason("no-room")}, occupied={("a", index) for index in range(4)})
    assert (found.gpus, found.unavailable, len(found.why)) == (0, 5, 2)


def test_an_empty_pool_is_idle_because_no_job_waits():
    assert told([], {}).why[-1] == "No job waits."


def test_nothing_is_said_of_jobs_where_no_gpu_is_idle():
    everything = {(node.name, index) for node in NODES for index in range(node.gpus)}
    assert told([job(1)], {"j1": Reason("no-room")}, occupied=everything) == wire.Idle(
        gpus=0, reserved=0, unavailable=0, why=[]
    )


def test_a_long_queue_is_told_in_part():
    jobs = [job(number) for number in range(600)]
    found = told(jobs, {each.id: Reason("too-large") for each in jobs})
    assert (
        "Of the first 500 jobs that wait, 500 jobs need more GPUs on one node than any node for them has."
        in found.why
    )


async def test_the_engine_tells_why_its_gpus_are_idle(pool):
    assert pool.engine.idle_gpus() == wire.Idle(gpus=8, reserved=0, unavailable=0, why=["No job waits."])
    running = await pool.submit("susan", gpus=6)
    await pool.state(running.id, "running")
    await pool.submit("susan", gpus=8)
    await pool.idle()
    found = pool.engine.idle_gpus()
    assert found.gpus == 2
    assert len(found.why) == 1
