"""Build GPUs of a cluster's nodes that something outside the pool takes: slots are only numbers there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from springtide.scheduler.engine.state.observed import taken_beside
from springtide.scheduler.model import Environment, Node

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
