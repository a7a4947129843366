"""Projects, nodes and the whole pool as text."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from springtide.hub_extension.commands.pool import (
    as_tree,
    cell_mark,
    drain_lines,
    group_row,
    header,
    holders,
    node_row,
    project_bar,
    project_rows,
    screen,
    topology_row,
)
from springtide.scheduler.wire import (
    CardsView,
    DrainView,
    GpuCell,
    Holder,
    NodeGroupView,
    NodeView,
    PoolView,
    ProjectView,
    TypeNumbers,
    TypeUse,
)
from springtide.scheduler.wording import with_offset


def project(name: str, **changes: Any) -> ProjectView:
    told: dict[str, Any] = {
        "name": name, "parent": None, "quota": 2, "set_quota": 2, "limit": None, "weight": 1.0, "priority": 100,
        "build_quota": 1,
        "fair_share": 2, "held": 0, "borrowed": 0, "waiting": 0, "running_jobs": 0, "waiting_jobs": 0, "colour": 0,
    }  # fmt: skip
    return ProjectView(**(told | changes))


def test_projects_are_told_with_their_parents() -> None:
    views = [project("b", parent="a"), project("a"), project("orphan", parent="unseen"), project("c", parent="b")]
    assert [path for path, _ in as_tree(views)] == ["a", "a/b", "a/b/c", "orphan"]


def test_a_bar_tells_held_borrowed_waiting_and_where_the_quota_ends() -> None:
    assert project_bar(project("a", quota=2, held=5, borrowed=3, waiting=2)) == "##|///.."
    assert project_bar(project("a", quota=4, held=1, waiting=1)) == "#.__|"
    assert project_bar(project("a", quota=None, held=2)) == "##"
    assert len(project_bar(project("a", quota=0, held=10_000, borrowed=10_000))) == 40


def test_a_screen_shows_who_holds_what() -> None:
    cells = [
        GpuCell(index=0, uuid="u0", holder=Holder(kind="job", user="susan", project="susan")),
        GpuCell(index=1, uuid="u1", holder=Holder(kind="job", user="susan", project="susan", borrowed=True)),
        GpuCell(index=2, uuid="u2", reserved_for="joe"),
        GpuCell(index=3, uuid="u3"),
    ]
    node = NodeView(
        name="here",
        environment="train",
        gpu_type="simulated",
        available=True,
        simulated=True,
        labels={},
        gpus=cells,
        free={"idle": 2},
    )
    away = NodeView(
        name="there",
        environment="train",
        gpu_type="simulated",
        available=False,
        simulated=True,
        labels={},
        gpus=cells[-1:],
        drain=DrainView(by="admin", since=0.0, why="", finish=False),
        free={"drained": 1},
    )
    pool = PoolView(
        seq=1, nodes=[node, away], projects=[project("susan", held=2, borrowed=1)], train_gpus=5, train_held=2,
        build_gpus=0, build_held=0, simulated=True, quota_sum=2, train_free={"idle": 2, "drained": 1},
    )  # fmt: skip
    assert "".join(cell_mark(cell) for cell in cells) == "#/+."
    assert holders(cells) == {"susan": 2}
    lines = list(screen(pool))
    held = "2 of 5 simulated train GPUs held, 2 idle, 1 drained"
    assert lines[0] == f"{held}; 0 of 0 simulated build GPUs in notebooks"
    assert lines[-2:] == ["here (train) [#/+.] susan 2, idle 2", "there (train) [.] drained 1"]
    assert node_row(away)[4:6] == ("1 drained", "drained")
    silent = replace(away, drain=None, closure="not ready", closed_since=0.0)
    assert node_row(silent)[5] == f"not ready since {with_offset(0.0)}"
    assert node_row(replace(silent, closure="cordoned", closed_since=None))[5] == "cordoned"
    assert node_row(replace(silent, closure="", closed_since=None))[5] == "lost or closed"


def test_gpus_of_pods_outside_the_pool_are_said_with_the_names_of_these() -> None:
    names = ("team/bert", "team/bert", "")
    cells = [
        GpuCell(index=index, uuid=f"u{index}", holder=Holder(kind="foreign", name=name))
        for index, name in enumerate(names)
    ]
    assert holders(cells) == {"team/bert": 2, "foreign": 1}


def test_who_drained_a_node_or_a_gpu_is_told_with_the_reason() -> None:
    by_admin = DrainView(by="admin", since=1_000_000.0, why="", finish=False)
    by_pool = DrainView(by="springtide", since=1_000_000.0, why="It reported the Xid error 79.", finish=False)
    cells = [GpuCell(index=0, uuid="u0"), GpuCell(index=1, uuid="u1", drain=by_pool)]
    node = NodeView(
        name="here", environment="train", gpu_type="t4", available=True, simulated=False, labels={}, gpus=cells
    )
    assert node_row(node)[5] == "available, 1 GPU drained"
    assert node_row(replace(node, available=False, drain=by_admin))[5] == "drained"
    first, second = drain_lines([node, replace(node, gpus=[], drain=by_admin)])
    assert first.startswith("GPU 1 of here was drained by springtide at 1970-01-12 ")
    assert first.endswith(": It reported the Xid error 79.")
    assert second.startswith("here was drained by admin at 1970-01-12 ")
    booked = replace(node, gpus=[], drain=replace(by_admin, booking=7))
    assert next(iter(drain_lines([booked]))).startswith("here was drained by booking 7 of admin at 1970-01-12 ")


def test_a_node_tells_for_how_many_workers_it_has_rdma() -> None:
    node = NodeView(
        name="a", environment="train", gpu_type="h100", available=True, simulated=False, labels={},
        gpus=[GpuCell(index=index, uuid=f"u{index}") for index in range(8)], cpus_per_gpu=8.0,
    )  # fmt: skip
    told = [node_row(replace(node, rdma_workers=workers))[6] for workers in (0, 1, 4, 8)]
    each = "8 cores per GPU"
    assert told == [each, f"{each}; RDMA for 1 worker", f"{each}; RDMA for 4 workers", f"{each}; RDMA"]


def test_the_topology_of_a_node_is_its_groups_of_gpus_and_its_labels() -> None:
    node = NodeView(
        name="a", environment="train", gpu_type="h100", available=True, simulated=False, labels={"rack": "r1"},
        gpus=[GpuCell(index=index, uuid=f"u{index}") for index in range(8)],
        islands=[[0, 1, 2, 3], [4, 5], [6], [7]], sockets=[[0, 2, 3, 6], [1, 4, 5, 7]],
        cards=[
            CardsView(names=["mlx5_0"], gpus=[0, 1], within="switch"),
            CardsView(names=["mlx5_0", "mlx5_1"], gpus=[3], within="socket"),
        ],
    )  # fmt: skip
    cards = "0-1: mlx5_0 (switch) | 3: mlx5_0,mlx5_1 (socket)"
    assert topology_row(node)[3:] == (8, "0-3 | 4-5 | 6 | 7", "0,2-3,6 | 1,4-5,7", cards, "rack r1")
    bare = replace(node, labels={}, islands=[], sockets=[], cards=[])
    assert topology_row(bare)[4:] == ("-", "-", "-", "-")


def test_several_gpu_types_have_a_line_each_and_one_type_has_none() -> None:
    numbers = {"limit": None, "fair_share": 2, "waiting": 0}
    view = project(
        "susan",
        by_type={
            "t4": TypeNumbers(quota=4, held=1, borrowed=0, **numbers),
            "a100": TypeNumbers(quota=0, held=2, borrowed=2, **numbers),
        },
    )
    use = {
        "t4": TypeUse(train_gpus=8, train_held=1, quota_sum=4),
        "a100": TypeUse(train_gpus=4, train_held=2, quota_sum=0),
    }
    pool = PoolView(
        seq=1, nodes=[], projects=[view], train_gpus=12, train_held=3, build_gpus=0, build_held=0, simulated=False,
        quota_sum=4, gpu_types=["t4", "a100"], by_type=use,
    )  # fmt: skip
    assert header(pool)[:3] == ("PROJECT", "TYPE", "QUOTA")
    assert [row[:5] for row in project_rows("susan", view, pool)] == [
        ("susan", "t4", 4, 1, 0),
        ("", "a100", 0, 2, 2),
    ]
    lines = list(screen(pool))
    assert lines[0] == (
        "1 of 8 train t4 GPUs, 2 of 4 train a100 GPUs held, none idle; 0 of 0 build GPUs in notebooks"
    )
    assert any("a100" in line and line.rstrip().endswith("|//") for line in lines)


def test_a_node_group_is_told_with_what_it_has_is_asked_for_and_may_have() -> None:
    group = NodeGroupView(name="big", gpu_type="h100", gpus=8, nodes=1, asked=2, most=4, error="exceeded quota")
    assert group_row(group) == ("big", "h100", 8, 1, 2, 4, "-", "exceeded quota")
    assert str(group_row(replace(group, since=0.0))[6]).startswith("19")
