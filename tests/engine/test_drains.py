"""Drained nodes: nothing new starts there, and running jobs continue elsewhere or finish."""

from __future__ import annotations

from typing import Any

import engine_worlds as worlds
import pytest
from msgspec.structs import replace

from springtide.scheduler import wire
from springtide.scheduler.model import Environment
from springtide.scheduler.refusal import Refusal

NODES = (worlds.node("one", 4), worlds.node("two", 4), worlds.node("build", 2, Environment.BUILD))


def request(node: str = "one", **more: Any) -> wire.DrainRequest:
    return wire.DrainRequest(node=node, **more)


@pytest.fixture
async def two(pool):
    """The pool with two train nodes and a job of two GPUs, which runs on one of them."""
    pool.executor.change_nodes(*NODES)
    await pool.idle()
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    return pool, job.id, where(pool, job.id)


def where(pool, job: str) -> str:
    """Return the node that a job runs on."""
    nodes = {
        view.name
        for view in pool.engine.pool().nodes
        for cell in view.gpus
        if cell.holder is not None and cell.holder.job == job
    }
    (node,) = nodes
    return node


def node_view(pool, name: str) -> wire.NodeView:
    return next(view for view in pool.engine.pool().nodes if view.name == name)


async def test_jobs_on_a_drained_node_are_paused_and_go_on_elsewhere_by_themselves(two):
    pool, job, node = two
    await pool.engine.drain_node(request(node, why=" A fan is to be replaced. "), "admin")
    drained = node_view(pool, node)
    assert (drained.available, drained.drain.by, drained.drain.why) == (False, "admin", "A fan is to be replaced.")
    await pool.idle()
    found = await pool.engine.job(job)
    assert (found.state, [attempt.state for attempt in found.attempts]) == ("running", ["paused", "running"])
    assert where(pool, job) != node
    why = found.attempts[0].ended_why
    assert why.code == "engine-drained"
    sentences = (f"The node {node} was drained by “admin”.", "A fan is to be replaced.")
    assert why.text == " ".join(sentences)


async def test_nothing_starts_on_a_drained_node_until_it_is_undrained(two):
    pool, _, node = two
    await pool.engine.drain_node(request(node), "admin")
    waiting = await pool.submit(gpus=4)
    await pool.idle()
    assert (await pool.engine.job(waiting.id)).state == "queued"
    assert f"4 GPUs are on a node that is drained: {node}." in pool.engine.idle_gpus().why
    await pool.engine.undrain_node(wire.UndrainRequest(node=node), "admin")
    await pool.state(waiting.id, "running")
    assert where(pool, waiting.id) == node
    assert node_view(pool, node).available


async def test_gpus_of_a_drained_node_are_counted_apart_from_idle_ones(two):
    pool, _, node = two
    before = pool.engine.pool()
    assert (before.train_free, before.build_free) == ({"idle": 6}, {"idle": 2})
    await pool.engine.drain_node(request(node), "admin")
    await pool.engine.drain_node(request("build"), "admin")
    await pool.idle()
    after = pool.engine.pool()
    assert (after.train_free, after.build_free) == ({"idle": 2, "drained": 4}, {"drained": 2})
    assert node_view(pool, node).free == {"drained": 4}
    pool.executor.change_nodes(*(replace(each, available=False) for each in NODES))
    await pool.idle()
    assert pool.engine.pool().train_free == {"drained": 4, "lost or closed": 2}


async def test_jobs_finish_on_a_node_if_the_admin_lets_them(two):
    pool, job, node = two
    await pool.engine.drain_node(request(node, finish=True), "admin")
    await pool.idle()
    assert (where(pool, job), len((await pool.engine.job(job)).attempts)) == (node, 1)
    await pool.engine.drain_node(request(node), "admin")
    await pool.idle()
    assert where(pool, job) != node


async def test_a_drain_is_kept_over_restarts_of_the_service_and_of_the_node(two):
    pool, _, node = two
    await pool.engine.drain_node(request(node), "admin")
    await pool.restart()
    assert node_view(pool, node).drain is not None
    others = [each for each in NODES if each.name != node]
    pool.executor.change_nodes(*others)
    await pool.idle()
    pool.executor.change_nodes(*NODES)
    await pool.idle()
    assert not node_view(pool, node).available
    waiting = await pool.submit(gpus=4)
    await pool.idle()
    assert (await pool.engine.job(waiting.id)).state == "queued"


async def test_a_drained_build_node_takes_no_workspace_and_keeps_those_it_has(two):
    pool, _, _ = two
    held = await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    await pool.engine.drain_node(request("build"), "admin")
    with pytest.raises(Refusal, match="only 0 build GPUs are free"):
        await pool.engine.reserve_workspace("joe", "", 1, ["joe"])
    assert pool.engine.build_quota("joe", ["joe"]).free == 0
    assert [workspace.node for workspace in pool.engine.workspaces()] == [held.node]


def gpu_of(pool, job: str) -> tuple[str, int]:
    """Return node and index of the first GPU of a job."""
    return next(
        (view.name, cell.index)
        for view in pool.engine.pool().nodes
        for cell in view.gpus
        if cell.holder is not None and cell.holder.job == job
    )


async def test_a_job_on_a_drained_gpu_goes_on_on_the_others_of_the_same_node(two):
    pool, job, _ = two
    node, gpu = gpu_of(pool, job)
    await pool.engine.drain_node(request(node, gpu=gpu, why="It is hot."), "admin")
    await pool.idle()
    found = await pool.engine.job(job)
    assert (found.state, len(found.attempts)) == ("running", 2)
    assert gpu_of(pool, job) != (node, gpu)
    why = found.attempts[0].ended_why.text
    assert why == f"The GPU {gpu} of {node} was drained by “admin”. It is hot."
    view = node_view(pool, node)
    assert view.available
    assert {cell.index: cell.drain.why for cell in view.gpus if cell.drain} == {gpu: "It is hot."}
    assert f"1 GPU is drained: GPU {gpu} of {node}." in pool.engine.idle_gpus().why


async def test_nothing_starts_on_a_drained_gpu_until_it_is_undrained(two):
    pool, _, _ = two
    for node in ("one", "two"):
        await pool.engine.drain_node(request(node, gpu=3), "admin")
    waiting = await pool.submit(gpus=4)
    await pool.idle()
    assert (await pool.engine.job(waiting.id)).state == "queued"
    await pool.restart()
    assert node_view(pool, "one").gpus[3].drain is not None
    await pool.engine.undrain_node(wire.UndrainRequest(node="one"), "admin")
    await pool.idle()
    assert (await pool.engine.job(waiting.id)).state == "queued", "the node was not drained, its GPU was"
    await pool.engine.undrain_node(wire.UndrainRequest(node="one", gpu=3), "admin")
    await pool.state(waiting.id, "running")
    assert where(pool, waiting.id) == "one"


async def test_a_job_may_finish_on_a_drained_gpu_and_the_trail_names_it(two):
    pool, job, _ = two
    node, gpu = gpu_of(pool, job)
    await pool.engine.drain_node(request(node, gpu=gpu, finish=True), "admin")
    await pool.idle()
    assert len((await pool.engine.job(job)).attempts) == 1
    await pool.engine.undrain_node(wire.UndrainRequest(node=node, gpu=gpu), "admin")
    trail = [(entry.what, entry.subject) for entry in (await pool.engine.audit(None, 2)).items]
    subject = f"GPU {gpu} of {node} (GPU-{node}-{gpu})"
    assert trail == [("gpu.undrain", subject), ("gpu.drain", subject)]


async def test_a_drained_build_gpu_goes_to_no_workspace(two):
    pool, _, _ = two
    await pool.engine.drain_node(request("build", gpu=0), "admin")
    held = await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    assert held.uuids == ["GPU-build-1"]


async def test_a_gpu_that_is_not_there_or_that_a_pods_node_chooses_is_refused(two):
    pool, _, _ = two
    with pytest.raises(Refusal, match="“one” has no GPU 4") as told:
        await pool.engine.drain_node(request("one", gpu=4), "admin")
    assert (told.value.status, told.value.field, told.value.hint) == (404, "gpu", "Its GPUs: from 0 to 3.")
    pool.executor.change_nodes(worlds.node("one", 4, resource="nvidia.com/gpu"))
    await pool.idle()
    assert not node_view(pool, "one").drains_gpus
    with pytest.raises(Refusal, match="no single one can be drained"):
        await pool.engine.drain_node(request("one", gpu=0), "admin")


async def test_the_trail_tells_who_drained_what_and_a_repeated_drain_is_no_change(two):
    pool, _, node = two
    for _ in range(2):
        await pool.engine.drain_node(request(node, why="fan"), "admin")
    for _ in range(2):
        await pool.engine.undrain_node(wire.UndrainRequest(node=node), "root")
    trail = [(entry.who, entry.what, entry.subject) for entry in (await pool.engine.audit(None, 10)).items]
    assert trail[:2] == [("root", "node.undrain", node), ("admin", "node.drain", node)]
    assert trail.count(("admin", "node.drain", node)) == 1


async def test_a_node_that_is_not_there_is_refused_by_name(two):
    pool, _, _ = two
    engine = pool.engine
    for refused in (
        engine.drain_node(request("three"), "admin"),
        engine.undrain_node(wire.UndrainRequest(node="three"), "admin"),
    ):
        with pytest.raises(Refusal) as told:
            await refused
        assert (told.value.status, told.value.field) == (404, "node")
        assert "one, two and build" in told.value.hint
