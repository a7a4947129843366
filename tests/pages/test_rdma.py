"""A job with RDMA on a machine with a network card, which is a made-up tree of the kernel's files in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from machines.sysfs_cards import add_card
from msgspec import structs
from playwright.sync_api import Page, expect
from pools.pages_service import PERSON, Service, Windows

from springtide.scheduler.resources.network_cards import NearestCards
from springtide.scheduler.telemetry import discover


@pytest.fixture(scope="module")
def with_card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    root = tmp_path_factory.mktemp("root")
    add_card(root, "mlx5_0", 0)
    machine = discover(11, 3, root=root)
    build, train = machine.nodes
    by_switch, by_socket = NearestCards("switch", ("mlx5_0",)), NearestCards("socket", ("mlx5_1", "mlx5_2"))
    near = {0: by_switch, 1: by_switch, 4: by_socket, 5: by_socket}
    devices = tuple(replace(gpu, cards=near.get(gpu.index)) for gpu in train.devices)
    islands = ((0, 2), (1, 3), (4, 5), (6,), (7,))
    machine.nodes = (
        build,
        structs.replace(train, devices=devices, islands=islands, sockets=((0, 1, 2, 3), (4, 5, 6, 7))),
    )
    service = Service(tmp_path_factory.mktemp("rdma"), machine)
    service.start()
    yield service
    service.stop()


def visit(windows: Windows, service: Service, path: str) -> Page:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.goto(service.url + path)
    return page


def test_a_job_with_rdma_runs_and_is_shown_with_it_as_is_the_node(windows: Windows, with_card: Service) -> None:
    job = with_card.submit("susan", gpus=2, rdma=True)
    with_card.until(job.id, lambda job: job.state == "running")
    page = visit(windows, with_card, f"jobs/{job.id}")
    expect(page.locator(".st-facts div").filter(has_text="RDMA")).to_contain_text("yes")
    pool = visit(windows, with_card, "pool")
    row = pool.get_by_test_id("node-row").filter(has_text="train")
    expect(row.get_by_test_id("node-rdma")).to_have_text("RDMA")
    of_workspaces = pool.get_by_test_id("node-row").filter(has_text="build")
    expect(of_workspaces).to_be_visible()
    expect(of_workspaces.get_by_test_id("node-rdma")).to_have_count(0)
    with_card.end_jobs()


def test_the_links_of_gpus_are_drawn_over_the_gpus_that_they_join(windows: Windows, with_card: Service) -> None:
    drawing = visit(windows, with_card, "pool").get_by_test_id("topology")
    expect(drawing).to_have_count(1)
    expect(drawing.locator("caption")).to_have_text("train · 8 GPUs · simulated")
    drawn = [
        (span.get_attribute("colspan"), span.text_content())
        for line in drawing.get_by_test_id("links").all()
        for span in line.locator("td").all()
    ]
    assert drawn == [
        ("1", "A (GPUs 0, 2: linked by NVLink)"),
        ("1", "B (GPUs 1, 3: linked by NVLink)"),
        ("1", "A (GPUs 0, 2: linked by NVLink)"),
        ("1", "B (GPUs 1, 3: linked by NVLink)"),
        ("2", "C (GPUs 4, 5: linked by NVLink)"),
        ("2", "none"),
        ("4", "1 (GPUs 0, 1, 2, 3: on one processor socket)"),
        ("4", "2 (GPUs 4, 5, 6, 7: on one processor socket)"),
        ("2", "mlx5_0 (GPUs 0, 1: behind the same PCIe switch)"),
        ("2", "none"),
        ("2", "mlx5_1, mlx5_2 (GPUs 4, 5: on the same processor socket)"),
        ("2", "none"),
    ]
    expect(drawing).to_contain_text(
        "Network cards, solid: behind the same PCIe switch; dashed: on the same processor socket."
    )


def test_a_job_without_rdma_is_not_shown_with_it(windows: Windows, with_card: Service) -> None:
    job = with_card.submit("susan", gpus=1)
    page = visit(windows, with_card, f"jobs/{job.id}")
    expect(page.locator(".st-facts div").filter(has_text="Priority")).to_be_visible()
    expect(page.locator(".st-facts div").filter(has_text="RDMA")).to_have_count(0)
    with_card.end_jobs()
