"""Build GPUs of a cluster's nodes that something outside the pool takes: slots are only numbers there."""

from __future__ import annotations

from typing import Any

import engine_worlds as worlds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.scheduler.engine.state.observed import taken_beside
from springtide.scheduler.model import Environment, Node
from springtide.scheduler.refusal import Refusal

GPUS = 6


def build_node(takers: dict[int, str], resource: str = "nvidia.com/gpu") -> Node:
    environment = Environment.BUILD
    return Node("b", GPUS, environment=environment, resource=resource, taken=frozenset(takers), takers=takers)


def test_a_taken_slot_that_a_workspace_has_is_another_one() -> None:
    found = taken_beside(build_node({5: "team/a", 4: "team/a"}), {4, 5})
    assert found.takers == {3: "team/a", 2: "team/a"}
    assert found.taken == {2, 3}


def test_on_one_machine_a_taken_gpu_is_that_one() -> None:
    node = build_node({5: ""}, resource="")
    assert taken_beside(node, {5}) is node


@given(st.sets(st.integers(0, GPUS - 1)), st.sets(st.integers(0, GPUS - 1)))
def test_as_many_are_taken_as_before_beside_those_held_as_far_as_there_is_room(
    taken: set[int], held: set[int]
) -> None:
    found = taken_beside(build_node({index: f"team/{index}" for index in taken}), held)
    assert not found.taken & held
    assert len(found.taken) == min(len(taken), GPUS - len(held))
    assert set(found.takers) == found.taken
    assert set(found.takers.values()) <= {f"team/{index}" for index in taken}
    assert taken_beside(found, held) is found


async def test_no_workspace_gets_a_gpu_that_a_pod_of_others_has_whichever_slots_are_taken(pool: Any) -> None:
    def build(takers: dict[int, str]) -> Node:
        more = {"taken": frozenset(takers), "takers": takers, "resource": "nvidia.com/gpu"}
        return worlds.node("build", 2, Environment.BUILD, **more)

    pool.executor.change_nodes(worlds.node(), build({}))
    await pool.idle()
    await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    pool.executor.change_nodes(worlds.node(), build({0: "team/bert"}))
    await pool.idle()
    assert pool.engine.build_quota("joe", ["joe"]).free == 0
    with pytest.raises(Refusal, match="only 0 build GPUs are free"):
        await pool.engine.reserve_workspace("joe", "", 1, ["joe"])
    (view,) = (node for node in pool.engine.pool().nodes if node.name == "build")
    assert {(cell.holder.kind, cell.holder.name) for cell in view.gpus} == {
        ("workspace", ""),
        ("foreign", "team/bert"),
    }
    pool.executor.change_nodes(worlds.node(), build({}))
    await pool.idle()
    await pool.engine.reserve_workspace("joe", "", 1, ["joe"])
