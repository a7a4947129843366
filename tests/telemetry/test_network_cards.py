"""Network cards with RDMA, read from a made-up tree of the kernel's files in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from machines.nvml_library import Driver
from machines.sysfs_cards import add_card, add_device

from springtide.scheduler.executors.kubernetes.agents import described
from springtide.scheduler.model import Gpu, Node
from springtide.scheduler.resources.network_cards import SOCKET, SWITCH, NearestCards, PciPlace, nearest_cards
from springtide.scheduler.telemetry.agent.collector import Collector
from springtide.scheduler.telemetry.agent.report import NodeReport, ReportedGpu, ReportError, decode, encode
from springtide.scheduler.telemetry.discovery import discover
from springtide.scheduler.telemetry.network_cards import network_cards

ROOT_PORT = "pci0000:80/0000:80:01.0"
SWITCHED = f"{ROOT_PORT}/0000:81:00.0"
"""A root port, and the upstream port of a switch below it."""


def names(root: Path, *, usable: bool = True) -> list[str]:
    return [card.name for card in network_cards(root) if card.usable or not usable]


def test_a_machine_without_cards_has_none(tmp_path: Path) -> None:
    assert network_cards(tmp_path) == []


def test_cards_with_a_link_are_found_by_name(tmp_path: Path) -> None:
    add_card(tmp_path, "mlx5_1", 0)
    add_card(tmp_path, "mlx5_0", 1, states=("1: DOWN", "4: ACTIVE"))
    assert names(tmp_path) == ["mlx5_0", "mlx5_1"]


def test_a_card_without_a_link_does_not_count(tmp_path: Path) -> None:
    add_card(tmp_path, "mlx5_0", 0, states=("1: DOWN", "2: INIT"))
    add_card(tmp_path, "mlx5_1", 1, states=())
    assert network_cards(tmp_path) == []


def test_a_card_that_a_container_was_not_handed_in_is_there_and_not_usable(tmp_path: Path) -> None:
    add_card(tmp_path, "mlx5_0", 0)
    add_card(tmp_path, "mlx5_1", 1)
    (tmp_path / "dev/infiniband/uverbs0").unlink()
    assert (names(tmp_path), names(tmp_path, usable=False)) == (["mlx5_1"], ["mlx5_0", "mlx5_1"])


def test_virtual_functions_of_a_card_are_no_cards(tmp_path: Path) -> None:
    add_card(tmp_path, "mlx5_0", 0)
    (add_card(tmp_path, "mlx5_1", 1) / "physfn").mkdir()
    assert names(tmp_path) == ["mlx5_0"]


def test_every_worker_of_a_machine_with_a_card_may_have_rdma(tmp_path: Path) -> None:
    assert [node.per_gpu.rdma for node in discover(5, 2, root=tmp_path).nodes] == [0.0, 0.0]
    add_card(tmp_path, "mlx5_0", 0)
    build, train = discover(5, 2, root=tmp_path).nodes
    assert (build.per_gpu.rdma_workers(build.gpus), train.per_gpu.rdma_workers(train.gpus)) == (2, 3)
    (tmp_path / "dev/infiniband/uverbs0").unlink()
    assert discover(5, 2, root=tmp_path).nodes[1].per_gpu.rdma == 0.0


# ---------- near GPUs


def place(path: str, socket: int | None = None) -> PciPlace:
    return PciPlace(("/", "sys", "devices", *path.split("/")), socket)


@pytest.mark.parametrize(
    ("gpu", "cards", "nearest"),
    [
        (place("x"), {}, None),
        (PciPlace(), {"a": PciPlace()}, None),
        (
            place(f"{SWITCHED}/0000:82:00.0/0000:83:00.0", 1),
            {"a": place(f"{SWITCHED}/0000:82:08.0/0000:84:00.0", 1), "b": place("pci0000:90/0000:90:00.0", 1)},
            NearestCards(SWITCH, ("a",)),
        ),
        (
            place(f"{SWITCHED}/0000:82:00.0/0000:83:00.0"),
            {
                "far": place(f"{ROOT_PORT}/0000:85:00.0"),
                "near": place(f"{SWITCHED}/0000:82:08.0/0000:84:00.0"),
                "also": place(f"{SWITCHED}/0000:82:09.0/0000:86:00.0"),
            },
            NearestCards(SWITCH, ("also", "near")),
        ),
        (
            place("pci0000:80/0000:80:01.0/0000:81:00.0", 1),
            {
                "b": place("pci0000:80/0000:80:02.0/0000:82:00.0", 1),
                "a": place("pci0000:90/0000:90:01.0/0000:91:00.0", 1),
                "c": place("pci0000:10/0000:10:01.0/0000:11:00.0", 0),
            },
            NearestCards(SOCKET, ("a", "b")),
        ),
        (place("pci0000:80/0000:80:01.0", 0), {"a": place("pci0000:90/0000:90:01.0", 1)}, None),
        (place("pci0000:00/0000:00:05.0"), {"a": place("pci0000:00/0000:00:06.0")}, None),
    ],
    ids=[
        "no cards",
        "unknown",
        "a switch",
        "the nearer switch",
        "a socket",
        "another socket",
        "a virtual machine",
    ],
)
def test_the_nearest_cards_are_behind_the_same_switch_else_on_the_same_socket(
    gpu: PciPlace, cards: dict[str, PciPlace], nearest: NearestCards | None
) -> None:
    assert nearest_cards(gpu, list(cards.items())) == nearest


@pytest.fixture
def machine(driver: Driver, tmp_path: Path) -> Path:
    """Three GPUs: one behind a switch with a card, one on the socket of two cards, one that is near to none."""
    driver.add(3)
    add_device(tmp_path, f"{SWITCHED}/0000:82:00.0/0000:00:00.0", 1)
    add_device(tmp_path, "pci0000:a0/0000:a0:01.0/0000:01:00.0", 1)
    add_device(tmp_path, "pci0000:10/0000:10:01.0/0000:02:00.0", 0)
    add_card(tmp_path, "mlx5_0", 0, path=f"{SWITCHED}/0000:82:08.0/0000:84:00.0", socket=1)
    add_card(tmp_path, "mlx5_1", 1, path="pci0000:b0/0000:b0:01.0/0000:b1:00.0", socket=1)
    return tmp_path


NEAREST = [NearestCards(SWITCH, ("mlx5_0",)), NearestCards(SOCKET, ("mlx5_0", "mlx5_1")), None]


def test_the_gpus_of_this_machine_know_their_nearest_cards(machine: Path) -> None:
    build, train = discover(None, 1, root=machine).nodes
    assert [gpu.cards for node in (train, build) for gpu in node.devices] == [*NEAREST[1:], NEAREST[0]]
    assert train.sockets == ((1,), (0,))


class NoKubelet:
    def assigned(self) -> tuple[()]:
        return ()

    def offered(self) -> dict[str, tuple[str, ...]]:
        return {}


def test_the_agent_of_a_node_tells_them_and_the_node_has_them_behind_its_slots(machine: Path) -> None:
    report = decode(encode(Collector(NoKubelet(), root=machine).report()))
    node = Node("n", 3, devices=tuple(Gpu(f"n/{index}", index) for index in range(3)))
    found = described(node, {0: "GPU-00000002", 1: "GPU-00000000", 2: "GPU-00000001"}, report.gpus)
    assert [gpu.cards for gpu in found.devices] == [NEAREST[2], NEAREST[0], NEAREST[1]]


@pytest.mark.parametrize(
    "cards",
    [
        {"within": "room", "names": ["mlx5_0"]},
        {"within": "switch", "names": []},
        {"within": "switch", "names": ["<b>"]},
        {"within": "switch", "names": ["x" * 64]},
        {"within": "switch", "names": ["mlx5_0"] * 65},
    ],
)
def test_a_report_with_cards_that_cannot_be_is_refused(cards: dict[str, Any]) -> None:
    report = NodeReport("0" * 16, (ReportedGpu("GPU-1"),))
    given = msgspec.to_builtins(report)
    given["gpus"][0]["cards"] = cards
    with pytest.raises(ReportError, match="is not one of an agent"):
        decode(msgspec.json.encode(given))
