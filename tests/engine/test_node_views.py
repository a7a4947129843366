"""The views of the nodes: right after every change, and the same objects where nothing has changed."""

from __future__ import annotations

from msgspec.structs import replace

from springtide.scheduler import wire
from springtide.scheduler.engine.views.node_views import NodeViews
from springtide.scheduler.model import Environment, Node

NODES = tuple(Node(name, 4, "gpu", Environment.TRAIN) for name in ("one", "two"))


def made_anew(pool):
    """Return the views of the nodes as they are without a memory of earlier ones."""
    parts = pool.engine._parts
    return NodeViews().update(parts.state, parts.nodes, parts.state.borrowing())


async def test_only_the_node_of_which_something_has_changed_has_a_new_view(pool):
    pool.executor.change_nodes(*NODES)
    await pool.idle()
    empty = {view.name: view for view in pool.engine.pool().nodes}
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    views = {view.name: view for view in pool.engine.pool().nodes}
    changed = [name for name, view in views.items() if view is not empty[name]]
    assert len(changed) == 1
    assert [cell.holder and cell.holder.job for cell in views[changed[0]].gpus].count(job.id) == 2
    pool.executor.report(pool.key(job.id), step=1)
    await pool.idle()
    assert all(view is views[view.name] for view in pool.engine.pool().nodes)


async def test_the_view_of_a_node_has_the_groups_of_its_gpus(pool):
    islands, sockets = ((0, 1), (2,), (3,)), ((0, 2), (1, 3))
    pool.executor.change_nodes(replace(NODES[0], islands=islands, sockets=sockets), NODES[1])
    await pool.idle()
    linked, alike = pool.engine.pool().nodes
    assert (linked.islands, linked.sockets) == ([[0, 1], [2], [3]], [[0, 2], [1, 3]])
    assert (alike.islands, alike.sockets) == ([], [])


async def test_gpus_are_marked_as_borrowed_when_the_quota_changes_under_a_running_job(pool, members):
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    for quota, borrowed in ((2, 0), (1, 1), (0, 2), (2, 0)):
        await pool.engine.edit_project("susan", wire.ProjectEdit(quota=quota), "admin", members=members)
        found = pool.engine.pool().nodes
        assert found == made_anew(pool)
        held = [cell.holder for view in found for cell in view.gpus if cell.holder is not None]
        assert sum(holder.borrowed for holder in held) == borrowed
