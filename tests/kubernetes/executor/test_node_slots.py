"""The GPUs behind the slots of a node, as its agent tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from springtide.scheduler.executors.kubernetes.agents import claimed_slots, described, gpus_of_node
from springtide.scheduler.executors.kubernetes.slots import assign
from springtide.scheduler.model import Gpu, Node
from springtide.scheduler.telemetry.agent.report import ReportedGpu

WHOLE = "nvidia.com/gpu"
NAMES = ["A", "B", "C", "D"]


def node(gpus: int = 4, taken: Sequence[int] = ()) -> Node:
    devices = tuple(Gpu(f"dgx/{index}", index, "H100", simulated=True) for index in range(gpus))
    return Node("dgx", gpus, "h100", devices=devices, taken=frozenset(taken), resource=WHOLE)


def pairs(*sockets: int | None) -> list[ReportedGpu]:
    """Four GPUs, of which A and B, and C and D, are linked."""
    by_number = zip(NAMES, [(1,), (0,), (3,), (2,)], sockets or (0, 0, 1, 1), strict=True)
    return [ReportedGpu(name, "NVIDIA H100", 80, linked, socket, WHOLE) for name, linked, socket in by_number]


def test_without_pods_slots_stand_for_the_gpus_in_their_order() -> None:
    assert assign(node(), NAMES, {}, (), {}) == {0: "A", 1: "B", 2: "C", 3: "D"}


def test_the_slots_of_a_pod_stand_for_the_gpus_that_the_kubelet_chose() -> None:
    before = {0: "A", 1: "B", 2: "C", 3: "D"}
    assert assign(node(), NAMES, {(0, 1): ("D", "C")}, (), before) == {0: "C", 1: "D", 2: "A", 3: "B"}
    assert assign(node(), NAMES, {(0, 1): ("A", "D")}, (), before) == {0: "A", 1: "D", 2: "C", 3: "B"}
    assert assign(node(), NAMES, {(0, 1): ("B", "A")}, (), before) == before


def test_taken_slots_stand_for_the_gpus_of_other_pods() -> None:
    found = assign(node(taken=[3]), NAMES, {(0,): ("C",)}, ("A",), {0: "A", 1: "B", 2: "C", 3: "D"})
    assert found == {0: "C", 1: "B", 2: "D", 3: "A"}


def test_gpus_that_the_report_does_not_have_are_behind_no_slot() -> None:
    assert assign(node(), ["A", "B"], {(2, 3): ("X", "B")}, (), {}) == {2: "B", 0: "A"}


def test_claimed_gpus_are_behind_the_slots_that_their_claims_say_and_have_islands_when_all_are_reported() -> None:
    devices = tuple(Gpu(name, index, "H100") for index, name in enumerate("DBAC"))
    claimed = Node("dgx", 4, "h100", devices=devices, resource="springtide-h100-0123abcd")
    reported = [ReportedGpu(gpu.uuid, gpu.name, gpu.memory_mib, gpu.linked, gpu.socket) for gpu in pairs()]
    stranger = ReportedGpu("X", "NVIDIA L4", 24)
    of_node = gpus_of_node(claimed, False, [*reported, stranger])
    assert of_node == reported
    found = described(claimed, claimed_slots(claimed, of_node), reported)
    assert [gpu.uuid for gpu in found.devices] == list("DBAC")
    assert found.islands == ((0, 3), (1, 2))
    assert claimed_slots(claimed, [reported[0], stranger]) == {2: "A"}


World: TypeAlias = tuple[Node, list[str], dict[tuple[int, ...], tuple[str, ...]], set[str], dict[int, str]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    gpus = draw(st.lists(st.sampled_from("ABCDEF"), unique=True, max_size=6))
    slots = draw(st.permutations(range(6)))
    cuts = sorted(draw(st.lists(st.integers(0, 6), max_size=3)))
    groups = [tuple(slots[start:end]) for start, end in zip([0, *cuts], cuts, strict=False) if start < end]
    held = {group: tuple(draw(st.lists(st.sampled_from("ABCDEFX"), max_size=6))) for group in groups}
    taken = draw(st.sets(st.sampled_from(range(6))))
    before = dict(zip(draw(st.permutations(range(6))), draw(st.permutations("ABCDEF")), strict=True))
    return node(6, sorted(taken)), gpus, held, set(draw(st.lists(st.sampled_from("ABCDEF")))), before


@given(worlds())
def test_each_slot_has_one_gpu_whatever_agents_tell_and_telling_it_again_changes_nothing(world: World) -> None:
    of, gpus, held, others, before = world
    found = assign(of, gpus, held, others, before)
    assert len(set(found.values())) == len(found) == len(gpus)
    assert set(found.values()) <= set(gpus)
    assert set(found) <= set(range(of.gpus))
    assert assign(of, gpus, held, others, found) == found


def test_a_node_has_the_islands_and_sockets_of_the_gpus_behind_its_slots() -> None:
    found = described(node(), {0: "C", 1: "A", 2: "D", 3: "B"}, pairs())
    assert [(gpu.uuid, gpu.index) for gpu in found.devices] == [("C", 0), ("A", 1), ("D", 2), ("B", 3)]
    assert not any(gpu.simulated for gpu in found.devices)
    assert found.islands == ((0, 2), (1, 3))
    assert found.sockets == ((1, 3), (0, 2))
    assert described(node(), {0: "A", 1: "B", 2: "C", 3: "D"}, pairs(0, 0, None, 0)).sockets == ()
    assert described(node(), {0: "A", 1: "B", 2: "C", 3: "D"}, pairs(0, 0, 0, 0)).sockets == ()


def test_where_a_gpu_is_unknown_so_are_islands_and_sockets() -> None:
    found = described(node(), {0: "C", 1: "A", 2: "D"}, pairs())
    assert [gpu.uuid for gpu in found.devices] == ["C", "A", "D", "dgx/3"]
    assert (found.islands, found.sockets) == ((), ())
    assert described(node(), {}, pairs()) == node()


def test_gpus_belong_to_the_node_of_their_resource() -> None:
    resources = {"GPU-a": WHOLE, "MIG-b": "nvidia.com/mig-1g", "c": ""}
    gpus = [ReportedGpu(uuid, resource=resource) for uuid, resource in resources.items()]
    assert [gpu.uuid for gpu in gpus_of_node(node(), False, gpus)] == ["GPU-a"]
    assert [gpu.uuid for gpu in gpus_of_node(node(), True, gpus)] == ["GPU-a", "c"]


def test_more_gpus_than_slots_tell_nothing() -> None:
    assert gpus_of_node(node(2), True, pairs()) == []
