from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from benches.executor_bench import SLEEPS
from benches.local_bench import LocalBench

from springtide.scheduler.executors.base import ExitKind, InventoryChanged
from springtide.scheduler.gpu_types import DeclarationError, DeclaredTypes, type_name
from springtide.scheduler.model import Environment
from springtide.scheduler.resources.network_cards import PciPlace
from springtide.scheduler.resources.per_gpu import UNSPECIFIED
from springtide.scheduler.telemetry import Computing, GpuSample, Machine, TelemetryError, count_gpus, discover
from springtide.scheduler.telemetry.machine import Device, divide, islands, sockets
from springtide.scheduler.telemetry.nvml import place_of


class Shared(Machine):
    """A machine with real GPUs of which others may take some."""

    def __init__(self) -> None:
        self.nodes = divide([Device(f"GPU-{n}", "NVIDIA Test", 1024) for n in range(4)], 1, simulated=False)
        self.on: dict[str, set[int]] = {}
        self.asked = 0

    def users(self, uuids: Collection[str]) -> Mapping[str, frozenset[int]]:
        self.asked += 1
        return {uuid: frozenset(self.on.get(uuid, ())) for uuid in uuids}

    def samples(self, _computing: Sequence[Computing]) -> Sequence[GpuSample]:
        return ()


def test_simulated_gpus_say_so_and_are_divided() -> None:
    machine = discover(simulated=11, build_gpus=3)
    build, train = machine.nodes
    assert (build.name, build.environment, build.gpus) == ("build", Environment.BUILD, 3)
    assert (train.name, train.environment, train.gpus) == ("train", Environment.TRAIN, 8)
    assert all(gpu.simulated and gpu.uuid.startswith("SIM-") for node in machine.nodes for gpu in node.devices)
    assert train.islands == ()
    assert train.per_gpu == UNSPECIFIED, "a machine may simulate any number of GPUs"
    assert machine.users(["SIM-00000000"]) == {"SIM-00000000": frozenset()}


def test_without_gpus_there_are_eight_simulated_ones_to_train_on() -> None:
    machine = discover(None, 3)
    simulated = not count_gpus()
    assert all(gpu.simulated is simulated for node in machine.nodes for gpu in node.devices)
    if simulated:
        assert [node.gpus for node in machine.nodes] == [3, 8]


@pytest.mark.parametrize(("gpus", "build"), [(0, 0), (-1, 0), (5000, 0), (4, 5), (4, -1)])
def test_a_machine_that_cannot_be_divided_so_is_refused_with_the_numbers(gpus: int, build: int) -> None:
    with pytest.raises(TelemetryError, match=str(gpus) if build == 0 else str(build)):
        discover(gpus, build)


def test_linked_gpus_form_islands_and_build_gpus_spare_the_large_ones() -> None:
    links = {1: {2, 3}, 2: {1, 3}, 3: {1, 2}}
    devices = [Device(f"GPU-{n}", "NVIDIA A100", 1, frozenset(links.get(n, ()))) for n in range(5)]
    assert islands(devices) == ((0,), (1, 2, 3), (4,))
    build, train = divide(devices, 1, simulated=False)
    assert [gpu.uuid for gpu in build.devices] == ["GPU-0"]
    assert train.islands == ((0, 1, 2), (3,))
    assert islands([replace(each, linked=frozenset()) for each in devices]) == ()


def test_gpus_are_grouped_by_the_socket_they_are_attached_to() -> None:
    devices = [Device(f"GPU-{n}", "NVIDIA L40S", 1, socket=socket) for n, socket in enumerate((1, 0, 0, 1, 0))]
    assert sockets(devices) == ((1, 2, 4), (0, 3))
    build, train = divide(devices, 1, simulated=False)
    assert [gpu.uuid for gpu in build.devices] == ["GPU-0"]
    assert train.sockets == ((0, 1, 3), (2,))
    assert sockets([*devices, Device("GPU-5", "NVIDIA L40S", 1)]) == ()


@pytest.mark.parametrize(
    ("told", "socket"), [("0\n", 0), ("1\n", 1), ("-1\n", None), ("", None), ("none\n", None)]
)
def test_the_kernel_tells_the_socket_of_a_gpu_if_it_knows(tmp_path: Path, told: str, socket: int | None) -> None:
    device = tmp_path / "sys/bus/pci/devices/000f:c1:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text(told)
    assert place_of("0000000F:C1:00.0", tmp_path).socket == socket
    assert place_of("00000000:C1:00.0", tmp_path) == PciPlace()
    assert place_of("", tmp_path) == PciPlace()


def test_each_gpu_type_gets_its_node() -> None:
    names = ["NVIDIA T4", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"]
    nodes = divide([Device(f"GPU-{n}", name, 1) for n, name in enumerate(names)], 0, simulated=False)
    assert [(node.name, node.gpu_type, node.gpus) for node in nodes] == [
        ("build", "", 0),
        ("train", "a100-sxm4-80gb", 2),
        ("train-t4", "t4", 1),
    ]


def test_build_gpus_are_chosen_by_type_or_from_the_rarest() -> None:
    machine = discover({"t4": 4, "a100": 8}, 6)
    assert [(node.name, node.gpu_type, node.gpus) for node in machine.nodes] == [
        ("build", "t4", 4),
        ("build-a100", "a100", 2),
        ("train", "a100", 6),
    ]
    machine = discover({"t4": 4, "a100": 8}, {"t4": 1, "A100": 2})
    assert [(node.name, node.gpu_type, node.gpus) for node in machine.nodes] == [
        ("build", "a100", 2),
        ("build-t4", "t4", 1),
        ("train", "a100", 6),
        ("train-t4", "t4", 3),
    ]
    assert all(gpu.simulated for node in machine.nodes for gpu in node.devices)
    assert len({gpu.uuid for node in machine.nodes for gpu in node.devices}) == 12


@pytest.mark.parametrize(
    ("build", "told"),
    [({"t4": 5}, "4 simulated GPUs of the type t4"), ({"h100": 1}, "0 simulated GPUs of the type")],
)
def test_build_gpus_of_a_type_that_are_not_there_are_refused_with_the_numbers(
    build: dict[str, int], told: str
) -> None:
    with pytest.raises(TelemetryError, match=told):
        discover({"t4": 4, "a100": 8}, build)


@pytest.mark.parametrize("simulated", [{}, {"t4": 0}, {"t4": 4000, "a100": 4000}])
def test_a_simulated_machine_has_gpus_of_each_type(simulated: dict[str, int]) -> None:
    with pytest.raises(TelemetryError, match="can be simulated"):
        discover(simulated)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Tesla V100-PCIE-16GB", "v100-pcie-16gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA-A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-sxm4-40gb-mig-1g.5gb"),
        ("AMD_Instinct_MI300X_OAM", "instinct-mi300x-oam"),
        ("Simulated GPU", "simulated"),
        ("", "gpu"),
    ],
)
def test_drivers_and_labels_write_a_model_differently_and_mean_one_type(model: str, name: str) -> None:
    assert type_name(model) == name == type_name(name)


def test_an_admin_declares_several_models_to_be_one_type() -> None:
    types = DeclaredTypes.of_setting(
        {"t4": ["Tesla T4"], "a100": ["NVIDIA A100-SXM4-80GB", "NVIDIA-A100-PCIE-40GB"]}
    )
    assert [types.of(name) for name in ("NVIDIA A100-PCIE-40GB", "a100-sxm4-80gb", "A100", "h100")] == [
        "a100",
        "a100",
        "a100",
        "h100",
    ]
    assert types.in_order(["h100", "a100", "t4", "a100"]) == ("t4", "a100", "h100")
    names = ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB", "Tesla T4"]
    nodes = divide([Device(f"GPU-{n}", name, 1) for n, name in enumerate(names)], 0, types, simulated=False)
    assert [(node.name, node.gpu_type, node.gpus) for node in nodes[1:]] == [
        ("train", "a100", 2),
        ("train-t4", "t4", 1),
    ]
    with pytest.raises(DeclarationError, match="both “t4” and “a100”"):
        DeclaredTypes.of_setting({"t4": ["Tesla T4"], "a100": ["NVIDIA T4"]})


async def test_a_gpu_that_others_use_is_taken_until_they_leave(tmp_path: Path) -> None:
    machine = Shared()
    with subprocess.Popen([sys.executable, "-S", "-c", SLEEPS], stdout=subprocess.DEVNULL) as other:
        machine.on = {"GPU-1": {other.pid}}
        bench = LocalBench(tmp_path / "state", machine)
        await bench.open()
        assert [node.taken for node in await bench.executor.inventory()] == [frozenset(), frozenset({0})]
        asked = machine.asked
        await asyncio.sleep(0.1)
        assert machine.asked == asked
        machine.on = {}
        other.kill()
        other.wait()
        bench.seen.clear()
        await bench.until(lambda: bench.of_kind(InventoryChanged), "the GPU to be free")
        assert [node.taken for node in await bench.executor.inventory()] == [frozenset(), frozenset()]
    await bench.close()


async def test_a_process_that_cannot_be_watched_is_looked_for_again(tmp_path: Path) -> None:
    machine = Shared()
    machine.on = {"GPU-1": {2**22 + 1}}
    bench = LocalBench(tmp_path / "state", machine)
    await bench.open()
    assert [node.taken for node in await bench.executor.inventory()][1] == frozenset({0})
    bench.seen.clear()
    machine.on = {}
    await bench.until(lambda: bench.of_kind(InventoryChanged), "the GPU to be free")
    await bench.close()


async def test_nothing_is_launched_onto_a_gpu_that_somebody_took(tmp_path: Path) -> None:
    machine = Shared()
    bench = LocalBench(tmp_path / "state", machine)
    await bench.open()
    with subprocess.Popen([sys.executable, "-S", "-c", SLEEPS], stdout=subprocess.DEVNULL) as other:
        machine.on = {"GPU-1": {other.pid}}
        ended = await bench.run(bench.code("print('ran')"))
        assert ended.exit is not None
        assert ended.exit.kind is ExitKind.BLOCKED
        assert str(other.pid) in ended.exit.detail
        assert await bench.log("job") == ""
        assert bench.of_kind(InventoryChanged)
        other.kill()
    await bench.close()


async def test_gpus_of_our_own_attempts_are_not_taken(tmp_path: Path) -> None:
    machine = Shared()
    bench = LocalBench(tmp_path / "state", machine)
    await bench.open()
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    machine.on = {"GPU-1": {bench.supervisor(spec.key)}}
    await bench.run(bench.code("pass", job="other", placement=(replace(spec.placement[0], gpus=(1,)),)))
    assert [node.taken for node in await bench.executor.inventory()][1] == frozenset()
    machine.on = {}
    await bench.close()
