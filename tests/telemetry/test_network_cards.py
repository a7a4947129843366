"""Network cards with RDMA, read from a made-up tree of the kernel's files in a folder."""

from __future__ import annotations

from pathlib import Path

from sysfs_cards import add_card

from springtide.scheduler.telemetry.discovery import discover
from springtide.scheduler.telemetry.network_cards import network_cards


def names(root: Path) -> list[str]:
    return [card.name for card in network_cards(root)]


def test_a_machine_without_cards_has_none(tmp_path: Path) -> None:
    assert names(tmp_path) == []


def test_cards_with_a_link_are_found_by_name(tmp_path: Path) -> None:
    add_card(tmp_path, "mlx5_1", 0)
    add_card(tmp_path, "mlx5_0", 1, states=("1: DOWN", "4: ACTIVE"))
    assert names(tmp_path) == ["mlx5_0", "mlx5_1"]


def test_a_card_without_a_link_does_not_count(tmp_path: Path) -> None:
    add_card(tmp_path, "mlx5_0", 0, states=("1: DOWN", "2: INIT"))
    add_card(tmp_path, "mlx5_1", 1, states=())
    assert names(tmp_path) == []


def test_a_card_that_a_container_was_not_handed_in_does_not_count(tmp_path: Path) -> None:
    add_card(tmp_path, "mlx5_0", 0)
    add_card(tmp_path, "mlx5_1", 1)
    (tmp_path / "dev/infiniband/uverbs0").unlink()
    assert names(tmp_path) == ["mlx5_1"]


def test_every_worker_of_a_machine_with_a_card_may_have_rdma(tmp_path: Path) -> None:
    assert [node.per_gpu.rdma for node in discover(5, 2, root=tmp_path).nodes] == [0.0, 0.0]
    add_card(tmp_path, "mlx5_0", 0)
    build, train = discover(5, 2, root=tmp_path).nodes
    assert (build.per_gpu.rdma_workers(build.gpus), train.per_gpu.rdma_workers(train.gpus)) == (2, 3)
